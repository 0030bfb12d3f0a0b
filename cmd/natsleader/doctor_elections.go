package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// mostNames is how many elections a finding names.
const mostNames = 5

// serverWrites is how many renewals per second a server carries with room to spare: half of what
// docs/scale.md has for three replicas on file.
const serverWrites = 10_000

// checkElections reads all records of the bucket.
func checkElections(ctx context.Context, e *environment) []finding {
	if err := e.try(e.createNothing(e.name, "$KV."+e.name+".>")); err != nil {
		if errors.Is(err, nats.ErrPermissionViolation) {
			return []finding{unread("%s (to read all elections; candidates need not)", violation(err))}
		}
		return []finding{unanswered("%v", err)}
	}
	s := &inspector{bucket: e.bucket, js: e.js, name: e.name, limit: e.wait} // the permission was tried above
	all, err := answer(ctx, s, s.all)
	if err != nil {
		return []finding{unreadFor(err, "the elections cannot be read: %s", errorText(err))}
	}
	elections, groups := withoutGroups(all)
	var foreign, long []string
	for _, x := range all {
		name, isElection, _ := group.NameOf(x.election)
		switch most := e.settings.MaxLease; {
		case slices.Contains(groups, name) && !isElection: // a part of the map
		case x.holder.State == leader.HolderForeign:
			foreign = append(foreign, x.election)
		case most > 0 && keptLease(x) > most:
			long = append(long, fmt.Sprintf("%s (%v)", x.election, keptLease(x)))
		}
	}
	var found []finding
	if len(foreign) > 0 {
		found = append(found, severityWarning.of("%d of %d keys hold something that natsleader did not write: %s", len(foreign), len(all), some(foreign)).
			advise(fmt.Sprintf("keep nothing else in the bucket; nobody leads such an election before the key has been left alone for %v", e.lease())))
	}
	switch names, err := cordonOf(s.cordoned); {
	case err != nil:
		found = append(found, severityWarning.of("%s", errorText(err)).advise("nats kv del "+e.name+" "+wire.CordonKey))
	case len(names) > 0:
		found = append(found, severityNote.of("these candidates are cordoned, and take no election: %s", some(names)).advise("natsleader undrain NAME"))
	}
	if len(long) > 0 {
		found = append(found, severityWarning.of("leases are longer than the bucket's MaxLease %v: %s", e.settings.MaxLease, some(long)).
			advise("raise MaxLease, or restart these candidates with shorter leases: others may not wait for all of them; if no candidate has such a lease, delete the key with: nats kv del "+e.name+" ELECTION"))
	}
	clock := newServerClock(e.info.TimeStamp, time.Since(e.infoAt))
	if idle := abandoned(elections, clock.now()); len(idle) > 0 {
		found = append(found, severityWarning.of("the lease is over and no candidate takes over in %s: writes fail, or all candidates are gone", some(idle)).
			advise("start its candidates; if they run, see their logs, and whether the servers have room: one whose disk was full refuses writes until it is restarted; "+
				"if an election is not used any more, lead and release it once: natsleader run --bucket "+e.name+" ELECTION -- true"))
	}
	var deleted []string
	for _, x := range elections { // where keys expire, one that was given up in order looks the same
		if x.at(clock.now()) == stateDeleted && !x.idle() && e.settings.TTL == 0 && clock.now().Sub(x.entry.Created) > max(e.lease(), keptLease(x)) {
			deleted = append(deleted, x.election)
		}
	}
	if len(deleted) > 0 {
		found = append(found, severityWarning.of("the key was deleted and no candidate takes it in %s", some(deleted)).
			advise("start its candidates; for the election of a job that runs once in a while: natsleader note ELECTION --one-shot"))
	}
	found = append(found, judgeSchedules(elections, clock.now())...)
	led, writes := renewalLoad(all, clock.now())
	included := ""
	if len(groups) > 0 {
		included = " (those of members and assigners included)"
	}
	load := fmt.Sprintf("%d elections are led now%s, and their renewals are about %.1f writes per second", led, included, writes)
	if f, heavy := judgeLoad(load, writes); heavy {
		found = append(found, f)
	}
	if len(found) == 0 {
		found = append(found, fine("%s, all records are sound; %s", plural(len(elections), "election"), load))
	}
	s.clock = clock
	for _, name := range groups {
		found = append(found, judgeGroup(ctx, s, name, all)...)
	}
	return found
}

// abandoned names the elections whose leases ended more than a lease ago. A candidate that
// waits would have taken them.
func abandoned(all []electionStatus, now time.Time) (names []string) {
	for _, x := range all {
		if x.at(now) == stateExpired && -x.remaining(now) > x.holder.Lease {
			names = append(names, x.election)
		}
	}
	return names
}

// renewalLoad returns how many of the elections have a holder at a moment of the server's time,
// and how many writes per second their renewals are by default.
func renewalLoad(all []electionStatus, now time.Time) (led int, writes float64) {
	for _, x := range all {
		if !x.at(now).held() {
			continue
		}
		led++
		writes += 1 / wire.RenewInterval(x.holder.Lease).Seconds()
	}
	return led, writes
}

// judgeLoad returns the finding about so many writes per second, if they are many for one
// server.
func judgeLoad(load string, writes float64) (f finding, heavy bool) {
	s := severityNote
	switch {
	case writes < serverWrites/2:
		return finding{}, false
	case writes >= serverWrites:
		s = severityWarning
	}
	return s.of("%s, of the %d that a server carries", load, serverWrites).
		advise("use longer leases, or put elections into buckets that other servers lead; docs/scale.md has the figures"), true
}

// keptLease returns the lease for which candidates wait: that of the record, or that of
// the delete marker which step-down --force leaves.
func keptLease(x electionStatus) time.Duration {
	return leader.HolderOf(natskv.KeyValue(backend.Entry{Value: x.entry.Value, Revision: x.entry.Revision}, x.election)).Lease
}

// some joins names, but not too many of them.
func some(names []string) string {
	if len(names) <= mostNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNames], ", "), len(names)-mostNames)
}
