package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/choria-io/fisk/units"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/leader"
)

// historySettings are those of --history and --history-size.
type historySettings struct {
	age   time.Duration // 0: as it is
	given bool          // the age was given
	size  int64         // bytes; 0: as it is, or the default
}

// The default size holds 90 days of one election with the default lease, or 3 days of thirty. The server counts 360 bytes
// for a renewal (measured with 160,000 of eight elections).
const (
	defaultHistorySize = 1 << 30
	leastHistory       = time.Minute
	leastHistorySize   = 1 << 20
)

func (h historySettings) check(bucket string) error {
	switch {
	case h.given && h.age < leastHistory:
		return front.Usagef("--history %v is less than %v; to end a history: nats stream rm %s, then natsleader bucket add %s", h.age, leastHistory, facts.HistoryStream(bucket), bucket)
	case h.size != 0 && h.age == 0:
		return front.Usagef("--history-size needs --history")
	case h.size != 0 && h.size < leastHistorySize:
		return front.Usagef("--history-size %v is less than 1MiB", units.Base2Bytes(h.size))
	}
	return nil
}

// applyHistory makes or changes the stream with the history of the bucket, records it in the metadata of the bucket,
// and returns what there is then. Without an age it changes what it finds only to follow the bucket, and to switch
// compression off. A new bucket takes the history of a deleted one, if this client may read that.
func applyHistory(ctx context.Context, s *inspect.Inspector, h historySettings, fresh bool) (keptHistory, error) {
	failed := s.Within(ctx, func(ctx context.Context) error {
		info, err := s.Info(ctx)
		if err != nil {
			return err
		}
		conf := info.Config
		recorded := conf.Metadata[facts.HistoryKey] == facts.HistoryStream(s.Name)
		if h.age == 0 && !recorded && !fresh {
			return nil
		}
		there, err := h.establish(ctx, s.Js, s.Name, conf)
		if err != nil || there == recorded {
			return err
		}
		conf.Metadata = maps.Clone(conf.Metadata)
		if conf.Metadata[facts.HistoryKey] = facts.HistoryStream(s.Name); !there {
			delete(conf.Metadata, facts.HistoryKey)
		}
		_, err = s.Js.UpdateStream(ctx, conf)
		return err
	})
	none := fresh && h.age == 0 && (errors.Is(failed, leader.ErrPermission) || errors.Is(failed, leader.ErrIncompatibleBucket))
	if failed != nil && !none {
		return keptHistory{}, failed
	}
	return readHistory(ctx, s)
}

// codeNoRoom is the code of JSStorageResourcesExceededErr (nats-server, server/errors.json).
const codeNoRoom = 10047

// establish makes or changes the stream, and reports whether there is one.
//
// The stream sources the bucket. A mirror would keep the server's times. But a mirror fills
// gaps in the sequence one by one, and on three replicas a gap takes memory of the server for
// each number. A bucket that is made again leaves a gap of billions, since its revisions
// begin at the Unix time in microseconds.
//
// The stream allows no roll-ups. So a marker with a roll-up, as the server stores it for an
// expired record, removes nothing here.
func (h historySettings) establish(ctx context.Context, js jetstream.JetStream, bucket string, like jetstream.StreamConfig) (bool, error) {
	name := facts.HistoryStream(bucket)
	old, err := js.Stream(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && h.age == 0:
		return false, nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Description: "history of the elections in bucket " + bucket,
			Sources:  []*jetstream.StreamSource{{Name: "KV_" + bucket}},
			Metadata: map[string]string{inspect.HistoryOfKey: bucket},
			Storage:  jetstream.FileStorage, // uncompressed: see the table of package hazards
			MaxAge:   h.age, MaxBytes: cmp.Or(h.size, defaultHistorySize), MaxMsgs: -1, MaxMsgsPerSubject: -1,
			Replicas: like.Replicas, Placement: like.Placement, AllowDirect: true,
		})
		if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == codeNoRoom {
			err = fmt.Errorf("the server or the account has no room for a history of %v: take less with --history-size: %w", units.Base2Bytes(cmp.Or(h.size, defaultHistorySize)), err)
		}
		return err == nil, err
	case err != nil:
		return false, err
	}
	was := old.CachedInfo().Config
	if was.Metadata[inspect.HistoryOfKey] != bucket {
		return false, fmt.Errorf("%w: stream %s exists, and is no history of bucket %s", leader.ErrIncompatibleBucket, name, bucket)
	}
	conf := was
	conf.Replicas, conf.Placement, conf.Compression = like.Replicas, like.Placement, jetstream.NoCompression
	conf.MaxAge, conf.MaxBytes = cmp.Or(h.age, conf.MaxAge), cmp.Or(h.size, conf.MaxBytes)
	if !reflect.DeepEqual(conf, was) {
		_, err = js.UpdateStream(ctx, conf)
	}
	return err == nil, err
}

// keptHistory describes the stream with the history of a bucket. The zero value: there is
// none.
type keptHistory struct {
	stream  string
	age     time.Duration
	size    int64
	bytes   uint64
	missing bool // it was made once, and is gone
	unread  bool // a permission is missing
}

// readHistory reads what the bucket keeps. A bucket without a history needs no permission for it.
func readHistory(ctx context.Context, s *inspect.Inspector) (keptHistory, error) {
	bucket, err := inspect.Answer(ctx, s, s.Info)
	if err != nil || bucket.Config.Metadata[facts.HistoryKey] != facts.HistoryStream(s.Name) {
		return keptHistory{}, err
	}
	kept := keptHistory{stream: facts.HistoryStream(s.Name)}
	stream, err := inspect.Answer(ctx, s, func(ctx context.Context) (jetstream.Stream, error) { return s.Js.Stream(ctx, kept.stream) })
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		kept.missing = true
	case errors.Is(err, leader.ErrPermission):
		kept.unread = true
	case err != nil:
		return kept, err
	default:
		info := stream.CachedInfo()
		kept.age, kept.size, kept.bytes = info.Config.MaxAge, info.Config.MaxBytes, info.State.Bytes
	}
	return kept, nil
}

// text describes it for people.
func (k keptHistory) text() string {
	switch {
	case k.stream == "":
		return "none"
	case k.missing:
		return "lost: stream " + k.stream + " does not exist"
	case k.unread:
		return "yes, in stream " + k.stream + ", which may not be read"
	}
	return fmt.Sprintf("%s, and %s at most", front.FormatPeriod(k.age), units.Base2Bytes(k.size))
}
