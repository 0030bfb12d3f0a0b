package machine

import (
	"fmt"
	"math"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// The clock of a virtual machine stands still while the machine is paused, and the lease of a leader with it. Two
// hints show that afterwards: the time of day has run ahead of the clock, and the server's clock has. A hint may be wrong.
// An operator may have set the time of day, or the server's clock. So a hint makes no lease longer, lets no candidate take a
// key sooner, and ends no term whose renewals are answered.

// paused takes the hint of the time of day: this clock has stood still for so long. The candidate asks the store by a renewal
// at once. Its writes count as sent so much earlier, and its lease ends so much sooner. But the renewal gets one interval,
// in which a connection renews the leases of all its leaders in any case.
func (m *Machine) paused(now time.Time, by time.Duration) {
	m.writes.sentEarlier(by)
	m.flight.sentEarlier(by)
	m.term.shorten(by, now.Add(m.bucket.times.RenewInterval))
	if m.holds() {
		m.renew.want()
	}
}

// compare compares this clock with the server's, by a record that was sent then and shows the server's time. It reports once
// that they go apart. The record is an own renewal, or the candidate has just read what holds the key. So a holder has done
// what it can do.
func (m *Machine) compare(server int64, sent, now time.Time, fx *Effects) {
	t := m.bucket.timing()
	since := m.compared.at
	slower, news := m.compared.judge(server, sent, now, t.Lease, t.Lease-t.RenewDeadline)
	if !news {
		return
	}
	by, within := slower.Abs().Round(time.Millisecond), time.Duration(now.UnixNano()-since).Round(time.Millisecond)
	if slower < 0 {
		m.fault(fmt.Errorf("%w: it ran %v faster than the server's in %v, if no other server with another clock leads the stream since; correct this clock, or the server's", backend.ErrClock, by, within), fx)
		return
	}
	m.fault(fmt.Errorf("%w: it ran %v slower than the server's in %v, as after a pause of the virtual machine, or if another server with another clock leads the stream since; otherwise correct this clock, or the server's",
		backend.ErrClock, by, within), fx)
}

// comparison is how this clock was last compared with the server's.
//
// least is not greater than most.
type comparison struct {
	at          int64 // when they were compared; 0: not yet
	least, most int64 // between these the server's clock was ahead then
	apart       bool  // they had gone apart, which was reported
}

// judge takes a record with the server's time. It returns by how much this clock ran slower than the server's since they
// were compared, or 0 if that may be less than the margin in each lease, and whether it is news. A negative result is a
// faster clock. A record with a zero sent may be old.
func (c *comparison) judge(server int64, sent, now time.Time, lease, margin time.Duration) (slower time.Duration, news bool) {
	least, most := server-now.UnixNano(), int64(math.MaxInt64)
	known := !sent.IsZero()
	if known {
		most = server - sent.UnixNano()
	}
	switch elapsed := time.Duration(now.UnixNano() - c.at); {
	case server <= 0 || known && now.Sub(sent) > margin:
		return 0, false
	case c.at == 0:
	default:
		allowed := int64(max(margin, time.Duration(float64(margin)*float64(elapsed)/float64(lease))))
		switch {
		case least-c.most > allowed:
			slower = time.Duration(least - c.most)
		case most < c.least && c.least-most > allowed:
			slower = time.Duration(most - c.least)
		case elapsed < lease:
			return 0, false
		}
	}
	news = slower != 0 && !c.apart
	if known {
		*c = comparison{now.UnixNano(), least, most, slower != 0}
	} else if news {
		c.apart = true
	}
	return slower, news
}

// due reports whether they are to be compared again.
func (c *comparison) due(now time.Time, lease time.Duration) bool {
	return c.at != 0 && now.UnixNano()-c.at >= int64(lease)
}

// serverClock reckons the server's time by an answer of the server: the settings, or an own write that the feed has
// delivered. Records show it to people, and no machine looks at it. In Unix nanoseconds it takes the least memory.
type serverClock struct {
	ahead int64 // of this clock
	sent  int64 // when the answer was requested; 0: none is known
}

// For drifts a clock and that of the server stay together, if neither stands still or is set. An answer that took longer
// than exact is used until the next one.
const (
	drifts = time.Minute
	exact  = time.Second
)

// set takes an answer with the server's time, unless the one before is more exact. The server is not further ahead than an
// answer shows when it was requested, and not less than when it came. If it is, this clock has stood still.
func (c *serverClock) set(server int64, sent, now time.Time) {
	ahead, least := server-sent.UnixNano(), server-now.UnixNano()
	if server == 0 || c.fresh(sent) && ahead >= c.ahead && least <= c.ahead {
		return
	}
	*c = serverClock{ahead, sent.UnixNano()}
	if now.Sub(sent) > exact {
		c.sent -= int64(drifts)
	}
}

// hear is set for an answer that the feed has delivered. It may be a forgery, so it takes the server's time back once a minute
// at most, and by no more than a second.
func (c *serverClock) hear(server int64, sent, now time.Time) {
	back := c.ahead - (server - sent.UnixNano())
	if c.sent == 0 || back <= 0 || back <= int64(exact) && !c.fresh(sent) {
		c.set(server, sent, now)
	}
}

// reckon returns the server's time at an instant, or 0. It is late by the way of the request.
func (c serverClock) reckon(at time.Time) int64 {
	if c.sent == 0 {
		return 0
	}
	return c.ahead + at.UnixNano()
}

// fresh reports whether it is right at an instant.
func (c serverClock) fresh(at time.Time) bool {
	return c.sent != 0 && at.UnixNano()-c.sent < int64(drifts)
}
