package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/group"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// columnRemaining is where the table has the rest of the lease, if that is known.
const columnRemaining = 2

// table lists the members.
func (x *sharing) table() [][]string {
	rows := [][]string{{"MEMBER", "STATE", "SHARDS", "WEIGHT", "MOST", "HOLD", "NUMBERS", "VALUE"}}
	if !x.now.IsZero() {
		rows[0] = slices.Insert(rows[0], columnRemaining, "LEASE LEFT")
	}
	for i, m := range x.members() {
		row := []string{
			shorten(printable(m.ID), longID), m.State, fmt.Sprint(len(m.Shards)), "-", "-", "-",
			shorten(group.Ranges(m.Shards), longValue), shorten(printable(string(x.view.Members[i].Value)), longValue),
		}
		if m.Weight > 0 {
			row[3] = fmt.Sprint(m.Weight)
		}
		if m.Most > 0 {
			row[4] = fmt.Sprint(m.Most)
		}
		if m.Hold > 0 {
			row[5] = x.view.Members[i].Hold.String()
		}
		if !x.now.IsZero() {
			remaining := "-"
			if m.Remaining != nil {
				remaining = left(time.Duration(*m.Remaining * float64(time.Second)))
			}
			row = slices.Insert(row, columnRemaining, remaining)
		}
		rows = append(rows, row)
	}
	return rows
}

// details returns what is known of the group or the shard beside the table.
func (x *sharing) details() [][]string {
	if x.only >= 0 {
		return x.ownerDetails()
	}
	rows := [][]string{{"Group:", x.group}, {"Shards:", fmt.Sprint(len(x.view.Owners))}, {"No owner:", "none"}}
	if none := x.unowned(); len(none) > 0 {
		rows[2][1] = fmt.Sprintf("%d: %s", len(none), group.Ranges(none))
	}
	n, moves := 0, []string{}
	for _, m := range x.moves() {
		n += len(m.Shards)
		moves = append(moves, fmt.Sprintf("%s from %s to %s", group.Ranges(m.Shards), printable(m.From), printable(m.To)))
	}
	moving := "none"
	if n > 0 {
		moving = fmt.Sprintf("%d: %s", n, some(moves))
	}
	rows = append(rows, []string{"Moving:", moving}, []string{"Assigner:", x.assigner()})
	rows = append(rows, x.troubles()...)
	if len(x.past) > 0 {
		past := []string{}
		for _, p := range x.past {
			past = append(past, fmt.Sprintf("%s %s %s ago", printable(p.ID), p.State, formatAge(x.now.Sub(p.Ended))))
		}
		rows = append(rows, []string{"Past:", some(past)})
	}
	return rows
}

// memberWork are some shards of a member that lives.
type memberWork = facts.Work

// notBegun returns the shards that are granted and whose work has not begun, if all are shown.
func (x *sharing) notBegun() []memberWork {
	if x.only >= 0 { // the state of the owner says it
		return nil
	}
	return facts.NotBegun(x.view)
}

// late returns the work that goes on after its GracePeriod, of the shards that are shown.
func (x *sharing) late() []memberWork { return facts.LateWork(x.view, x.only) }

const (
	titleNotBegun = "Not begun:"
	titleLate     = "Late work:"
)

// troubles returns the lines on work that has not begun and on late work, if there is any.
func (x *sharing) troubles() (rows [][]string) {
	add := func(title string, works []memberWork) {
		var texts []string
		for _, w := range works {
			texts = append(texts, w.String())
		}
		if len(texts) > 0 {
			rows = append(rows, []string{title, some(texts)})
		}
	}
	add(titleNotBegun, x.notBegun())
	add(titleLate, x.late())
	return rows
}

func (x *sharing) assigner() string {
	if h := x.view.Assigner; h.State == leader.HolderLeading {
		return printable(h.ID)
	}
	return "none: nothing moves until a member leads that election"
}

func (x *sharing) ownerDetails() [][]string {
	o := x.view.Owners[x.only]
	rows := [][]string{{"Group:", x.group}, {"Shard:", fmt.Sprintf("%d of %d", x.only, len(x.view.Owners))}}
	if x.byKey {
		rows[1][1] += ", of the key " + printable(x.key)
	}
	rows = append(rows, []string{"Owner:", ownerText(o)})
	if lives(o) {
		rows = append(rows, []string{"Token:", fmt.Sprint(o.Token)})
	}
	if len(o.Value) > 0 {
		rows = append(rows, []string{"Value:", printable(string(o.Value))})
	}
	return append(rows, x.troubles()...)
}

// lives reports whether a shard has an owner that lives.
func lives(o shard.Owner) bool { return facts.Owned(o) }

// ownerText describes the owner of a shard.
func ownerText(o shard.Owner) string {
	id := printable(o.ID)
	switch o.State {
	case shard.OwnerWaits:
		return id + ", which waits until the work of " + printable(o.From) + " has ended"
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
func (x *sharing) lines() []string {
	lines := columns(x.details())
	if x.only >= 0 {
		return lines
	}
	return append(append(lines, ""), columns(x.table())...)
}

// line describes the group or the shard in one line.
func (x *sharing) line() string {
	switch {
	case len(x.view.Owners) == 0:
		return "group " + x.group + " does not exist: no member has joined it"
	case x.only >= 0:
		var parts []string
		for _, row := range x.ownerDetails()[1:] {
			parts = append(parts, strings.ToLower(strings.TrimSuffix(row[0], ":"))+" "+row[1])
		}
		return strings.Join(parts, "; ")
	}
	var parts []string
	for _, m := range x.members() {
		part := fmt.Sprintf("%s %d", shorten(printable(m.ID), longID), len(m.Shards))
		if m.State != memberLives {
			part += " (" + m.State + ")"
		}
		parts = append(parts, part)
	}
	rows := x.details()
	text := fmt.Sprintf("%s; no owner: %s; moving: %s; assigner: %s", some(parts), rows[2][1], rows[3][1], rows[4][1])
	for _, row := range x.troubles() {
		text += "; " + strings.ToLower(row[0]) + " " + row[1]
	}
	return text
}

// sharingSummary describes a group for programs.
type sharingSummary struct {
	Time     time.Time       `json:"time,omitzero"` // of a change
	Group    string          `json:"group"`
	Shards   int             `json:"shards"`
	Assigner string          `json:"assigner,omitempty"`
	NoOwner  []int           `json:"no_owner"`
	Moving   []shardMove     `json:"moving"`
	NotBegun []memberWork    `json:"not_begun,omitempty"`
	Late     []memberWork    `json:"late,omitempty"`
	Members  []memberSummary `json:"members"`
	Past     []pastMember    `json:"past,omitempty"`
	Changes  []memberChange  `json:"changes,omitempty"` // with --watch
}

type memberSummary struct {
	ID      string  `json:"id"`
	State   string  `json:"state"`
	Shards  []int   `json:"shards"` // that are granted to it
	Weight  int     `json:"weight,omitempty"`
	Most    int     `json:"most,omitempty"`
	Hold    float64 `json:"hold_seconds,omitempty"`
	Value   string  `json:"value,omitempty"`
	Value64 string  `json:"value64,omitempty"`

	Remaining *float64 `json:"remaining_seconds,omitempty"` // of its lease, if that is known
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

func (x *sharing) members() []memberSummary {
	has := make(map[string][]int)
	for i, o := range x.view.Owners {
		has[o.ID] = append(has[o.ID], i)
	}
	all := []memberSummary{}
	for _, p := range x.view.Members {
		m := memberSummary{ID: p.ID, State: memberState(p), Shards: append([]int{}, has[p.ID]...), Weight: p.Weight, Most: p.Most, Hold: p.Hold.Seconds()}
		m.Value, m.Value64 = text(p.Value)
		if !x.now.IsZero() && !isPast(m.State) {
			remaining := p.Holder.Renewed.Add(p.Holder.Lease).Sub(x.now).Seconds()
			m.Remaining = &remaining
		}
		all = append(all, m)
	}
	return all
}

// summary describes the group, or the shard that is shown.
func (x *sharing) summary() any { return x.summaryAt(time.Time{}) }

func (x *sharing) summaryAt(at time.Time) any {
	n := len(x.view.Owners)
	if x.only < 0 || x.only >= n { // or there is no group
		s := sharingSummary{Time: at, Group: x.group, Shards: n, NoOwner: append([]int{}, x.unowned()...), Moving: append([]shardMove{}, x.moves()...), Members: x.members(), Past: x.past, NotBegun: x.notBegun(), Late: x.late()}
		if h := x.view.Assigner; h.State == leader.HolderLeading {
			s.Assigner = h.ID
		}
		return s
	}
	o := x.view.Owners[x.only]
	s := ownerSummary{Time: at, Group: x.group, Shards: n, Key: x.key, Shard: x.only, State: o.State.String(), ID: o.ID, From: o.From, Late: x.late()}
	if lives(o) {
		s.Token = o.Token
	}
	s.Value, s.Value64 = text(o.Value)
	return s
}

// groupSummary describes a group in a list of elections, for programs.
type groupSummary struct {
	Bucket   string `json:"bucket,omitempty"` // with --all-buckets
	Group    string `json:"group"`
	Shards   int    `json:"shards"`
	Members  int    `json:"members"` // that are not gone
	NoOwner  int    `json:"no_owner"`
	Moving   int    `json:"moving"`
	NotBegun int    `json:"not_begun,omitempty"`
	Assigner string `json:"assigner,omitempty"`
	Error    string `json:"error,omitempty"` // why the rest is not known

	There []memberWork `json:"there,omitempty"` // with --host
}

// briefly reads a group for a list. With a host it reports also whether a member is there.
func (s *inspector) briefly(ctx context.Context, name, host string) (g groupSummary, has bool) {
	x := sharing{group: name, only: -1}
	if err := x.read(ctx, s); err != nil {
		return groupSummary{Group: name, Error: errorText(err)}, true
	}
	g = x.brief()
	if host == "" {
		return g, true
	}
	for _, m := range x.members() {
		if records.OnHost(m.ID, host) {
			g.There = append(g.There, memberWork{Shards: m.Shards, ID: m.ID})
		}
	}
	return g, len(g.There) > 0
}

func (x *sharing) brief() groupSummary {
	g := groupSummary{Group: x.group, Shards: len(x.view.Owners), NoOwner: len(x.unowned())}
	for _, p := range x.view.Members {
		if !isPast(memberState(p)) {
			g.Members++
		}
	}
	for _, m := range x.moves() {
		g.Moving += len(m.Shards)
	}
	for _, w := range x.notBegun() {
		g.NotBegun += len(w.Shards)
	}
	if h := x.view.Assigner; h.State == leader.HolderLeading {
		g.Assigner = h.ID
	}
	return g
}

// overview returns the line of a group in a table of elections.
func (g groupSummary) overview() []string {
	row := []string{printable(g.Group), "group", "-", "-", "-", "-", "-", g.text()}
	if g.Assigner != "" {
		row[columnLeader] = shorten(printable(g.Assigner), longID)
	}
	return row
}

func (g groupSummary) text() string {
	if g.Error != "" {
		return "not known: " + g.Error
	}
	text := fmt.Sprintf("%s, %s", plural(g.Shards, "shard"), plural(g.Members, "member"))
	if g.NoOwner > 0 {
		text += fmt.Sprintf(", %d without an owner", g.NoOwner)
	}
	if g.Moving > 0 {
		text += fmt.Sprintf(", %d moving", g.Moving)
	}
	if g.NotBegun > 0 {
		text += fmt.Sprintf(", %d not begun", g.NotBegun)
	}
	for _, w := range g.There {
		text += fmt.Sprintf(", %d of %s", len(w.Shards), printable(w.ID))
	}
	return text
}
