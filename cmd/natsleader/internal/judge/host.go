package judge

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/wire"
)

// farOff is a difference of clocks that people would notice in times of day.
const farOff = time.Second

// clock compares times of day. Leases depend on the rate of clocks and not on the
// time that they show, so no finding here is worse than a note.
func (x *exam) clock() []Finding {
	var found []Finding
	switch c, _ := x.Clock.Get(); {
	case c.Silent != "":
		found = append(found, unread("%s", c.Silent))
	case !c.Synced:
		found = append(found, Note.of("the clock of this host is not synchronised; leases depend on its rate only, not on the time that it shows").
			advise("run an NTP client, for the times that people see"))
	}
	within := ""
	if s := x.stream; x.info != nil && !x.info.TimeStamp.IsZero() {
		ahead := x.info.TimeStamp.Sub(s.At)
		off := max(ahead, -ahead)
		if off > farOff+s.Took/2 {
			found = append(found, Note.of("the server's clock is %v off from this host's; a bucket's TTL goes by the server's, leases by neither",
				off.Round(time.Millisecond)).advise("run NTP clients on both"))
		}
		within = fmt.Sprintf(", and within %v of the server's", roundish(off+s.Took/2))
	}
	if len(found) == 0 {
		found = append(found, fine("the clock of this host is synchronised%s", within))
	}
	return found
}

// pace compares how much time has passed on two clocks, give or take some.
func (x *exam) pace() []Finding {
	p, _ := x.Pace.Get()
	lease := x.lease()
	off, margin := max(p.Server-p.Host, p.Host-p.Server)-p.Uncertain, lease-wire.RenewDeadline(lease)
	if off.Seconds()*lease.Seconds() <= margin.Seconds()*p.Host.Seconds() {
		return []Finding{fine("the clock of this host runs at the rate of the server's, as far as leases need that")}
	}
	how := "slower"
	if p.Host > p.Server {
		how = "faster"
	}
	return []Finding{Critical.of("the clock of this host ran %v %s than the server's in %v: leases of %v allow for %v, so two candidates can lead",
		roundish(off), how, roundish(p.Host), lease, margin).advise("correct the clock of this host, or of the server")}
}

// roundTrip compares how long answers take with the pace of candidates.
func (x *exam) roundTrip() []Finding {
	pings, _ := x.Pings.Get()
	answers, _ := x.Answers.Get()
	if len(pings) == 0 {
		return []Finding{unanswered("no round trip was measured")}
	}
	ping := roundish(pings[len(pings)/2])
	f, missing := x.missing("Answers", "round-trip")
	switch {
	case missing && x.gaps["Answers"].Why == facts.NotRead && !x.takesWrites():
		return []Finding{fine("to the server and back in %v", ping)}
	case missing:
		return []Finding{fine("to the server and back in %v", ping), f}
	case len(answers) == 0:
		return []Finding{unanswered("to the leader of the stream and back: no round trip was measured")}
	}
	answer, slowest := answers[len(answers)/2], answers[len(answers)-1]
	lease := x.lease()
	interval := wire.RenewInterval(lease)
	wait := wire.RenewWait(interval)
	tries := int64((wire.RenewDeadline(lease) - interval) / max(slowest, time.Microsecond))
	switch {
	case answer > 2*wait: // the second try may take twice as long
		return []Finding{Critical.of("the stream answers in %v: a leader with a lease of %v gives each renewal %v, and is fenced again and again",
			roundish(answer), lease, 2*wait).advise("use longer leases, or a server that is nearer")}
	case slowest > wait || tries < 5:
		return []Finding{Warning.of("the stream answers in %v, at worst %v, which is slow for leases of %v: a leader gives a renewal %v, and few can be tried before the deadline",
			roundish(answer), roundish(slowest), lease, wait).advise("use longer leases, or a server that is nearer")}
	default:
		return []Finding{fine("to the server and back in %v, to the leader of the stream in %v, at worst %v: fast enough for leases of %v",
			ping, roundish(answer), roundish(slowest), lease)}
	}
}
