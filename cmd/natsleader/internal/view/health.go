package view

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/leader"
)

// health says why what a source shows is not up to date, and when it is again.
type health struct {
	out      Renderer
	Troubled bool
	lost     bool  // the connection is
	lostSaid bool  // the trouble that was reported is the lost connection
	moved    bool  // the connection is another one than the trouble names
	said     error // the trouble that was reported last
}

// linked handles the loss of the connection, or with nil its return, after which only an answer shows that all is well.
func (h *health) linked(err error) {
	h.moved = err == nil
	if h.lost = err != nil; h.lost {
		h.failing(err)
	}
}

// failing reports the first error, and another one when the connection was lost or has come
// back or moved to another server meanwhile, when the advice about a bucket that is gone or the reason why there is no connection is another, or when
// a server that did not answer has shown that there is no majority.
func (h *health) failing(err error) {
	says := errors.Is(err, leader.ErrNoBucket) || errors.Is(err, front.ErrUnreachable)
	another := says && (h.said == nil || h.said.Error() != err.Error())
	shown := errors.Is(err, inspect.ErrNoMajority) && !errors.Is(h.said, inspect.ErrNoMajority)
	if !h.Troubled || h.lostSaid != h.lost || h.moved || another || shown {
		h.Troubled, h.lostSaid, h.moved, h.said = true, h.lost, false, err
		h.out.NoteTrouble(err)
	}
}

func (h *health) recovered() {
	if h.Troubled {
		h.Troubled = false
		h.out.NoteTrouble(nil)
	}
}

// pulse looks at the bucket for a source that has no feed of its own. The observers of packages leader, roster and shard
// are silent while NATS is, and they take what a server without a majority answers.
type pulse struct {
	health
	s      *inspect.Inspector
	looked time.Time          // when the last look began, by this host
	answer chan error         // of the look in flight; nil: none is
	cancel context.CancelFunc // of that look
}

func newPulse(s *inspect.Inspector, out Renderer) pulse { return pulse{health: health{out: out}, s: s} }

// connection gives up the look in flight, which another connection may have answered.
func (p *pulse) connection(err error) {
	p.abandon()
	p.looked = time.Time{}
	p.linked(err)
}

func (p *pulse) abandon() {
	if p.answer != nil {
		p.cancel()
		p.answer = nil
	}
}

// beat handles the answer to a look, and begins one when it is due. After a failure the source is up to date again when
// it has been opened anew: its observers may have missed something.
func (p *pulse) beat(ctx context.Context, open func(context.Context) error) {
	if p.answer != nil {
		select {
		case err := <-p.answer:
			p.abandon()
			p.heard(ctx, err, open)
		default:
		}
	} else if time.Since(p.looked) > LookEvery && !p.lost {
		p.looked = time.Now()
		p.answer = make(chan error, 1)
		var looking context.Context
		looking, p.cancel = context.WithCancel(ctx)
		go func(answer chan<- error) { answer <- p.look(looking) }(p.answer)
	}
}

func (p *pulse) heard(ctx context.Context, err error, open func(context.Context) error) {
	if err == nil && p.Troubled {
		err = open(ctx)
	}
	if err != nil {
		p.failing(err)
		return
	}
	p.recovered()
}

// look asks whether the bucket is there, and whether a majority of its servers keeps it. A client that may not ask
// learns nothing.
func (p *pulse) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, LookLimit)
	defer cancel()
	info, err := inspect.Answer(ctx, p.s, func(ctx context.Context) (*jetstream.StreamInfo, error) { return p.s.Info(ctx) })
	if err = p.s.Heard(info, err); errors.Is(err, leader.ErrPermission) {
		return nil
	}
	return err
}
