package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/slots"
	"github.com/natsleader/natsleader/internal/wire"
)

// ServerWrites is how many renewals per second a server carries with room to spare: half of what
// docs/scale.md has for three replicas on file.
const ServerWrites = 10_000

// election is a key at the moment of the reading.
type election struct {
	facts.ElectionStatus
	state facts.State
	is    Finding
}

// elections judges all records of the bucket.
func (x *exam) elections() []Finding {
	read, _ := x.Elections.Get()
	now := x.Elections.From().At
	cordon, _ := x.Cordon.Get()
	in := Around{Now: now, Expires: x.settings.TTL > 0, Lease: x.lease(), Cordoned: cordon.Names}
	all := make([]election, len(read))
	for i, e := range read {
		s := e.Status()
		st := s.At(now)
		all[i] = election{s, st, Election(s, st, in)}
	}
	elections, groups := facts.WithoutGroups(all, func(e election) facts.ElectionStatus { return e.ElectionStatus })
	most := x.settings.MaxLease
	var foreign, long, damaged []string
	for _, e := range all {
		if e.Note.Unread != "" {
			damaged = append(damaged, facts.Text(e.Election).String())
		}
		name, isElection, _ := group.NameOf(e.Election)
		switch {
		case slices.Contains(groups, name) && !isElection: // a part of the map
		case e.is.Code == KeyForeign:
			foreign = append(foreign, facts.Text(e.Election).String())
		case most > 0 && e.KeptLease() > most:
			long = append(long, fmt.Sprintf("%v (%v)", facts.Text(e.Election), e.KeptLease()))
		}
	}
	var found []Finding
	if len(foreign) > 0 {
		found = append(found, Warning.trouble(KeyForeign, "%d of %d keys hold something that natsleader did not write: %s", len(foreign), len(all), Some(foreign)))
	}
	switch f, missing := x.missing("Cordon", "elections"); {
	case missing:
		found = append(found, f)
	case cordon.Fault != "":
		found = append(found, Warning.of("%s", cordon.Fault).advise("nats kv del "+x.Asked.Bucket+" "+wire.CordonKey))
	case len(cordon.Names) > 0:
		found = append(found, Note.of("these candidates are cordoned, and take no election: %s", Some(cordon.Names)).advise("natsleader undrain "+join(cordon.Names)))
	}
	if len(damaged) > 0 {
		found = append(found, Warning.of("the keys of the notes on these elections hold something else: %s", Some(damaged)).advise("natsleader note ELECTION --remove, or write it anew"))
	}
	if len(long) > 0 {
		found = append(found, Warning.of("leases are longer than the bucket's MaxLease %v: %s", most, Some(long)).
			advise("raise MaxLease, or restart these candidates with shorter leases: others may not wait for all of them; if no candidate has such a lease, delete the key with: nats kv del "+x.Asked.Bucket+" ELECTION"))
	}
	var idle, deleted, soon []facts.Text
	for _, e := range elections {
		switch name := facts.Text(e.Election); {
		case e.is.Severity == Note:
			soon = append(soon, name)
		case e.is.Code == LeaseOver:
			idle = append(idle, name)
		case e.is.Code == KeyDeleted:
			deleted = append(deleted, name)
		}
	}
	if len(idle) > 0 {
		f := Warning.trouble(LeaseOver, "the lease is over and no candidate takes over in %s: writes fail, or all candidates are gone", Some(idle))
		f = f.cordoned(cordon.Names)
		f.Advice += "; if an election is not used any more, lead and release it once: natsleader run --bucket " + x.Asked.Bucket + " ELECTION -- true"
		found = append(found, f)
	}
	if len(deleted) > 0 {
		f := Warning.trouble(KeyDeleted, "the key was deleted and no candidate takes it in %s", Some(deleted))
		f.Advice += "; for the election of a job that runs once in a while: natsleader note ELECTION --one-shot"
		found = append(found, f)
	}
	if len(soon) > 0 {
		found = append(found, Note.of("the lease has just ended, or the key has just been deleted, in %s", Some(soon)).advise("look again after a lease: a candidate that waits leads by then"))
	}
	found = append(found, schedules(elections, now)...)
	f, load := renewals(all, len(groups) > 0)
	if f.Severity > OK {
		found = append(found, f)
	}
	if len(found) == 0 {
		found = append(found, fine("%s, all records are sound; %s", Plural(len(elections), "election"), load))
	}
	return append(found, x.groups(groups)...)
}

// renewals judges how many elections are led at the moment of the reading, and how many writes per second their
// renewals are by default.
func renewals(all []election, groups bool) (f Finding, load string) {
	led, writes := 0, 0.0
	for _, e := range all {
		if e.state == facts.Leading {
			led++
		}
		if e.state.Held() {
			writes += 1 / wire.RenewInterval(e.Holder.Lease).Seconds()
		}
	}
	included := ""
	if groups {
		included = " (those of members and assigners included)"
	}
	load = fmt.Sprintf("%d elections are led now%s, and their renewals are about %.1f writes per second", led, included, writes)
	s := Note
	switch {
	case writes < ServerWrites/2:
		return Finding{}, load
	case writes >= ServerWrites:
		s = Warning
	}
	return s.of("%s, of the %d that a server carries", load, ServerWrites).
		advise("use longer leases, or put elections into buckets that other servers lead; docs/scale.md has the figures"), load
}

// markAhead is by how much a mark may be ahead of the server's time, and a slot late: the tolerance of package
// schedule.
const markAhead = 10 * time.Second

// schedules returns findings about elections that publish the marks of package schedule: one in the future, and a slot
// that its leader should have begun a lease ago.
func schedules(all []election, now time.Time) (found []Finding) {
	var ahead, late []string
	for _, e := range all {
		m, ok := slots.ParseMark(string(e.Holder.Value))
		at := func(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339) }
		switch next := time.Unix(0, m.Next); {
		case !ok:
		case m.At > now.Add(markAhead).UnixNano():
			ahead = append(ahead, fmt.Sprintf("%v (%s)", facts.Text(e.Election), at(m.At)))
		case m.Next != slots.None && e.state == facts.Leading && now.Sub(next) > markAhead+e.Holder.Lease:
			late = append(late, fmt.Sprintf("%v (%s)", facts.Text(e.Election), at(m.Next)))
		}
	}
	if len(ahead) > 0 {
		found = append(found, Warning.of("the last slot of these schedules is in the future: %s", Some(ahead)).
			advise("set the clocks of the servers and of the replicas; the next leader goes on from now, and works these slots again at their time"))
	}
	if len(late) > 0 {
		found = append(found, Warning.of("the leader has not begun the slot that is due in these schedules: %s", Some(late)).
			advise("its work takes longer than to the next slot, or hangs: set Config.StallTimeout; see its log"))
	}
	return found
}

// Plural is a number of things.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
