package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

const statusHelp = `Without an election it shows all of the bucket, and each group of shards as one row:
see shards. In a pattern * stands for any text.

The remaining lease is how long others wait before they take over if the
leader falls silent from now on. It is counted by the server's clock.

With --roster it also shows how many stand, and of one election who would follow.
The bucket must keep a roster: see bucket add --roster.

The last element of a list with --json has who is cordoned, if any are.

With --all-buckets it shows each bucket that natsleader has made. One that cannot be
read does not hide the others.

The exit code of one election is 0 if a candidate leads it, and 1 if none does. Of a
group it is 0 if each shard has an owner. Of a table it is 0. If the roster cannot be read, the
rest is shown, and the exit code is that of the failure:

  natsleader status billing || echo nobody at the wheel
  natsleader status 'tenant-*' --state expired --state foreign --sort for
  natsleader status --json | jq -r '.[] | select(.state == "leading").id'`

func registerStatus(app *fisk.Application, g *globals) {
	var election string
	var l listing
	cmd := app.Command("status", "Show who leads").HelpLong(statusHelp)
	cmd.Arg("election", "Election to show, or a pattern with *; all of the bucket by default").HintAction(g.electionNames).StringVar(&election)
	l.register(cmd)
	cmd.Action(func(*fisk.ParseContext) (err error) {
		if !l.asked(election) {
			return g.statusOf(election, l.asJSON, l.withRoster)
		}
		if l.names, err = patternOf(election); err != nil {
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

func (g *globals) statusOf(election string, asJSON, withRoster bool) error {
	ctx := context.Background()
	s, x, err := g.look(ctx, election)
	if err != nil {
		return err
	}
	defer s.close()
	now := s.clock.now()
	x.note = s.noteOf(ctx, election)
	if of := (sharing{group: election, only: -1}); x.at(now) == stateNever && of.read(ctx, s) == nil {
		details := append(of.details(), []string{"Members:", fmt.Sprintf("%d: natsleader shards %s", of.brief().Members, election)})
		details = append(details, x.note.details()...)
		return exitIf(len(of.unowned()) > 0, exitFailed, printResult(g.out(), asJSON, of.brief(), columns(details)))
	}
	sum, details := x.summary(now), x.details(now)
	if x.at(now) != stateLeading {
		details = append(details, s.cordonLine(ctx)...)
	}
	if sum.Domain = s.domain(ctx); sum.Domain != "" {
		details = append(details, []string{"Domain:", printable(sum.Domain)})
	}
	var unread error
	if withRoster {
		r := lineup{election: election}
		next := "not known"
		if r.candidates, unread = answer(ctx, s, r.others(s)); unread == nil {
			n := len(r.candidates)
			sum.Stand, next = &n, r.next(now)
		}
		for _, c := range r.first() {
			sum.Next = append(sum.Next, c.ID)
		}
		details = append(details, []string{"Next:", next})
	}
	details = append(details, x.note.details()...)
	err = printResult(g.out(), asJSON, sum, columns(details))
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
	Next      []string     `json:"next,omitempty"`  // the IDs of the first of them
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
