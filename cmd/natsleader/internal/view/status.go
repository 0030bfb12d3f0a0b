package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

const statusHelp = `It shows the election or the group of a name. Without a name, and for a pattern, in which
* stands for any text, it shows a table of elections with a row for each group. The last
element of that list with --json has who is cordoned, and which keys of the roster are
damaged, if any are.

The remaining lease is how long others wait before they take over if the leader falls
silent from now on. It is counted by the server's clock.

With --roster it also shows how many stand, and of one election who would follow: the
highest priority first, the longest waiting among equals. The time since which a candidate
waits is that of its own host. Candidates whose writes of the key were denied lately come
last, with denied as their place, and how long ago: one that waits notices that it may
write again with its next write. A leader whose lease is over, and which no other has
followed, is not in the roster: whether it waits is not known. Candidates without a roster are not shown. A candidate
that died is shown until its announcement expires, after three leases, or six if a server
forgot to let it expire. The bucket must keep a roster: see bucket add --roster.

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
group it is 1 if it is in trouble, also while no member assigns shards, and otherwise 0,
also if all members have left. Of one shard it is 0 if it has an owner. It is 69 while the
map of the group, or a part of it, is not there or cannot be read. Of a table it is 0. If
the roster or a group cannot be read, the rest is shown, and the exit code is that of the
failure.

  natsleader status billing || echo nobody at the wheel
  natsleader status billing --roster --json | jq -r '.candidates[].id'
  natsleader status orders --key customer-17 --json | jq -r .value
  natsleader status 'tenant-*' --state expired --state foreign --sort for
  natsleader status --json | jq -r '.[] | select(.state == "leading").id'`

// RegisterStatus adds the command status.
func RegisterStatus(app *fisk.Application, g *front.Globals) {
	var of Sharing
	var l listing
	cmd := app.Command("status", "Show who leads, who would follow, and who owns shards").HelpLong(statusHelp)
	cmd.Arg("name", "Election or group to show, or a pattern with *; all of the bucket by default").HintAction(func() []string { return inspect.NamesToShow(g) }).StringVar(&of.Group)
	l.register(cmd)
	of.register(cmd)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&l.asJSON)
	cmd.Action(func(*fisk.ParseContext) (err error) {
		if err = of.check(); err != nil {
			return err
		}
		switch table := l.asked(of.Group); {
		case of.asked() && (table || l.withRoster):
			return front.Usagef("--shard and --key show the owner of one shard: they take no flags of a table, and no --roster")
		case of.asked():
			return inspect.DoExisting(g, func(ctx context.Context, s *inspect.Inspector) error {
				if unread := of.Read(ctx, s); unread != nil {
					return unread
				}
				return of.show(ctx, g, s, l.asJSON)
			})
		case !table:
			return statusOf(g, of.Group, l.asJSON, l.withRoster)
		}
		if l.names, err = PatternOf(of.Group); err != nil {
			return err
		}
		return inspect.Do(g, func(ctx context.Context, s *inspect.Inspector) error { return statusOfAll(ctx, g, s, &l) })
	})
}

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
	return []string{"ELECTION", "STATE", "LEADER", "SINCE" + front.InZone(now), "FOR", "TOKEN", "LEASE LEFT", "VALUE"}
}

// overview returns the line of an election in a table.
func overview(s facts.ElectionStatus, st facts.State, now time.Time) []string {
	h, remaining := s.Holder, s.Remaining(now)
	row := []string{front.Printable(s.Election), string(st), "-", "-", "-", "-", "-", ""}
	since := h.Since
	switch st {
	case facts.Leading, facts.Pending:
		row[2] = front.Shorten(front.Printable(h.ID), front.LongID)
		row[5], row[6] = token(s), front.Left(remaining)
		row[7] = front.Shorten(front.Printable(string(h.Value)), front.LongValue)
	case facts.Expired, facts.Released, facts.Deleted, facts.Foreign, facts.Never:
		since = s.Since(st)
		if last := s.Last(); last != nil {
			row[2] = "(" + front.Shorten(front.Printable(last.ID), front.LongID) + ")" // not the leader: it was
		}
	}
	if !since.IsZero() {
		row[3], row[4] = front.FormatTime(since), front.FormatAge(now.Sub(since))
	}
	return row
}

// token returns the token of a holder. That of a pending holder will be at least the one of its record.
func token(s facts.ElectionStatus) string {
	if s.Holder.State == leader.HolderPending {
		return fmt.Sprint(s.Holder.Token) + "+"
	}
	return fmt.Sprint(s.Holder.Token)
}

// painted is columns, in colours.
func painted(rows [][]string, all []listedElection) []string {
	widths := front.Widest(rows)
	lines := []string{front.TableRow{Style: front.StyleDim}.Line(rows[0], widths).Paint(true)}
	for i, row := range rows[1:] {
		if i >= len(all) { // a group
			lines = append(lines, front.TableRow{}.Line(row, widths).Paint(true))
			continue
		}
		is := judge.Election(all[i].ElectionStatus, all[i].as, all[i].in)
		lines = append(lines, styled(row, judge.TroubleOf(is, all[i].as)).Line(row, widths).Paint(true))
	}
	return lines
}

func statusOf(g *front.Globals, name string, asJSON, withRoster bool) error {
	if err := inspect.CheckElection(name); err != nil {
		return err
	}
	return inspect.DoExisting(g, func(ctx context.Context, s *inspect.Inspector) error {
		x, err := inspect.Answer(ctx, s, func(ctx context.Context) (facts.ElectionStatus, error) { return s.One(ctx, name) })
		if err == nil && x.Entry.Revision == 0 || errors.Is(err, leader.ErrPermission) {
			of := Sharing{Group: name, Only: -1}
			unread := of.Read(ctx, s)
			switch {
			case unread == nil:
				return of.show(ctx, g, s, asJSON)
			case errors.As(unread, &noMapError{}), !errors.Is(unread, shard.ErrNoGroup) && !errors.Is(unread, leader.ErrPermission):
				return unread
			}
		}
		if err != nil {
			return err
		}
		x.Note = s.NoteOf(ctx, name)
		return statusOfElection(ctx, g, s, x, asJSON, withRoster)
	})
}

func statusOfElection(ctx context.Context, g *front.Globals, s *inspect.Inspector, x facts.ElectionStatus, asJSON, withRoster bool) error {
	now := s.Clock.Now()
	in := around(s, now)
	r := Lineup{Election: x.Election}
	var unread error
	if withRoster {
		switch st := x.At(now); {
		case st.Taken():
			r.holder = x.Holder
		case st == facts.Expired:
			r.over = x.Holder
		}
		r.candidates, unread = inspect.Answer(ctx, s, r.Others(s))
		in.Denied = r.denied()
	}
	details := details(x, now)
	if x.At(now) != facts.Leading {
		names, _, _ := s.Cordon(ctx) // a client that may not read the cordon does not see it
		in = cordoned(in, names)
		details = append(details, inspect.CordonLine(names)...)
	}
	sum := electionSummary(x, in)
	details = append(details, remedyRows(sum.Trouble, x.Note.Runbook)...)
	if sum.Domain = s.Domain(ctx); sum.Domain != "" {
		details = append(details, []string{"Domain:", front.Printable(sum.Domain)})
	}
	details = append(details, inspect.NoteDetails(x.Note)...)
	lines := front.Columns(details)
	if withRoster && unread == nil {
		n := len(r.candidates)
		sum.Stand, sum.Candidates = &n, r.summary().Candidates
		lines = append(append(lines, ""), front.Columns(r.table(now))...)
	}
	err := front.PrintResult(g.Out(), asJSON, sum, lines)
	return front.ExitIf(x.At(now) != facts.Leading, front.ExitFailed, cmp.Or(err, unreadRoster(unread)))
}

// remedyRows returns what to do about trouble, for people. Another row has the runbook of a note.
func remedyRows(is *judge.Finding, noted string) (rows [][]string) {
	if is == nil {
		return nil
	}
	rows = [][]string{{"Do:", is.Advice}}
	if is.Runbook != "" && is.Runbook != noted {
		rows = append(rows, []string{"Runbook:", is.Runbook})
	}
	return rows
}

// details returns all that is known of an election, for people.
func details(s facts.ElectionStatus, now time.Time) [][]string {
	h, st := s.Holder, s.At(now)
	id := front.Printable(h.ID)
	rows := [][]string{{"Election:", front.Printable(s.Election)}}
	who := func(format string, args ...any) {
		rows = append(rows, []string{"Leader:", fmt.Sprintf(format, args...)})
	}
	moment := func(t time.Time) string {
		return fmt.Sprintf("%s (%s ago)", front.FormatZoned(t), front.FormatAge(now.Sub(t)))
	}
	written := moment(s.Entry.Created)
	switch st {
	case facts.Never:
		who("nobody: no candidate has ever led it")
	case facts.Deleted:
		who("nobody: the key was deleted or has expired at %s", written)
	case facts.Released:
		how := "given up in order"
		if l := s.Last(); l != nil && l.Reason == facts.ReasonTaken {
			how = fmt.Sprintf("%s took the key to end the term of the member, and gave it up", front.Printable(l.ID))
		}
		who("nobody: %s at %s", how, written)
	case facts.Foreign:
		what := "something"
		if len(h.Value) > 0 {
			what = fmt.Sprintf("%q", h.Value)
		}
		who("unknown: the key holds %s, which natsleader did not write, since %s", what, written)
	case facts.Expired:
		who("nobody: %s has not renewed its lease of %v since %s", id, h.Lease, written)
	case facts.Pending:
		by := s.LeadsBy(st)
		who("nobody yet: %s holds the key, and waits until no other lease can be valid, at the latest until %s (in %s)", id, front.FormatZoned(by), front.Left(by.Sub(now)))
	case facts.Leading:
		who("%s", id)
	}
	if !st.Held() {
		return append(rows, lastDetails(s, st, moment)...)
	}
	if !h.Since.IsZero() {
		rows = append(rows, []string{"Since:", moment(h.Since)})
	}
	rows = append(rows,
		[]string{"Token:", token(s)},
		[]string{"Lease:", fmt.Sprintf("%v, %s left", h.Lease, front.Left(s.Remaining(now)))})
	if len(h.Value) > 0 {
		label := "Value:"
		if _, _, ofGroup := group.NameOf(s.Election); ofGroup { // its processes publish for each other
			label = "Internal:"
		}
		rows = append(rows, []string{label, front.Printable(string(h.Value))})
	}
	return rows
}

// summary describes an election for programs.
type summary struct {
	Bucket    string          `json:"bucket,omitempty"` // with --all-buckets
	Domain    string          `json:"domain,omitempty"` // of JetStream
	Election  string          `json:"election"`
	State     facts.State     `json:"state"`
	ID        string          `json:"id,omitempty"` // of the holder that leads, is pending, or has fallen silent
	Since     time.Time       `json:"since,omitzero"`
	Token     uint64          `json:"token,omitempty"`
	Lease     float64         `json:"lease_seconds,omitempty"`
	Remaining *float64        `json:"remaining_seconds,omitempty"`
	MayLead   time.Time       `json:"may_lead_by,omitzero"` // of a pending holder, at the latest
	Value     string          `json:"value,omitempty"`
	Value64   string          `json:"value64,omitempty"` // a value that is not UTF-8, in base64
	Last      *facts.LastTerm `json:"last,omitempty"`    // where there is no leader
	Written   time.Time       `json:"written,omitzero"`  // the newest revision
	Revision  uint64          `json:"revision,omitempty"`
	Trouble   *judge.Finding  `json:"trouble,omitempty"`
	Note      facts.Note      `json:"note,omitzero"`
	Stand     *int            `json:"stand,omitempty"` // how many candidates, with --roster

	Candidates []candidateSummary `json:"candidates,omitzero"` // of one election, in the order in which they would follow
}

// around is what one read says of the bucket.
func around(s *inspect.Inspector, now time.Time) judge.Around {
	return judge.Around{Now: now, Expires: s.TTL > 0}
}

// cordoned adds the names of the cordon to what is known of the bucket.
func cordoned(in judge.Around, names []string) judge.Around {
	for _, name := range names {
		in.Cordoned = append(in.Cordoned, facts.Text(name))
	}
	return in
}

func electionSummary(s facts.ElectionStatus, in judge.Around) summary {
	h := s.Holder
	r := summary{Election: s.Election, State: s.At(in.Now), Note: s.Note, Revision: s.Entry.Revision, Written: s.Entry.Created.UTC()}
	r.MayLead = s.LeadsBy(r.State).UTC()
	if is := judge.Election(s, r.State, in); is.Code != "" {
		r.Trouble = &is
	}
	if r.State == facts.Released || r.State == facts.Expired {
		r.Last = s.Last()
	}
	if h.ID == "" {
		return r
	}
	r.ID, r.Token, r.Since, r.Lease = h.ID, h.Token, h.Since.UTC(), h.Lease.Seconds()
	remaining := max(0, s.Remaining(in.Now)).Seconds()
	r.Remaining = &remaining
	r.Value, r.Value64 = facts.Value64(h.Value)
	return r
}

// lastDetails returns who led last and why the term ended, for people.
func lastDetails(s facts.ElectionStatus, st facts.State, moment func(time.Time) string) [][]string {
	unknown := func(why string) [][]string { return [][]string{{"Last:", "not known: " + why}} }
	switch l := s.Last(); {
	case st == facts.Never:
		return nil
	case st == facts.Deleted && l == nil:
		return unknown("the record of the last term is gone with the key")
	case st == facts.Foreign:
		return unknown("another program has overwritten the record of the last term")
	case l == nil && s.Holder.State == leader.HolderPending:
		return [][]string{{"Last:", "not known: " + front.Printable(s.Holder.ID) + " took the key, and its lease ended before it led"}}
	case l == nil:
		return unknown("the record does not name the leader")
	default:
		rows := [][]string{{"Last:", front.Printable(l.ID)}}
		if l.Token > 0 {
			rows[0][1] += fmt.Sprintf(" with token %d", l.Token)
		}
		if !l.Since.IsZero() {
			rows = append(rows, []string{"Since:", moment(l.Since)})
		}
		why := "it did not renew its lease: " + judge.Silence
		switch {
		case l.Reason == facts.ReasonTaken:
			why = "it took the key only to end the term of the member"
		case l.Reason != string(facts.Expired):
			why = "it handed over in order"
			if l.Successor != "" {
				why += ", to " + front.Printable(l.Successor)
			}
		}
		rows = append(rows, []string{"Ended:", moment(l.Ended) + ": " + why})
		if value := cmp.Or(l.Value, l.Value64); value != "" {
			rows = append(rows, []string{"Value:", front.Printable(value)})
		}
		return rows
	}
}
