//go:build unix

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// reach connects, reads the settings of the bucket, and checks that they fit and that the
// candidate may write its key. With --retry-connect it tries until it succeeds. A signal or
// --wait can interrupt it.
func (c *runLoop) reach() (*nats.Conn, *leader.Bucket, error) {
	type reached struct {
		nc     *nats.Conn
		bucket *leader.Bucket
		err    error
	}
	c.Fits(c.lease)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan reached, 1)
	waited := c.waited             // --try sets another
	var last atomic.Pointer[error] // why the last attempt has failed
	go func() {
		const shortest, longest = 200 * time.Millisecond, 5 * time.Second
		said := ""
		for pause := shortest; ; pause = min(2*pause, longest) {
			nc, bucket, err := c.attempt()
			if err == nil || !c.retryConnect || !comesLater(err) {
				done <- reached{nc, bucket, err}
				return
			}
			err = c.Explain(err)
			last.Store(&err)
			if reason := front.ErrorText(err); reason != said {
				c.log.Warn("%s; trying again (--retry-connect)", reason)
				said = reason
			}
			select {
			case <-time.After(pause/2 + rand.N(pause)): // so that not all processes try at once
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case d := <-done:
			return d.nc, d.bucket, d.err
		case <-waited:
			err := fmt.Errorf("not connected within %v (--wait)", c.wait)
			if reason := last.Load(); reason != nil {
				err = fmt.Errorf("%w: %s", err, front.ErrorText(*reason))
			}
			return nil, nil, front.ExitError{Code: front.ExitWaited, Err: err}
		case c.manager.pinged() <- nil:
		case sig := <-c.signals:
			if sig, ends := ending(sig); ends {
				return nil, nil, front.ExitError{Code: 128 + int(sig)}
			}
		}
	}
}

// comesLater reports whether what is missing can come without a change of this process: the
// connection, JetStream, the bucket or its roster.
func comesLater(err error) bool {
	return front.CodeOf(err) == front.ExitUnreachable || errors.Is(err, leader.ErrNoBucket) || errors.Is(err, leader.ErrNoRoster)
}

// attempt connects and checks once.
func (c *runLoop) attempt() (*nats.Conn, *leader.Bucket, error) {
	nc, js, bucket, err := c.Open(c.log.followConnection()...)
	if err != nil {
		return nil, nil, err
	}
	if err = c.checkBucket(nc, js, bucket); err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, bucket, nil
}

// checkBucket checks what a candidate needs. Without it the candidate would wait for a
// permission or a roster that never comes.
func (c *runLoop) checkBucket(nc *nats.Conn, js jetstream.JetStream, bucket *leader.Bucket) error {
	ctx, cancel := c.WithTimeout(context.Background())
	defer cancel()
	e := &inspect.Asker{Nc: nc, Api: jsapi.APIPrefix(js.Options()), Wait: c.Timeout}
	denied := func(do func() error) error {
		if err := e.Try(do); errors.Is(err, nats.ErrPermissionViolation) {
			return fmt.Errorf("%w: %s", leader.ErrPermission, inspect.Violation(err))
		}
		return nil // a missing answer is for the next request to report
	}
	if err := denied(e.Send("STREAM.INFO.KV_"+c.Bucket, "")); err != nil {
		return err
	}
	info, err := bucket.Info(ctx)
	if err != nil {
		return err
	}
	c.Fits(cmp.Or(c.lease, wire.Lease(info.MaxLease, info.TTL)))
	if err = c.succession.fit(info, c.lease); err != nil {
		return err
	}
	stream, err := js.Stream(ctx, "KV_"+c.Bucket)
	if err != nil {
		return err
	}
	c.seen.See(stream.CachedInfo().Config)
	read := func(key string) func() error {
		return e.Send("STREAM.MSG.GET.KV_"+c.Bucket, `{"last_by_subj":"`+key+`"}`)
	}
	if stream.CachedInfo().Config.AllowDirect {
		read = func(key string) func() error { return e.Send("DIRECT.GET.KV_"+c.Bucket+"."+key, "") }
	}
	for seat := 1; seat <= c.succession.seats; seat++ {
		key := seats.Key(c.election, seat)
		if err = denied(func() error { return nc.PublishMsg(e.Impossible(c.Bucket, key)) }); err != nil {
			return err
		}
		if err = denied(read("$KV." + c.Bucket + "." + key)); err != nil {
			return err
		}
	}
	if c.try {
		return c.lookForLeader(ctx, nc, js, bucket, info)
	}
	return nil
}

// rivals is what `run --try` knows of the other holders of the election's seats. A record
// that has expired, of a leader that has died, does not count.
type rivals struct {
	seats   int
	expired map[int]uint64 // by seat: revision of the record that has expired
	taken   map[int]bool   // by seat: another candidate holds it
}

// lead takes a change of holder, and reports whether other candidates hold all seats.
func (r *rivals) lead(h leader.Holder, another bool) bool {
	seat := max(1, h.Seat)
	if delete(r.taken, seat); another && h.Revision != r.expired[seat] {
		r.taken[seat] = true
	}
	return len(r.taken) == r.seats
}

// lookForLeader reads the seats of the election, and returns an error if other candidates
// hold all of them. It limits the time that --try may take: a lease that has not been renewed
// may have to be waited out, since one read cannot show that its holder is gone.
func (c *runLoop) lookForLeader(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, bucket *leader.Bucket, info leader.BucketInfo) error {
	c.rivals = rivals{seats: c.succession.seats, expired: make(map[int]uint64), taken: make(map[int]bool)}
	s := &inspect.Inspector{Nc: nc, Bucket: bucket, Js: js, Name: c.Bucket, Limit: c.Timeout}
	if err := s.Ask(ctx); err != nil {
		return err
	}
	longest := max(info.MaxLease, c.lease, wire.DefaultLease)
	for seat := 1; seat <= c.succession.seats; seat++ {
		x, err := s.One(ctx, seats.Key(c.election, seat))
		if err != nil {
			return err
		}
		x.Holder.Seat = seat
		switch st := x.At(s.Clock.Now()); {
		case st.Taken():
			if c.rivals.lead(x.Holder, true) {
				return c.taken(x.Holder)
			}
		case st == facts.Expired:
			c.rivals.expired[seat] = x.Entry.Revision
			longest = max(longest, x.Holder.Lease)
		}
	}
	c.waited = time.After(2*longest + c.delay + c.Timeout)
	return nil
}

// taken is the outcome of --try if another candidate leads. With --quiet nothing is printed,
// because that is no failure.
func (c *runLoop) taken(h leader.Holder) error {
	c.log.Log(slog.LevelInfo, front.Fields{"leader", h.ID, "leader_token", h.Token}, "not leading (--try): %v", h)
	return front.ExitError{Code: c.busyCode}
}

// undecided is the outcome of --try if the store has not shown in time which candidate leads.
func (c *runLoop) undecided() error {
	if c.fault != nil {
		return fmt.Errorf("did not become leader at once (--try): %w", c.fault)
	}
	return front.Exitf(front.ExitUnreachable, "did not become leader at once (--try), and it is not known which candidate leads")
}
