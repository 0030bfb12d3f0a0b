package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/group"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// columnRemaining is where the table has the rest of the lease, if that is known.
const columnRemaining = 2

// table lists the members.
func (x *Sharing) table() [][]string {
	rows := [][]string{{"MEMBER", "STATE", "SHARDS", "WEIGHT", "MOST", "HOLD", "NUMBERS", "VALUE"}}
	if !x.now.IsZero() {
		rows[0] = slices.Insert(rows[0], columnRemaining, "LEASE LEFT")
	}
	for i, m := range x.Members() {
		row := []string{
			front.Shorten(front.Printable(m.ID), front.LongID), m.State, fmt.Sprint(len(m.Shards)), "-", "-", "-",
			front.Shorten(group.Ranges(m.Shards), front.LongValue), front.Shorten(front.Printable(string(x.View.Members[i].Value)), front.LongValue),
		}
		if m.Weight > 0 {
			row[3] = fmt.Sprint(m.Weight)
		}
		if m.Most > 0 {
			row[4] = fmt.Sprint(m.Most)
		}
		if m.Hold > 0 {
			row[5] = x.View.Members[i].Hold.String()
		}
		if !x.now.IsZero() {
			remaining := "-"
			if m.Remaining != nil {
				remaining = front.Left(time.Duration(*m.Remaining * float64(time.Second)))
			}
			row = slices.Insert(row, columnRemaining, remaining)
		}
		rows = append(rows, row)
	}
	return rows
}

// details returns what is known of the group or the shard beside the table.
func (x *Sharing) details() [][]string {
	if x.Only >= 0 {
		return x.ownerDetails()
	}
	rows := [][]string{{"Group:", x.Group}, {"Shards:", fmt.Sprint(len(x.View.Owners))}, {"No owner:", "none"}}
	if none := x.unowned(); len(none) > 0 {
		rows[2][1] = fmt.Sprintf("%d: %s", len(none), group.Ranges(none))
	}
	if lost := x.lost(); len(lost) > 0 {
		rows[2][1] += fmt.Sprintf("; not known: %d: %s", len(lost), group.Ranges(lost))
	}
	n, moves := 0, []string{}
	for _, m := range x.moves() {
		n += len(m.Shards)
		moves = append(moves, fmt.Sprintf("%s from %s to %s", group.Ranges(m.Shards), front.Printable(m.From), front.Printable(m.To)))
	}
	moving := "none"
	if n > 0 {
		moving = fmt.Sprintf("%d: %s", n, front.Some(moves))
	}
	rows = append(rows, []string{"Moving:", moving}, []string{"Assigner:", x.assigner()})
	rows = append(append(rows, x.troubles()...), remedyRows(x.judged(), "")...)
	if len(x.past) > 0 {
		past := []string{}
		for _, p := range x.past {
			past = append(past, fmt.Sprintf("%s %s %s ago", front.Printable(p.ID), p.State, front.FormatAge(x.now.Sub(p.Ended))))
		}
		rows = append(rows, []string{"Past:", front.Some(past)})
	}
	return rows
}

// judged is what is wrong with the group; nil: nothing.
func (x *Sharing) judged() *judge.Finding {
	if is := judge.Worst(judge.Group(x.Group, x.View, x.in)); is.Code != "" {
		return &is
	}
	return nil
}

// memberWork are some shards of a member that lives.
type memberWork = facts.Work

// notBegun returns the shards that are granted and whose work has not begun, if all are shown.
func (x *Sharing) notBegun() []memberWork {
	if x.Only >= 0 { // the state of the owner says it
		return nil
	}
	return facts.NotBegun(x.View)
}

// Late returns the work that goes on after its GracePeriod, of the shards that are shown.
func (x *Sharing) Late() []memberWork { return facts.LateWork(x.View, x.Only) }

// The titles of lines about work.
const (
	titleNotBegun = "Not begun:"
	titleLate     = "Late work:"
)

// troubles returns the lines on work that has not begun and on late work, if there is any.
func (x *Sharing) troubles() (rows [][]string) {
	add := func(title string, works []memberWork) {
		var texts []string
		for _, w := range works {
			texts = append(texts, w.String())
		}
		if len(texts) > 0 {
			rows = append(rows, []string{title, front.Some(texts)})
		}
	}
	add(titleNotBegun, x.notBegun())
	add(titleLate, x.Late())
	return rows
}

func (x *Sharing) assigner() string {
	if h := x.View.Assigner; h.State == leader.HolderLeading {
		return front.Printable(h.ID)
	}
	return "none: nothing moves until a member leads that election"
}

func (x *Sharing) ownerDetails() [][]string {
	o := x.View.Owners[x.Only]
	rows := [][]string{{"Group:", x.Group}, {"Shard:", fmt.Sprintf("%d of %d", x.Only, len(x.View.Owners))}}
	if x.byKey {
		rows[1][1] += ", of the key " + front.Printable(x.key)
	}
	owner := OwnerText(o)
	if len(x.lost()) > 0 {
		owner = "not known: its part of the map is not there or cannot be read"
	}
	rows = append(rows, []string{"Owner:", owner})
	if lives(o) {
		rows = append(rows, []string{"Token:", fmt.Sprint(o.Token)})
	}
	if len(o.Value) > 0 {
		rows = append(rows, []string{"Value:", front.Printable(string(o.Value))})
	}
	return append(rows, x.troubles()...)
}

// lives reports whether a shard has an owner that lives.
func lives(o shard.Owner) bool { return facts.Owned(o) }

// OwnerText describes the owner of a shard.
func OwnerText(o shard.Owner) string {
	id := front.Printable(o.ID)
	switch o.State {
	case shard.OwnerWaits:
		return id + ", which waits until the work of " + front.Printable(o.From) + " has ended"
	case shard.OwnerGranted:
		return id + ", which has not begun the work"
	case shard.OwnerWorks:
		return id
	case shard.OwnerIsGone:
		return "none: " + id + " is gone"
	case shard.OwnerNone:
	}
	return "none"
}

// lines describes the group or the shard for people.
func (x *Sharing) lines() []string {
	lines := front.Columns(x.details())
	if x.Only >= 0 {
		return lines
	}
	return append(append(lines, ""), front.Columns(x.table())...)
}

// line describes the group or the shard in one line.
func (x *Sharing) line() string {
	switch {
	case len(x.View.Owners) == 0:
		return "group " + x.Group + ": " + x.judged().Text
	case x.Only >= 0:
		var parts []string
		for _, row := range x.ownerDetails()[1:] {
			parts = append(parts, strings.ToLower(strings.TrimSuffix(row[0], ":"))+" "+row[1])
		}
		return strings.Join(parts, "; ")
	}
	var parts []string
	for _, m := range x.Members() {
		part := fmt.Sprintf("%s %d", front.Shorten(front.Printable(m.ID), front.LongID), len(m.Shards))
		if m.State != facts.MemberLives {
			part += " (" + m.State + ")"
		}
		parts = append(parts, part)
	}
	rows := x.details()
	text := fmt.Sprintf("%s; no owner: %s; moving: %s; assigner: %s", front.Some(parts), rows[2][1], rows[3][1], rows[4][1])
	if x.in.Gone {
		text += "; the bucket is gone"
	}
	for _, row := range x.troubles() {
		text += "; " + strings.ToLower(row[0]) + " " + row[1]
	}
	return text
}

// SharingSummary describes a group for programs.
type SharingSummary struct {
	Time     time.Time       `json:"time,omitzero"` // of a change
	Group    string          `json:"group"`
	Shards   int             `json:"shards"`
	Assigner string          `json:"assigner,omitempty"`
	NoOwner  []int           `json:"no_owner"`
	Lost     []int           `json:"not_known,omitempty"` // whose part of the map is lost
	Moving   []shardMove     `json:"moving"`
	NotBegun []memberWork    `json:"not_begun,omitempty"`
	Late     []memberWork    `json:"late,omitempty"`
	Trouble  *judge.Finding  `json:"trouble,omitempty"`
	Members  []MemberSummary `json:"members"`
	Past     []pastMember    `json:"past,omitempty"`
	Changes  []MemberChange  `json:"changes,omitempty"` // with --watch
}

// MemberSummary is a member in JSON.
type MemberSummary struct {
	ID      string  `json:"id"`
	State   string  `json:"state"`
	Shards  []int   `json:"shards"` // that are granted to it
	Weight  int     `json:"weight,omitempty"`
	Most    int     `json:"most,omitempty"`
	Hold    float64 `json:"hold_seconds,omitempty"`
	Value   string  `json:"value,omitempty"`
	Value64 string  `json:"value64,omitempty"`

	Remaining *float64 `json:"remaining_seconds,omitempty"` // of its lease, if that is known

	Drained bool `json:"-"` // whatever its state
}

// ownerSummary describes the owner of a shard for programs.
type ownerSummary struct {
	Time    time.Time `json:"time,omitzero"` // of a change
	Group   string    `json:"group"`
	Shards  int       `json:"shards"`
	Key     string    `json:"key,omitempty"`
	Shard   int       `json:"shard"`
	State   string    `json:"state"`
	ID      string    `json:"id,omitempty"`
	Token   uint64    `json:"token,omitempty"`
	From    string    `json:"from,omitempty"` // the member whose work has to end first
	Value   string    `json:"value,omitempty"`
	Value64 string    `json:"value64,omitempty"`

	Late []memberWork `json:"late,omitempty"`
}

// Members returns the members of the group.
func (x *Sharing) Members() []MemberSummary {
	has := make(map[string][]int)
	for i, o := range x.View.Owners {
		has[o.ID] = append(has[o.ID], i)
	}
	all := []MemberSummary{}
	for _, p := range x.View.Members {
		m := MemberSummary{ID: p.ID, State: facts.MemberState(p), Shards: append([]int{}, has[p.ID]...), Weight: p.Weight, Most: p.Most, Hold: p.Hold.Seconds(), Drained: p.Drained}
		m.Value, m.Value64 = facts.Value64(p.Value)
		if !x.now.IsZero() && !facts.MemberPast(m.State) {
			remaining := p.Holder.Renewed.Add(p.Holder.Lease).Sub(x.now).Seconds()
			m.Remaining = &remaining
		}
		all = append(all, m)
	}
	return all
}

// summary describes the group, or the shard that is shown.
func (x *Sharing) summary() any { return x.summaryAt(time.Time{}) }

func (x *Sharing) summaryAt(at time.Time) any {
	n := len(x.View.Owners)
	if x.Only < 0 || x.Only >= n { // or there is no group
		s := SharingSummary{Time: at, Group: x.Group, Shards: n, NoOwner: append([]int{}, x.unowned()...), Lost: x.lost(), Moving: append([]shardMove{}, x.moves()...), Members: x.Members(), Past: x.past, NotBegun: x.notBegun(), Late: x.Late(), Trouble: x.judged()}
		if h := x.View.Assigner; h.State == leader.HolderLeading {
			s.Assigner = h.ID
		}
		return s
	}
	o := x.View.Owners[x.Only]
	s := ownerSummary{Time: at, Group: x.Group, Shards: n, Key: x.key, Shard: x.Only, State: o.State.String(), ID: o.ID, From: o.From, Late: x.Late()}
	if lives(o) {
		s.Token = o.Token
	}
	if s.Value, s.Value64 = facts.Value64(o.Value); len(x.lost()) > 0 {
		s.State = "unknown"
	}
	return s
}

// groupSummary describes a group in a list of elections, for programs.
type groupSummary struct {
	Bucket   string `json:"bucket,omitempty"` // with --all-buckets
	Group    string `json:"group"`
	Shards   int    `json:"shards"`
	Members  int    `json:"members"` // that are not gone
	NoOwner  int    `json:"no_owner"`
	Lost     int    `json:"not_known,omitempty"` // shards whose part of the map is lost
	Moving   int    `json:"moving"`
	NotBegun int    `json:"not_begun,omitempty"`
	Assigner string `json:"assigner,omitempty"`
	Error    string `json:"error,omitempty"` // why the rest is not known

	Trouble *judge.Finding `json:"trouble,omitempty"`

	There []memberWork `json:"there,omitempty"` // with --host

	unread error
}

// briefly reads a group for a list. With a host it reports also whether a member is there.
func briefly(ctx context.Context, s *inspect.Inspector, name, host string) (g groupSummary, has bool) {
	x := Sharing{Group: name, Only: -1}
	if err := x.Read(ctx, s); err != nil {
		is := judge.UnreadGroup(name, front.ErrorText(err))
		if none, ok := errors.AsType[noMapError](err); ok {
			is = none.Finding
		}
		return groupSummary{Group: name, Error: is.Text, Trouble: &is, unread: err}, true
	}
	g = x.Brief()
	g.unread = x.Known()
	if host == "" {
		return g, true
	}
	for _, m := range x.Members() {
		if records.OnHost(m.ID, host) {
			g.There = append(g.There, memberWork{Shards: m.Shards, ID: m.ID})
		}
	}
	return g, len(g.There) > 0
}

// Brief returns the group as one row.
func (x *Sharing) Brief() groupSummary {
	g := groupSummary{Group: x.Group, Shards: len(x.View.Owners), NoOwner: len(x.unowned()), Lost: len(x.lost()), Members: judge.Living(x.View), Trouble: x.judged()}
	for _, m := range x.moves() {
		g.Moving += len(m.Shards)
	}
	for _, w := range x.notBegun() {
		g.NotBegun += len(w.Shards)
	}
	if h := x.View.Assigner; h.State == leader.HolderLeading {
		g.Assigner = h.ID
	}
	if g.Shards == 0 {
		g.Error = g.Trouble.Text
	}
	return g
}

// overview returns the line of a group in a table of elections.
func (g groupSummary) overview() []string {
	row := []string{front.Printable(g.Group), "group", "-", "-", "-", "-", "-", g.Text()}
	if g.Assigner != "" {
		row[columnLeader] = front.Shorten(front.Printable(g.Assigner), front.LongID)
	}
	return row
}

func (g groupSummary) Text() string {
	if g.Error != "" {
		return "not known: " + g.Error
	}
	text := fmt.Sprintf("%s, %s", front.Plural(g.Shards, "shard"), front.Plural(g.Members, "member"))
	if g.NoOwner > 0 {
		text += fmt.Sprintf(", %d without an owner", g.NoOwner)
	}
	if g.Lost > 0 {
		text += fmt.Sprintf(", owners of %d not known", g.Lost)
	}
	if g.Moving > 0 {
		text += fmt.Sprintf(", %d moving", g.Moving)
	}
	if g.NotBegun > 0 {
		text += fmt.Sprintf(", %d not begun", g.NotBegun)
	}
	for _, w := range g.There {
		text += fmt.Sprintf(", %d of %s", len(w.Shards), front.Printable(w.ID))
	}
	return text
}
