package jsapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// DuplicateWindow is the server's default. It must not exceed MaxAge.
const DuplicateWindow = 2 * time.Minute

// Info reads the stream's settings and remembers them. Calls that come at the same time share
// a request, which is sent after they have come.
func (a *Stream) Info(ctx context.Context) (*jetstream.StreamInfo, error) {
	return a.info(ctx, a.infos.ask)
}

// info is Info by a request that ask sends or joins.
func (a *Stream) info(ctx context.Context, ask func(context.Context, func(context.Context) (*jetstream.StreamInfo, error)) (*jetstream.StreamInfo, bool, error)) (*jetstream.StreamInfo, error) {
	if err := a.Opened(); err != nil {
		return nil, unsent{err}
	}
	info, ok, err := ask(ctx, a.readInfo)
	if ok {
		return info, err
	}
	// The request, or the one before it, goes on for other callers. Its denial, if that is the
	// reason, is the reason for this caller, too.
	return InTime(ctx, a, func() (*jetstream.StreamInfo, error) {
		before := a.infoBefore.Load()
		if before == nil {
			before = new(error)
			*before = a.Conn.LastError()
		}
		return nil, a.failure(a.Prefix+streamInfo+a.Name, *before, err)
	}, nil)
}

// Reconnected forgets the settings, which may have changed, and prepares for n callers of Info.
func (a *Stream) Reconnected(n int) {
	a.Known.Store(nil)
	a.infos.expect(n)
}

// streamInfo is the beginning of the name of the request for a stream's settings.
const streamInfo = "STREAM.INFO."

func (a *Stream) readInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	before := a.LastError()
	a.infoBefore.Store(&before)
	var resp struct {
		Error *jetstream.APIError `json:"error"`
		jetstream.StreamInfo
		Domain string `json:"domain"`
	}
	if err := a.ask(ctx, streamInfo+a.Name, nil, &resp); err != nil {
		return nil, err
	}
	if resp.Error != nil {
		if resp.Error.ErrorCode == CodeStreamNotFound {
			a.Known.Store(nil)
		}
		return nil, a.refusal(resp.Error)
	}
	if resp.Config.Name != a.Name {
		return nil, fmt.Errorf("%w: the reply to STREAM.INFO is about stream %q, not %s", backend.ErrUnreachable, resp.Config.Name, a.Name)
	}
	a.payload.Store(a.Conn.MaxPayload()) // here, because it may wait for the connection's lock
	domain := boundedDomain(resp.Domain)
	a.domain.Store(&domain)
	a.found(&resp.Config)
	return &resp.StreamInfo, nil
}

// found remembers the settings of a stream that exists.
func (a *Stream) found(c *jetstream.StreamConfig) {
	a.Known.Store(c)
	a.Seen.Store(true)
}

// Config returns the settings that are remembered, or reads them. It may take the answer to a request that is on its way.
func (a *Stream) Config(ctx context.Context) (jetstream.StreamConfig, error) {
	if c := a.Known.Load(); c != nil {
		return *c, nil
	}
	info, err := a.info(ctx, a.infos.any)
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	return info.Config, nil
}

// Establish reads the settings of the stream, and creates or updates it, unless inspect
// returns an error.
func (a *Stream) Establish(ctx context.Context, create func() jetstream.StreamConfig, reshape func(old jetstream.StreamConfig) (conf jetstream.StreamConfig, changed bool, err error), inspect func(*jetstream.StreamInfo, jetstream.StreamConfig) error) error {
	for again := false; ; again = true {
		err := a.establishOnce(ctx, create, reshape, inspect)
		// Another client created or deleted the stream between the read and the request. Read
		// again, once.
		raced := errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.Is(err, backend.ErrNoBucket)
		if again || !raced {
			return err
		}
	}
}

func (a *Stream) establishOnce(ctx context.Context, create func() jetstream.StreamConfig, reshape func(old jetstream.StreamConfig) (conf jetstream.StreamConfig, changed bool, err error), inspect func(*jetstream.StreamInfo, jetstream.StreamConfig) error) error {
	conf, verb, err := a.Plan(ctx, create, reshape, inspect)
	switch {
	case err != nil || verb == "":
		return err
	case verb == "CREATE":
		return a.submit(ctx, verb, func() (jetstream.Stream, error) { return a.JS.CreateStream(ctx, conf) })
	default:
		return a.submit(ctx, verb, func() (jetstream.Stream, error) { return a.JS.UpdateStream(ctx, conf) })
	}
}

// Plan returns the configuration that Establish would give the stream, and what it would do
// for that: CREATE, UPDATE or nothing.
func (a *Stream) Plan(ctx context.Context, create func() jetstream.StreamConfig, reshape func(old jetstream.StreamConfig) (conf jetstream.StreamConfig, changed bool, err error), inspect func(*jetstream.StreamInfo, jetstream.StreamConfig) error) (conf jetstream.StreamConfig, verb string, err error) {
	info, err := a.Info(ctx)
	switch {
	case errors.Is(err, backend.ErrNoBucket):
		return create(), "CREATE", nil
	case err != nil:
		return conf, "", err
	}
	conf, changed, err := reshape(info.Config)
	if err != nil || !changed {
		return conf, "", err
	}
	if inspect != nil {
		err = inspect(info, conf)
	}
	return conf, "UPDATE", err
}

// Delete deletes the stream.
func (a *Stream) Delete(ctx context.Context) error {
	return a.submit(ctx, "DELETE", func() (jetstream.Stream, error) { return nil, a.JS.DeleteStream(ctx, a.Name) })
}

// Create creates the stream. That a stream of that name exists already is no error.
func (a *Stream) Create(ctx context.Context, conf jetstream.StreamConfig) error {
	err := a.submit(ctx, "CREATE", func() (jetstream.Stream, error) { return a.JS.CreateStream(undated{ctx}, conf) })
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}
	return err
}

// submit sends a configuration to the server, and classifies the error if the server
// rejects it.
func (a *Stream) submit(ctx context.Context, verb string, send func() (jetstream.Stream, error)) error {
	_, err := waitFor(ctx, a, func(maySend func() bool) (struct{}, error) {
		if err := a.Connected(); err != nil || !maySend() {
			return struct{}{}, err
		}
		return struct{}{}, a.submitNow(verb, send)
	}, nil)
	return err
}

func (a *Stream) submitNow(verb string, send func() (jetstream.Stream, error)) error {
	before := a.Conn.LastError()
	stream, err := send()
	if err == nil {
		if stream != nil { // it was not deleted
			a.found(&stream.CachedInfo().Config)
		}
		return nil
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch int(api.ErrorCode) {
		case CodeStreamInvalidConfig, CodeSubjectOverlap, CodeMirrorFixed:
			return fmt.Errorf("%w: the server refuses these settings for stream %s: %w", backend.ErrIncompatibleBucket, a.Name, api)
		case CodeReplicasUnsupported:
			return fmt.Errorf("%w: Replicas is more than the server can keep: %w", backend.ErrInvalidConfig, api)
		}
		return a.refusal(api)
	}
	return a.failure(a.Prefix+"STREAM."+verb+"."+a.Name, before, err)
}

// FirstRevision returns the first revision of a new stream: the Unix time in
// microseconds. It is beyond the revisions of an earlier stream with the same name, as
// long as that stream took less than a million messages a second and the clocks of the
// two creators agree. If a revision were used twice, a write of an earlier term that is
// conditioned on it would be accepted, and tokens would begin anew. JSON numbers hold
// such revisions until 2255.
func FirstRevision() uint64 { return uint64(max(1, time.Now().UnixMicro())) } //nolint:forbidigo // the time of day, not a limit
