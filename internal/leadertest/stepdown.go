package leadertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// ear is a listener for requests to the holder of a key.
type ear struct {
	link    *Link
	key     string
	deliver func(request []byte, answer func([]byte))
}

var errNobodyListens = errors.New("nobody listens")

// Listen opens an ear at once, unless the link is cut.
func (l linkBackend) Listen(_ context.Context, key string, deliver func(request []byte, answer func([]byte)), reply func(shut func(closed func()), err error)) {
	s := l.link.store
	e := &ear{l.link, key, deliver}
	if err := l.link.open(e); err != nil {
		reply(nil, err)
		return
	}
	reply(func(closed func()) {
		s.mu.Lock()
		s.ears = slices.DeleteFunc(s.ears, func(other *ear) bool { return other == e })
		s.mu.Unlock()
		closed()
	}, nil)
}

func (l *Link) open(e *ear) error {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case l.closed:
		return leader.ErrConnectionClosed
	case l.cut:
		return l.isCut()
	}
	s.ears = append(s.ears, e)
	return nil
}

// Ask carries a request to all ears for the key, and the first answer back.
func (l linkBackend) Ask(ctx context.Context, key string, question []byte, reply func([]byte, error)) {
	s := l.link.store
	s.mu.Lock()
	defer s.mu.Unlock()
	fail := func(err error) { reply(nil, err) }
	r := &request{link: l.link, ctx: ctx, fail: fail, lost: fail}
	if !l.link.leaves(r) || l.link.past != nil {
		return // in an isolated link it is never answered
	}
	back := func(give func()) {
		l.link.transit(l.link.oneWay(), func() func() { return s.answer(r, give) })
	}
	l.link.transit(l.link.oneWay(), func() func() {
		heard := false
		for _, e := range s.ears {
			if e.key == key && e.link.reached() {
				heard = true
				s.carry(e, question, func(answer []byte) { back(func() { reply(answer, nil) }) })
			}
		}
		if !heard {
			back(func() { fail(unreachable(errNobodyListens)) })
		}
		return nil
	})
}

// carry takes a request to an ear, and the ear's answer back to the store. The
// lock is held, also when then is called.
func (s *Store) carry(e *ear, request []byte, then func(answer []byte)) {
	e.link.transit(e.link.oneWay(), func() func() {
		return func() {
			e.deliver(request, func(answer []byte) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if answer != nil {
					e.link.transit(e.link.oneWay(), func() func() {
						then(answer)
						return nil
					})
				}
			})
		}
	})
}

// StepDown asks the leader of the election to hand over, as [leader.StepDown]
// does, without waiting for it. It returns [leader.ErrNoLeader] if there is no leader.
func (s *Store) StepDown(election string) error {
	entry := s.Entry(election)
	h := holderOf(entry, election)
	if h.State != leader.HolderLeading {
		return fmt.Errorf("%w: election %q: %s", leader.ErrNoLeader, election, h)
	}
	var record struct{ Session string }
	if err := json.Unmarshal(entry.Value, &record); err != nil {
		return err // a leader's record decodes
	}
	request, err := json.Marshal(wire.StepDownRequest{
		Format: wire.StepDownFormat, Do: wire.DoStepDown, Session: record.Session, Token: h.Token, By: "leadertest",
	})
	if err != nil {
		return err // strings and a number encode
	}
	s.Link("").Backend().Ask(context.Background(), election, request, func([]byte, error) {})
	return nil
}
