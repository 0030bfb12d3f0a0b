package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/hazards"
	"github.com/natsleader/natsleader/internal/wire"
)

// rosterName returns the name of the roster's bucket, also if the roster is yet to be
// made.
func (e *environment) rosterName() string {
	if e.info != nil && e.info.Config.Metadata[wire.RosterKey] != "" {
		return e.info.Config.Metadata[wire.RosterKey]
	}
	return wire.RosterName(e.name)
}

// checkRoster checks the roster, if there ought to be one.
func checkRoster(ctx context.Context, e *environment) []finding {
	missing := func(text string) []finding {
		f := fine("%s: whoever is first takes a free key", text)
		if e.roster {
			f = severityWarning.of("%s: nobody waits for a turn, and candidates are not listed", text)
		}
		if e.roster || e.info.Config.Metadata[wire.RosterKey] != "" {
			f = f.advise(e.adviseRoster())
		}
		return []finding{f}
	}
	if e.info.Config.Metadata[wire.RosterKey] == "" {
		return missing("the bucket keeps no roster")
	}
	err := e.try(e.send("STREAM.INFO.KV_"+e.rosterName(), ""))
	if errors.Is(err, nats.ErrPermissionViolation) {
		return []finding{unread("%s (for the settings of the roster)", violation(err))}
	}
	ctx, cancel := context.WithTimeout(ctx, e.wait)
	defer cancel()
	stream, err := e.js.Stream(ctx, "KV_"+e.rosterName())
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return missing("the roster of the bucket is gone")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), refusedWith(err, codeOffline):
		return []finding{severityWarning.of("the roster, stream KV_%s, does not answer: %s; while it has no leader nobody sees who waits", e.rosterName(), errorText(err)).
			advise("if that lasts, bring back a majority of its servers")}
	case err != nil:
		return []finding{unanswered("the roster, stream KV_%s: %s", e.rosterName(), errorText(err))}
	}
	wrong := e.wrongInRoster(stream.CachedInfo().Config)
	if len(wrong) == 0 {
		return []finding{fine("candidates announce themselves in %s", e.rosterName())}
	}
	return []finding{severityWarning.of("the roster %s is not set as it ought to be: %s", e.rosterName(), strings.Join(wrong, "; ")).
		advise(e.adviseRoster())}
}

// adviseRoster is the advice to create the roster or bring it to its settings. Servers that do
// not know message TTLs ignore those settings.
func (e *environment) adviseRoster() string {
	add := e.addLine("--roster")
	if old := e.tooOldFor(leastVersion); len(old) > 0 {
		where := ""
		if e.info.Cluster != nil && e.info.Cluster.Name != "" {
			where = " (" + strings.Join(old, ", ") + ")"
		}
		return fmt.Sprintf("update the servers%s to nats-server %s or later, then: %s", where, leastVersion, add)
	}
	return add
}

// wrongInRoster names the settings with which a roster would not work, or would not
// show which candidates stand.
func (e *environment) wrongInRoster(c jetstream.StreamConfig) (wrong []string) {
	roster := hazards.Bucket(c, hazards.Roster, e.rosterName())
	for _, h := range append(roster.Of(hazards.Refused), roster.Of(hazards.Reported)...) {
		wrong = append(wrong, "it "+h.Text)
	}
	if least := wire.AnnouncementLeases * e.lease(); 0 < c.MaxAge && c.MaxAge < least {
		wrong = append(wrong, fmt.Sprintf("a TTL of %v, less than %d leases", c.MaxAge, wire.AnnouncementLeases))
	}
	if c.Replicas < e.info.Config.Replicas {
		wrong = append(wrong, fmt.Sprintf("%d replicas, where the bucket has %d", c.Replicas, e.info.Config.Replicas))
	}
	return wrong
}

// rosterProbes are the permissions of a candidate, or of an operator, with a roster. Nothing is stored,
// and no consumer is made.
func (e *environment) rosterProbes() []permissionProbe {
	name := e.rosterName()
	keys := "$KV." + name + "." + e.election + "."
	announce := permissionProbe{"announcing itself in the roster: without it, it is not in line", severityWarning, func() error {
		return e.nc.PublishMsg(e.impossible(name, e.election+"."+anySession))
	}}
	if e.as == asOperator {
		announce.do = func() error { return nil }
	}
	return []permissionProbe{
		{"the settings of the roster", severityNote, e.send("STREAM.INFO.KV_"+name, "")},
		announce,
		{"seeing who stands: without it, a leader names nobody to follow it", severityWarning, e.createNothing(name, keys+"*")},
		{"tidiness", severityNote, e.send("CONSUMER.DELETE.KV_"+name+"."+noConsumer, "")},
	}
}

// anySession is a session that no candidate has.
const anySession = "NATSLEADERDOCTOR2222222222"
