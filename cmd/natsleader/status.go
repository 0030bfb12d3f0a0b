package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

const statusHelp = `It shows the election or the group of a name. Without a name, and for a pattern, in which
* stands for any text, it shows a table of elections with a row for each group. The last
element of that list with --json has who is cordoned, if any are.

The remaining lease is how long others wait before they take over if the leader falls
silent from now on. It is counted by the server's clock.

With --roster it also shows how many stand, and of one election who would follow: the
highest priority first, the longest waiting among equals. The time since which a candidate
waits is that of its own host. Candidates whose writes of the key were denied lately come
last, with denied as their place, and how long ago: one that waits notices that it may
write again with its next write. Candidates without a roster are not shown. A candidate
that died is shown until its announcement expires, after three leases. The bucket must
keep a roster: see bucket add --roster.

A group shares its shards among its members: processes that join it with package shard. A
member is gone if its lease is over, and left if it has stopped. Its shards have no owner
until they are granted to others, and then it is named for a day as past. A shard moves
while its new owner waits until the work of another member has ended. Late work is work
that goes on after its GracePeriod, and for which no new owner waits. The state of a shard
is granted, and its work has not begun, if its owner lives and does not work on it: the
program does not call Serve, or for a lease a guard was not raised. The shard of a key is
its FNV-1a hash of 64 bits, modulo the number of shards.

With --all-buckets it shows each bucket that natsleader has made. One that cannot be
read does not hide the others.

The exit code of one election is 0 if a candidate leads it, and 1 if none does. Of a
group, and of one shard, it is 0 if each shard that is shown has an owner. Of a table it
is 0. If the roster cannot be read, the rest is shown, and the exit code is that of the
failure.

  natsleader status billing || echo nobody at the wheel
  natsleader status billing --roster --json | jq -r '.candidates[].id'
  natsleader status orders --key customer-17 --json | jq -r .value
  natsleader status 'tenant-*' --state expired --state foreign --sort for
  natsleader status --json | jq -r '.[] | select(.state == "leading").id'`

func registerStatus(app *fisk.Application, g *globals) {
	var of sharing
	var l listing
	cmd := app.Command("status", "Show who leads, who would follow, and who owns shards").HelpLong(statusHelp)
	cmd.Arg("name", "Election or group to show, or a pattern with *; all of the bucket by default").HintAction(g.namesToShow).StringVar(&of.group)
	l.register(cmd)
	of.register(cmd)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&l.asJSON)
	cmd.Action(func(*fisk.ParseContext) (err error) {
		if err = of.check(); err != nil {
			return err
		}
		switch table := l.asked(of.group); {
		case of.asked() && (table || l.withRoster):
			return usagef("--shard and --key show the owner of one shard: they take no flags of a table, and no --roster")
		case of.asked():
			return g.inspectBucket(func(ctx context.Context, s *inspector) error {
				if unread := of.read(ctx, s); unread != nil {
					return unread
				}
				return of.show(ctx, g, s, l.asJSON)
			})
		case !table:
			return g.statusOf(of.group, l.asJSON, l.withRoster)
		}
		if l.names, err = patternOf(of.group); err != nil {
			return err
		}
		return g.inspect(func(ctx context.Context, s *inspector) error { return g.statusOfAll(ctx, s, &l) })
	})
}

// Longer IDs and values are cut in tables and lines.
const longID, longValue = 40, 40

// The columns of an overview.
const (
	columnElection = iota
	columnState
	columnLeader
	columnSince
	columnFor
	columnToken
	columnLease
	columnValue
)

// overviewHead names the columns, and the zone of the times.
func overviewHead(now time.Time) []string {
	return []string{"ELECTION", "STATE", "LEADER", "SINCE" + inZone(now), "FOR", "TOKEN", "LEASE LEFT", "VALUE"}
}

// overview returns the line of an election in a table.
func (s electionStatus) overview(st state, now time.Time) []string {
	h, remaining := s.holder, s.remaining(now)
	row := []string{printable(s.election), string(st), "-", "-", "-", "-", "-", ""}
	since := h.Since
	switch st {
	case stateLeading, statePending:
		row[2] = shorten(printable(h.ID), longID)
		row[5], row[6] = s.token(), left(remaining)
		row[7] = shorten(printable(string(h.Value)), longValue)
	case stateExpired, stateReleased, stateDeleted, stateForeign, stateNever:
		since = s.since(st)
		if last := s.last(); last != nil {
			row[2] = "(" + shorten(printable(last.ID), longID) + ")" // not the leader: it was
		}
	}
	if !since.IsZero() {
		row[3], row[4] = formatTime(since), formatAge(now.Sub(since))
	}
	return row
}

// token returns the token of a holder. That of a pending holder will be at least the one of its record.
func (s electionStatus) token() string {
	if s.holder.State == leader.HolderPending {
		return fmt.Sprint(s.holder.Token) + "+"
	}
	return fmt.Sprint(s.holder.Token)
}

// painted is columns, in colours.
func painted(rows [][]string, all []listedElection) []string {
	widths := widest(rows)
	lines := []string{tableRow{style: styleDim}.line(rows[0], widths).paint(true)}
	for i, row := range rows[1:] {
		if i >= len(all) { // a group
			lines = append(lines, tableRow{}.line(row, widths).paint(true))
			continue
		}
		x := &watched{now: all[i].electionStatus, as: all[i].as}
		lines = append(lines, x.styled(row, x.troubleOf(all[i].now, nil)).line(row, widths).paint(true))
	}
	return lines
}

func (g *globals) statusOf(name string, asJSON, withRoster bool) error {
	if err := checkElection(name); err != nil {
		return err
	}
	return g.inspectBucket(func(ctx context.Context, s *inspector) error {
		x, err := answer(ctx, s, func(ctx context.Context) (electionStatus, error) { return s.one(ctx, name) })
		if err == nil && x.entry.Revision == 0 || errors.Is(err, leader.ErrPermission) {
			of := sharing{group: name, only: -1}
			unread := of.read(ctx, s)
			switch {
			case unread == nil:
				return of.show(ctx, g, s, asJSON)
			case !errors.Is(unread, shard.ErrNoGroup) && !errors.Is(unread, leader.ErrPermission):
				return unread
			}
		}
		if err != nil {
			return err
		}
		x.note = s.noteOf(ctx, name)
		return g.statusOfElection(ctx, s, x, asJSON, withRoster)
	})
}

func (g *globals) statusOfElection(ctx context.Context, s *inspector, x electionStatus, asJSON, withRoster bool) error {
	now := s.clock.now()
	sum, details := x.summary(now), x.details(now)
	if x.at(now) != stateLeading {
		details = append(details, s.cordonLine(ctx)...)
	}
	if sum.Domain = s.domain(ctx); sum.Domain != "" {
		details = append(details, []string{"Domain:", printable(sum.Domain)})
	}
	details = append(details, x.note.details()...)
	lines := columns(details)
	var unread error
	if withRoster {
		r := lineup{election: x.election}
		if x.at(now).taken() {
			r.holder = x.holder
		}
		if r.candidates, unread = answer(ctx, s, r.others(s)); unread == nil {
			n := len(r.candidates)
			sum.Stand, sum.Candidates = &n, r.summary().Candidates
			lines = append(append(lines, ""), columns(r.table(now))...)
		}
	}
	err := printResult(g.out(), asJSON, sum, lines)
	return exitIf(x.at(now) != stateLeading, exitFailed, cmp.Or(err, unreadRoster(unread)))
}

// details returns all that is known of an election, for people.
func (s electionStatus) details(now time.Time) [][]string {
	h, st := s.holder, s.at(now)
	id := printable(h.ID)
	rows := [][]string{{"Election:", printable(s.election)}}
	who := func(format string, args ...any) {
		rows = append(rows, []string{"Leader:", fmt.Sprintf(format, args...)})
	}
	moment := func(t time.Time) string { return fmt.Sprintf("%s (%s ago)", formatZoned(t), formatAge(now.Sub(t))) }
	written := moment(s.entry.Created)
	switch st {
	case stateNever:
		who("nobody: no candidate has ever led it")
	case stateDeleted:
		who("nobody: the key was deleted or has expired at %s", written)
	case stateReleased:
		how := "given up in order"
		if l := s.last(); l != nil && l.Reason == reasonTaken {
			how = fmt.Sprintf("%s took the key, because the lease of the member was over, and gave it up", printable(l.ID))
		}
		who("nobody: %s at %s", how, written)
	case stateForeign:
		what := "something"
		if len(h.Value) > 0 {
			what = fmt.Sprintf("%q", h.Value)
		}
		who("unknown: the key holds %s, which natsleader did not write, since %s", what, written)
	case stateExpired:
		who("nobody: %s has not renewed its lease of %v since %s", id, h.Lease, written)
	case statePending:
		who("nobody yet: %s holds the key, and waits until no other lease can be valid", id)
	case stateLeading:
		who("%s", id)
	}
	if !st.held() {
		return append(rows, s.lastDetails(st, moment)...)
	}
	if !h.Since.IsZero() {
		rows = append(rows, []string{"Since:", moment(h.Since)})
	}
	rows = append(rows,
		[]string{"Token:", s.token()},
		[]string{"Lease:", fmt.Sprintf("%v, %s left", h.Lease, left(s.remaining(now)))})
	if len(h.Value) > 0 {
		label := "Value:"
		if _, _, ofGroup := group.NameOf(s.election); ofGroup { // its processes publish for each other
			label = "Internal:"
		}
		rows = append(rows, []string{label, printable(string(h.Value))})
	}
	return rows
}

// summary describes an election for programs.
type summary struct {
	Bucket    string       `json:"bucket,omitempty"` // with --all-buckets
	Domain    string       `json:"domain,omitempty"` // of JetStream
	Election  string       `json:"election"`
	State     state        `json:"state"`
	ID        string       `json:"id,omitempty"` // of the holder that leads, is pending, or has fallen silent
	Since     time.Time    `json:"since,omitzero"`
	Token     uint64       `json:"token,omitempty"`
	Lease     float64      `json:"lease_seconds,omitempty"`
	Remaining *float64     `json:"remaining_seconds,omitempty"`
	Value     string       `json:"value,omitempty"`
	Value64   string       `json:"value64,omitempty"` // a value that is not UTF-8, in base64
	Last      *lastTerm    `json:"last,omitempty"`    // where there is no leader
	Written   time.Time    `json:"written,omitzero"`  // the newest revision
	Revision  uint64       `json:"revision,omitempty"`
	Note      electionNote `json:"note,omitzero"`
	Stand     *int         `json:"stand,omitempty"` // how many candidates, with --roster

	Candidates []candidateSummary `json:"candidates,omitzero"` // of one election, in the order in which they would follow
}

func (s electionStatus) summary(now time.Time) summary {
	h := s.holder
	r := summary{Election: s.election, State: s.at(now), Note: s.note, Revision: s.entry.Revision, Written: s.entry.Created.UTC()}
	if r.State == stateReleased || r.State == stateExpired {
		r.Last = s.last()
	}
	if h.ID == "" {
		return r
	}
	r.ID, r.Token, r.Since, r.Lease = h.ID, h.Token, h.Since.UTC(), h.Lease.Seconds()
	remaining := max(0, s.remaining(now)).Seconds()
	r.Remaining = &remaining
	r.Value, r.Value64 = text(h.Value)
	return r
}

// lastTerm is the last term of an election without a leader, as far as the key's newest
// record tells.
type lastTerm struct {
	ID        string    `json:"id"`
	Token     uint64    `json:"token,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Ended     time.Time `json:"ended"`               // by the server's clock
	Reason    string    `json:"reason"`              // released, expired or taken
	Successor string    `json:"successor,omitempty"` // the candidate that the leader left the key to
	Value     string    `json:"value,omitempty"`     // the last one, unless it is that of the holder
	Value64   string    `json:"value64,omitempty"`   // one that is not UTF-8, in base64
}

// reasonTaken is the reason for the end of a term that another member of a group has begun with the key of a silent
// member, to end the term of that one.
const reasonTaken = "taken"

// last returns the last term, if it has ended and the newest record names its leader. A record does
// not tell why a leader handed over.
func (s electionStatus) last() *lastTerm {
	h := s.holder
	switch {
	case !s.gone.IsZero():
		return nil
	case h.Last != nil:
		t := &lastTerm{ID: h.Last.ID, Token: h.Last.Token, Ended: h.Last.Renewed.UTC(), Reason: h.Last.State.String()}
		t.Value, t.Value64 = text(h.Last.Value)
		var record struct{ To string }
		if json.Unmarshal(s.entry.Value, &record) == nil {
			t.Successor = record.To
		}
		switch member := group.MemberOf(s.election); {
		case member == "":
			return t
		case s.member() == memberLeft: // another member has perhaps taken the key after that
			t.ID, t.Token, t.Reason = member, 0, string(stateReleased)
		case t.ID != member:
			t.Reason = reasonTaken
		}
		t.Value, t.Value64 = "", "" // that of a member is for the group
		return t
	case h.State != leader.HolderLeading:
		return nil
	}
	return &lastTerm{ID: h.ID, Token: h.Token, Since: h.Since.UTC(), Ended: s.expires().UTC(), Reason: string(stateExpired)}
}

// silence is why a leader does not renew its lease.
const silence = "it has died, hangs, or cannot write to the bucket"

// lastDetails returns who led last and why the term ended, for people.
func (s electionStatus) lastDetails(st state, moment func(time.Time) string) [][]string {
	unknown := func(why string) [][]string { return [][]string{{"Last:", "not known: " + why}} }
	switch l := s.last(); {
	case st == stateNever:
		return nil
	case st == stateDeleted && l == nil:
		return unknown("the record of the last term is gone with the key")
	case st == stateForeign:
		return unknown("another program has overwritten the record of the last term")
	case l == nil && s.holder.State == leader.HolderPending:
		return [][]string{{"Last:", "not known: " + printable(s.holder.ID) + " took the key, and its lease ended before it led"}}
	case l == nil:
		return unknown("the record does not name the leader")
	default:
		rows := [][]string{{"Last:", printable(l.ID)}}
		if l.Token > 0 {
			rows[0][1] += fmt.Sprintf(" with token %d", l.Token)
		}
		if !l.Since.IsZero() {
			rows = append(rows, []string{"Since:", moment(l.Since)})
		}
		why := "it did not renew its lease: " + silence
		switch {
		case l.Reason == reasonTaken:
			why = "it took the key only to end the term of the member, which had not renewed its lease"
		case l.Reason != string(stateExpired):
			why = "it handed over in order"
			if l.Successor != "" {
				why += ", to " + printable(l.Successor)
			}
		}
		rows = append(rows, []string{"Ended:", moment(l.Ended) + ": " + why})
		if value := cmp.Or(l.Value, l.Value64); value != "" {
			rows = append(rows, []string{"Value:", printable(value)})
		}
		return rows
	}
}
