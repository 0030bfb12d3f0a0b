package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/wire"
)

// farOff is a difference of clocks that people would notice in times of day.
const farOff = time.Second

// checkClock compares times of day. Leases depend on the rate of clocks and not on the
// time that they show, so no finding here is worse than a note.
func checkClock(_ context.Context, e *environment) []finding {
	var found []finding
	switch synced, err := e.hostSync(); {
	case err != nil:
		found = append(found, unread("%v", err))
	case !synced:
		found = append(found, severityNote.of("the clock of this host is not synchronised; leases depend on its rate only, not on the time that it shows").
			advise("run an NTP client, for the times that people see"))
	}
	within := ""
	if e.info != nil && !e.info.TimeStamp.IsZero() {
		ahead := e.info.TimeStamp.Sub(e.infoAt.Round(0)) // by the time of day
		off := max(ahead, -ahead)
		if off > farOff+e.infoTook/2 {
			found = append(found, severityNote.of("the server's clock is %v off from this host's; a bucket's TTL goes by the server's, leases by neither",
				off.Round(time.Millisecond)).advise("run NTP clients on both"))
		}
		within = fmt.Sprintf(", and within %v of the server's", roundish(off+e.infoTook/2))
	}
	if len(found) == 0 {
		found = append(found, fine("the clock of this host is synchronised%s", within))
	}
	return found
}

// leastPace and mostPace are for how long the rates of clocks are compared, at least and at most.
const leastPace, mostPace = 100 * time.Millisecond, 2 * time.Second

// checkPace compares the rates of the clocks, by asking the server for its time again.
func checkPace(_ context.Context, e *environment) []finding {
	time.Sleep(min(mostPace, max(leastPace, 20*e.infoTook)) - time.Since(e.infoAt))
	var again jetstream.StreamInfo
	began := time.Now()
	if err := e.request(&nats.Msg{Subject: e.api + "STREAM.INFO.KV_" + e.name}, &again); err != nil {
		return []finding{unreadFor(err, "%s", violation(err))}
	}
	if err := e.majority(&again); err != nil {
		return []finding{unanswered("what was read before may be over: %s", errorText(err))}
	}
	took := time.Since(began)
	if again.TimeStamp.IsZero() || e.info.TimeStamp.IsZero() || streamLeader(&again) != streamLeader(e.info) {
		return []finding{unanswered("the server does not tell its time, or another one leads the stream now")}
	}
	return []finding{judgePace(again.TimeStamp.Sub(e.info.TimeStamp), began.Add(took/2).Sub(e.infoAt), (e.infoTook+took)/2, e.lease())}
}

// judgePace compares how much time has passed on two clocks, give or take some.
func judgePace(server, host, uncertain, lease time.Duration) finding {
	off, margin := max(server-host, host-server)-uncertain, lease-wire.RenewDeadline(lease)
	if off.Seconds()*lease.Seconds() <= margin.Seconds()*host.Seconds() {
		return fine("the clock of this host runs at the rate of the server's, as far as leases need that")
	}
	how := "slower"
	if host > server {
		how = "faster"
	}
	return severityCritical.of("the clock of this host ran %v %s than the server's in %v: leases of %v allow for %v, so two candidates can lead",
		roundish(off), how, roundish(host), lease, margin).advise("correct the clock of this host, or of the server")
}

// checkClient reports the settings that applications should use, which the server does
// not know.
func checkClient(_ context.Context, e *environment) []finding {
	ping, flush := e.nc.Opts.PingInterval, e.nc.Opts.FlusherTimeout
	return []finding{fine("this connection pings every %v, and a write that the network does not take fails after %v", ping, flush).
		advise("set nats.PingInterval(time.Second) and nats.FlusherTimeout(2*time.Second) in applications, too: their defaults are minutes, and doctor cannot see them")}
}

// Answers are measured until there are manyTrips, or for longTrips if there are
// someTrips.
const (
	manyTrips, someTrips = 15, 3
	longTrips            = time.Second
)

// checkRoundTrip measures how long answers take, and compares that with the pace of
// candidates.
func checkRoundTrip(_ context.Context, e *environment) []finding {
	pings, err := e.times(e.nc.RTT)
	if err != nil {
		return []finding{unanswered("%v", err)}
	}
	ping := pings[len(pings)/2]
	if e.info == nil || e.unfit != nil { // no stream answers writes
		return []finding{fine("to the server and back in %v", roundish(ping))}
	}
	if _, err = e.ask(e.impossible(e.name, e.election)); err != nil {
		return []finding{fine("to the server and back in %v", roundish(ping)), unreadFor(err, "to the leader of the stream and back: %s", violation(err))}
	}
	answers, err := e.times(func() (time.Duration, error) {
		began := time.Now()
		_, late := e.nc.RequestMsg(e.impossible(e.name, e.election), e.wait)
		return time.Since(began), late
	})
	if err != nil {
		return []finding{fine("to the server and back in %v", roundish(ping)), unanswered("to the leader of the stream and back: %v", err)}
	}
	answer, slowest := answers[len(answers)/2], answers[len(answers)-1]
	lease := e.lease()
	interval := wire.RenewInterval(lease)
	wait := wire.RenewWait(interval)
	tries := int64((wire.RenewDeadline(lease) - interval) / max(slowest, time.Microsecond))
	switch {
	case answer > 2*wait: // the second try may take twice as long
		return []finding{severityCritical.of("the stream answers in %v: a leader with a lease of %v gives each renewal %v, and is fenced again and again",
			roundish(answer), lease, 2*wait).advise("use longer leases, or a server that is nearer")}
	case slowest > wait || tries < 5:
		return []finding{severityWarning.of("the stream answers in %v, at worst %v, which is slow for leases of %v: a leader gives a renewal %v, and few can be tried before the deadline",
			roundish(answer), roundish(slowest), lease, wait).advise("use longer leases, or a server that is nearer")}
	default:
		return []finding{fine("to the server and back in %v, to the leader of the stream in %v, at worst %v: fast enough for leases of %v",
			roundish(ping), roundish(answer), roundish(slowest), lease)}
	}
}

// times measures something several times, and sorts the results.
func (e *environment) times(measure func() (time.Duration, error)) ([]time.Duration, error) {
	var took []time.Duration
	for began := time.Now(); len(took) < manyTrips && (len(took) < someTrips || time.Since(began) < longTrips); {
		d, err := measure()
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	return took, nil
}

// roundish is a duration with about three digits.
func roundish(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}
