//go:build field && linux

package torture_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testcluster"
)

// keep gives an election a ledger, to which its leaders write.
func (d *driver) keep(b *bucket, storage jetstream.StorageType, spec ledgerSpec) {
	d.tb.Helper()
	spec.Bucket = b.cfg.Name + "-ledger"
	b.ledger = &spec
	d.c.createLedger(spec, storage)
}

// createLedger makes a bucket that forgets nothing, with a first value for each part.
func (c *cluster) createLedger(spec ledgerSpec, storage jetstream.StorageType) {
	c.tb.Helper()
	testcluster.Until(c.tb, "the ledger can be made", func(ctx context.Context) error {
		return expect.Err(c.JS.CreateStream(ctx, jetstream.StreamConfig{
			Name: spec.stream(), Subjects: []string{spec.subject(">")}, Storage: storage, Replicas: len(c.Nodes),
			MaxMsgsPerSubject: 1 << 40, Discard: jetstream.DiscardNew,
			AllowDirect: true, AllowAtomicPublish: true, DenyDelete: true,
		}))
	})
	for _, what := range []string{register, list} {
		testcluster.Until(c.tb, "the first value is stored", func(ctx context.Context) error {
			_, err := c.JS.Publish(ctx, spec.subject(what), encode(c.tb, value{}),
				jetstream.WithExpectLastSequencePerSubject(0), jetstream.WithRetryAttempts(0))
			if code(err) == notLast {
				return nil
			}
			return err
		})
	}
}

// readLedger reads all values that were ever stored. No process writes any more.
func (c *cluster) readLedger(spec ledgerSpec) []stored {
	c.tb.Helper()
	var all []stored
	testcluster.Eventually(c.tb, "the ledger can be read", func() bool {
		ctx, cancel := context.WithTimeout(c.tb.Context(), time.Minute)
		defer cancel()
		var err error
		all, err = c.tryLedger(ctx, spec)
		return err == nil
	})
	return all
}

func (c *cluster) tryLedger(ctx context.Context, spec ledgerSpec) ([]stored, error) {
	s, err := c.JS.Stream(ctx, spec.stream())
	if err != nil {
		return nil, err
	}
	state := s.CachedInfo().State
	expect.Must(c.tb, state.FirstSeq == 1 && state.NumDeleted == 0,
		"%s does not keep everything: %+v", spec.Bucket, state)
	consumer, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	var all []stored
	for uint64(len(all)) < state.LastSeq {
		m, err := messages.Next(jetstream.NextMaxWait(5 * time.Second))
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		found, err := spec.decode(m)
		if err != nil {
			c.tb.Fatalf("%s: %d on %s: %v", spec.Bucket, meta.Sequence.Stream, m.Subject(), err)
		}
		found.seq = meta.Sequence.Stream
		all = append(all, found)
	}
	return all, nil
}

// decode reads a message of the ledger.
func (s ledgerSpec) decode(m jetstream.Msg) (stored, error) {
	for _, what := range []string{register, list} {
		switch m.Subject() {
		case s.subject(what):
			found := stored{what: what}
			return found, json.Unmarshal(m.Data(), &found.value)
		case s.guardOf(what):
			found := stored{guards: what}
			if m.Headers().Get("KV-Operation") != "" {
				return found, nil
			}
			var raised struct {
				Token uint64 `json:"token"`
				ID    string `json:"id"`
			}
			err := json.Unmarshal(m.Data(), &raised)
			found.Token, found.By = raised.Token, raised.ID
			return found, err
		}
	}
	return stored{}, nil // a barrier
}

// works reports whether the term's writes have been accepted since then.
func (l *life) works(tb testing.TB, s ledgerSpec, token uint64, since int64) bool {
	tb.Helper()
	l.diary.follow(tb)
	done := map[string]bool{list: s.Counter}
	for _, a := range slices.Backward(l.diary.attempts) {
		if a.End < since {
			break
		}
		if a.Token == token && a.Out == accepted && a.Call > since && a.N != 0 {
			done[a.What] = true
		}
	}
	return done[register] && done[list]
}

// deleteGuard deletes a guard, as an operator may do by mistake.
func (d *driver) deleteGuard() func() {
	b := d.buckets[d.rng.IntN(len(d.buckets))]
	guard := b.ledger.guardOf([]string{register, list}[d.rng.IntN(2)])
	if refused := d.ask(func(ctx context.Context) error {
		_, err := d.c.JS.PublishMsg(ctx, &nats.Msg{Subject: guard, Header: nats.Header{"KV-Operation": {"DEL"}}}, jetstream.WithRetryAttempts(0))
		return err
	}); refused != 0 {
		d.tb.Errorf("%s could not be deleted: %d", guard, refused)
	}
	return nil
}

// moveLeader makes another server the leader of a stream.
func (d *driver) moveLeader() func() {
	_, _ = d.c.NC.Request("$JS.API.STREAM.LEADER.STEPDOWN.KV_"+d.anyStream(), nil, time.Second)
	return nil
}
