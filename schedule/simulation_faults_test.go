package schedule_test

import (
	"time"
)

// offset draws the difference of a clock that is wrong.
func (s *simulation) offset() (off time.Duration) {
	switch s.rng.IntN(8) {
	case 0:
		off = s.between(0, 1900*time.Millisecond)
	case 1, 2:
		off = s.between(2100*time.Millisecond, 15*time.Second)
	case 3:
		off = s.between(15*time.Second, 5*time.Minute)
	case 4:
		off = s.between(5*time.Minute, 3*time.Hour)
	case 5:
		off = s.between(20*time.Hour, 28*time.Hour)
	case 6:
		off = s.between(24*time.Hour, 30*24*time.Hour)
	case 7:
		off = time.Hour
	}
	if s.chance(2) {
		off = -off
	}
	return off
}

// trouble lets something go wrong.
func (s *simulation) trouble() {
	h := s.hosts[s.rng.IntN(len(s.hosts))]
	if leads := s.leads(); leads != nil && !s.chance(3) {
		h = leads
	}
	if h.life == nil {
		return
	}
	switch s.rng.IntN(16) {
	case 0, 1:
		s.clockWrong(h)
	case 2:
		s.clockSteps(h)
	case 3:
		s.clockDrifts(h)
	case 4, 5:
		s.sleeps(h)
	case 6, 7, 8:
		s.linkFails(h)
	case 9:
		s.blinds(h)
	case 10, 11:
		s.resigns(h)
	case 12, 13:
		s.stops(h)
	case 14:
		s.crashes(h)
	case 15: // all at once
		for _, o := range s.hosts {
			switch s.rng.IntN(4) {
			case 0:
				s.clockWrong(o)
			case 1:
				s.linkFails(o)
			case 2:
				s.sleeps(o)
			}
		}
	}
}

// leads returns the host whose process leads.
func (s *simulation) leads() *host {
	for _, h := range s.hosts {
		if h.life != nil && !h.life.over() {
			if _, leads := h.life.schedule.Candidate().Term(); leads {
				return h
			}
		}
	}
	return nil
}

// clockWrong sets a clock, and right again after a while.
func (s *simulation) clockWrong(h *host) {
	h.set(s.offset())
	if !s.chance(5) {
		s.later(s.between(0, 2*time.Minute), func() { h.set(0) })
	}
}

// clockSteps sets a clock again and again.
func (s *simulation) clockSteps(h *host) {
	at := time.Duration(0)
	for range 3 + s.rng.IntN(10) {
		off := s.offset()
		s.later(at, func() { h.set(off) })
		at += s.between(0, 15*time.Second)
	}
	s.later(at, func() { h.set(0) })
}

// clockDrifts lets a clock run at another rate for a while.
func (s *simulation) clockDrifts(h *host) {
	by := s.between(-300*time.Millisecond, 300*time.Millisecond)
	n := 10 + s.rng.IntN(50)
	s.mu.Lock()
	from := h.off
	s.mu.Unlock()
	for i := range n {
		s.later(time.Duration(i)*time.Second, func() { h.set(from + time.Duration(i)*by) })
	}
	s.later(time.Duration(n)*time.Second, func() { h.set(0) })
}

// sleeps suspends a host for a while.
func (s *simulation) sleeps(h *host) {
	if h.sleeping() != nil || h.life == nil {
		return
	}
	d := s.between(time.Second, 40*time.Second)
	if s.chance(20) {
		d = time.Hour
	}
	h.faulty("the host sleeps for %v", d)
	h.sleep()
	wrong, again := s.chance(4), s.chance(2)
	s.later(d, func() {
		if wrong {
			s.clockWrong(h)
		}
		h.wake(again)
	})
}

// linkFails lets a link fail in one way for a while.
func (s *simulation) linkFails(h *host) {
	if h.life == nil || h.life.over() || h.sleeping() != nil {
		return
	}
	l, link, n := h.life, h.life.link, 1+s.rng.IntN(3)
	d := s.between(0, 3*s.lease)
	switch s.rng.IntN(12) {
	case 0:
		h.faulty("cut for %v", d)
		link.Cut()
	case 1:
		h.faulty("frozen for %v", d)
		link.Freeze()
	case 2:
		h.faulty("frozen for %v, and thawed", d)
		link.Freeze()
		s.later(d-1, func() {
			if h.life == l && h.sleeping() == nil {
				link.Thaw()
			}
		})
	case 3:
		by := s.between(0, min(700*time.Millisecond, s.lease/8))
		h.faulty("%v slower for %v", by, d)
		link.Delay(h.far + by)
	case 4:
		by := s.between(0, 6*time.Second)
		h.faulty("the feed is %v slower for %v", by, d)
		link.DelayFeed(by)
	case 5:
		h.faulty("%d writes are lost", n)
		link.LoseWrites(n)
	case 6:
		h.faulty("the replies to %d writes are lost", n)
		link.LoseReplies(n)
	case 7:
		by := s.between(0, 2*s.lease)
		h.faulty("a write comes %v late", by)
		link.ApplyLate(1, by)
	case 8:
		h.faulty("%d messages of the feed are lost", 2*n)
		link.LoseFeed(2 * n)
	case 9:
		h.faulty("the feed is deaf")
		link.DeafFeeds()
	case 10:
		h.faulty("%d writes are refused", n)
		link.Refuse(n, s.chance(2))
	case 11:
		h.faulty("it connects again")
		link.Reconnect()
	}
	s.later(d, func() {
		if h.life == l {
			h.heal()
		}
	})
}

// blinds lets processes whose clocks are wrong lead without the server's time.
func (s *simulation) blinds(h *host) {
	d := s.between(5*time.Second, 90*time.Second)
	for _, o := range s.hosts {
		if o.life == nil || o.life.over() || o.sleeping() != nil || o != h && s.chance(2) {
			continue
		}
		l := o.life
		o.faulty("no feed for %v", d)
		l.link.LoseFeed(-1)
		if !s.chance(4) {
			o.set(s.offset())
		}
		s.later(d, func() {
			if o.life == l {
				o.heal()
			}
			if !s.chance(6) {
				o.set(0)
			}
		})
	}
	if leads := s.leads(); leads != nil {
		s.resigns(leads)
	}
}

// resigns ends the term of a process.
func (s *simulation) resigns(h *host) {
	if h.life == nil || h.life.over() {
		return
	}
	if term, leads := h.life.schedule.Candidate().Term(); leads {
		s.say("%s resigns", h.life.name)
		l := h.life
		l.stray(func() { _ = term.Resign(s.Context()) })
	}
}

// stops stops a process, and starts one in its place later.
func (s *simulation) stops(h *host) {
	if h.life == nil || h.life.over() {
		return
	}
	l := h.life
	s.say("%s stops", l.name)
	l.cancel()
	s.later(s.between(0, 30*time.Second), func() { s.starts(h, l) })
}

// starts starts a process in place of another one, when that has ended.
func (s *simulation) starts(h *host, before *life) {
	switch {
	case h.life != before:
	case !before.over() || h.sleeping() != nil:
		s.later(time.Second, func() { s.starts(h, before) })
	default:
		h.start()
	}
}

// crashes lets a process crash, and starts one in its place later. What it has sent last may arrive late.
func (s *simulation) crashes(h *host) {
	if h.life == nil || h.life.over() {
		return
	}
	l, closes := h.life, s.chance(2)
	crash := func() {
		if h.life != l || l.over() {
			return
		}
		l.crash(closes)
		s.later(s.between(0, 40*time.Second), func() { s.starts(h, l) })
	}
	if s.chance(3) {
		h.faulty("a write comes late")
		l.link.ApplyLate(1, s.between(0, s.lease))
		s.later(s.between(0, 2*s.lease), crash)
		return
	}
	if s.chance(2) { // in the midst of what it does for a slot
		next := l.plan.Next(time.Now())
		s.later(time.Until(next)+s.between(0, 100*time.Millisecond), crash)
		return
	}
	crash()
}
