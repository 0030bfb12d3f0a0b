package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

const shardsHelp = `A group shares its shards among its members: processes that join it with package
shard. A member is gone if its lease is over or it has left. Its shards have no owner
until they are granted to others. A shard moves while its new owner waits until the work
of another member has ended.

With --shard or --key it shows the owner of one shard. The shard of a key is its FNV-1a
hash of 64 bits, modulo the number of shards.

With --watch it shows that as it changes, until SIGINT or SIGTERM: on a terminal as
a table, otherwise as a line for each change.

The exit code is 1 if there is no such group, or a shard that is shown has no owner. To
show a group named show, move, drain or undrain: natsleader shards show move.

  natsleader shards orders
  natsleader shards orders --key customer-17 --json | jq -r .value`

func registerShards(app *fisk.Application, g *globals) {
	v := &shardsView{globals: g, sharing: sharing{only: -1}}
	top := app.Command("shards", "Show and steer who works on the shards of a group").HelpLong(shardsHelp)
	cmd := top.Command("show", "Show who works on the shards of a group").Default()
	cmd.Arg("group", "Group to show").Required().HintAction(g.groupNames).StringVar(&v.group)
	cmd.Flag("shard", "Show the owner of this shard").PlaceHolder("NUMBER").IsSetByUser(&v.byNumber).IntVar(&v.only)
	cmd.Flag("key", "Show the owner of the shard of this key").IsSetByUser(&v.byKey).StringVar(&v.key)
	cmd.Flag("watch", "Show it as it changes").Short('w').UnNegatableBoolVar(&v.watch)
	cmd.Flag("json", "Print JSON, with --watch one line for every change").Short('j').UnNegatableBoolVar(&v.asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return v.run() })
	registerSteer(top, g)
}

// shardsView is the command that shows a group.
type shardsView struct {
	*globals
	sharing
	byNumber, watch, asJSON bool
}

func (v *shardsView) run() error {
	switch {
	case v.byNumber && v.byKey:
		return usagef("--shard and --key exclude each other")
	case v.byNumber && v.only < 0:
		return usagef("--shard %d is negative", v.only)
	case v.watch:
		out := newRenderer(v.stdio, v.asJSON, false)
		return follow(v.globals, out, func(s *inspector) source[shard.View] { return &shardsWatcher{s: s, newest: v.sharing, out: out} })
	}
	return v.inspectBucket(func(ctx context.Context, s *inspector) error {
		x := v.sharing
		if err := x.read(ctx, s); err != nil {
			return err
		}
		return exitIf(len(x.unowned()) > 0, exitFailed, printResult(v.out(), v.asJSON, x.summary(), x.lines()))
	})
}

// sharing is how a group shares its shards, or who owns one of them.
type sharing struct {
	group string
	key   string // asked for by --key
	byKey bool
	only  int // the shard that is shown; -1: all
	view  shard.View
}

// read reads the group. A lease that is over by the server's clock ends the ownership: one read cannot show that.
func (x *sharing) read(ctx context.Context, s *inspector) error {
	v, err := answer(ctx, s, func(ctx context.Context) (shard.View, error) { return shard.Lookup(ctx, s.bucket, x.group) })
	if err != nil {
		return err
	}
	over := func(h leader.Holder) leader.Holder {
		if h.State == leader.HolderLeading && !h.Renewed.Add(h.Lease).After(s.clock.now()) {
			h.State = leader.HolderExpired
		}
		return h
	}
	v.Assigner, v.Members, v.Owners = over(v.Assigner), slices.Clone(v.Members), slices.Clone(v.Owners)
	gone := make(map[string]bool)
	for i := range v.Members {
		m := &v.Members[i]
		m.Holder = over(m.Holder)
		gone[m.ID] = memberState(*m) == memberGone
	}
	for i := range v.Owners {
		if o := &v.Owners[i]; gone[o.ID] {
			o.State, o.Value = shard.OwnerIsGone, nil
		}
	}
	return x.take(v)
}

// take takes a view of the group, and returns an error if it has no such shard.
func (x *sharing) take(v shard.View) error {
	x.view = v
	switch n := len(v.Owners); {
	case n == 0:
		return nil
	case x.byKey:
		h := fnv.New64a()
		_, _ = h.Write([]byte(x.key))
		x.only = int(h.Sum64() % uint64(n)) //nolint:gosec // less than n
	case x.only >= n:
		return usagef("group %s has no shard %d: choose one from 0 to %d", x.group, x.only, n-1)
	}
	return nil
}

// The states of a member.
const (
	memberLives   = "lives"
	memberDrained = "drained" // by an operator
	memberLeaves  = "leaves"  // it stops
	memberGone    = "gone"    // its term is over
)

func memberState(p shard.Peer) string {
	switch {
	case p.Holder.State != leader.HolderLeading || p.Holder.ID != p.ID:
		return memberGone
	case p.Leaves:
		return memberLeaves
	case p.Drained:
		return memberDrained
	}
	return memberLives
}

// unowned returns the shards that have no owner, of those that are shown.
func (x *sharing) unowned() (shards []int) {
	for i, o := range x.view.Owners {
		if (x.only < 0 || i == x.only) && (o.State == shard.OwnerNone || o.State == shard.OwnerIsGone) {
			shards = append(shards, i)
		}
	}
	return shards
}

// moves returns the shards whose owner waits, in the order of the shards.
func (x *sharing) moves() (all []shardMove) {
	of := make(map[[2]string]int)
	for i, o := range x.view.Owners {
		if o.State != shard.OwnerWaits {
			continue
		}
		n, known := of[[2]string{o.From, o.ID}]
		if !known {
			n = len(all)
			of[[2]string{o.From, o.ID}] = n
			all = append(all, shardMove{From: o.From, To: o.ID})
		}
		all[n].Shards = append(all[n].Shards, i)
	}
	return all
}

// shardMove are the shards that move from one member to another.
type shardMove struct {
	Shards []int  `json:"shards"`
	From   string `json:"from"`
	To     string `json:"to"`
}

// table lists the members.
func (x *sharing) table() [][]string {
	rows := [][]string{{"MEMBER", "STATE", "SHARDS", "WEIGHT", "MOST", "HOLD", "NUMBERS", "VALUE"}}
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
	return append(rows, []string{"Moving:", moving}, []string{"Assigner:", x.assigner()})
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
	if o.State == shard.OwnerWaits || o.State == shard.OwnerWorks {
		rows = append(rows, []string{"Token:", fmt.Sprint(o.Token)})
	}
	if len(o.Value) > 0 {
		rows = append(rows, []string{"Value:", printable(string(o.Value))})
	}
	return rows
}

// ownerText describes the owner of a shard.
func ownerText(o shard.Owner) string {
	id := printable(o.ID)
	switch o.State {
	case shard.OwnerWaits:
		return id + ", which waits until the work of " + printable(o.From) + " has ended"
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
	return fmt.Sprintf("%s; no owner: %s; moving: %s; assigner: %s", some(parts), rows[2][1], rows[3][1], rows[4][1])
}

// sharingSummary describes a group for programs.
type sharingSummary struct {
	Time     time.Time       `json:"time,omitzero"` // of a change
	Group    string          `json:"group"`
	Shards   int             `json:"shards"`
	Assigner string          `json:"assigner,omitempty"`
	NoOwner  []int           `json:"no_owner"`
	Moving   []shardMove     `json:"moving"`
	Members  []memberSummary `json:"members"`
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
		all = append(all, m)
	}
	return all
}

// summary describes the group, or the shard that is shown.
func (x *sharing) summary() any { return x.summaryAt(time.Time{}) }

func (x *sharing) summaryAt(at time.Time) any {
	n := len(x.view.Owners)
	if x.only < 0 || x.only >= n { // or there is no group
		s := sharingSummary{Time: at, Group: x.group, Shards: n, NoOwner: append([]int{}, x.unowned()...), Moving: append([]shardMove{}, x.moves()...), Members: x.members()}
		if h := x.view.Assigner; h.State == leader.HolderLeading {
			s.Assigner = h.ID
		}
		return s
	}
	o := x.view.Owners[x.only]
	s := ownerSummary{Time: at, Group: x.group, Shards: n, Key: x.key, Shard: x.only, State: o.State.String(), ID: o.ID, From: o.From}
	if o.State == shard.OwnerWaits || o.State == shard.OwnerWorks {
		s.Token = o.Token
	}
	s.Value, s.Value64 = text(o.Value)
	return s
}

// groupSummary describes a group in a list of elections, for programs.
type groupSummary struct {
	Group    string `json:"group"`
	Shards   int    `json:"shards"`
	Members  int    `json:"members"` // that are not gone
	NoOwner  int    `json:"no_owner"`
	Moving   int    `json:"moving"`
	Assigner string `json:"assigner,omitempty"`
	Error    string `json:"error,omitempty"` // why the rest is not known
}

// briefly reads a group for a list.
func (s *inspector) briefly(ctx context.Context, name string) groupSummary {
	x := sharing{group: name, only: -1}
	if err := x.read(ctx, s); err != nil {
		return groupSummary{Group: name, Error: errorText(err)}
	}
	return x.brief()
}

func (x *sharing) brief() groupSummary {
	g := groupSummary{Group: x.group, Shards: len(x.view.Owners), NoOwner: len(x.unowned())}
	for _, p := range x.view.Members {
		if memberState(p) != memberGone {
			g.Members++
		}
	}
	for _, m := range x.moves() {
		g.Moving += len(m.Shards)
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
	text := fmt.Sprintf("%d shards, %d members", g.Shards, g.Members)
	if g.NoOwner > 0 {
		text += fmt.Sprintf(", %d without an owner", g.NoOwner)
	}
	if g.Moving > 0 {
		text += fmt.Sprintf(", %d moving", g.Moving)
	}
	return text
}

// shardsWatcher follows a group.
type shardsWatcher struct {
	s        *inspector
	newest   sharing
	out      renderer
	views    <-chan shard.View
	end      context.CancelFunc
	reported any // the summary of what was reported
}

// open reports the group as it is. It fails if a permission is missing.
func (w *shardsWatcher) open(ctx context.Context) error {
	ctx, w.end = context.WithCancel(ctx)
	err := w.newest.read(ctx, w.s)
	if err != nil && !errors.Is(err, shard.ErrNoGroup) {
		return err
	}
	if w.views, err = shard.Observe(ctx, w.s.bucket, w.newest.group); err != nil {
		return err
	}
	return w.ticked(ctx)
}

func (w *shardsWatcher) close() { w.end() }

func (w *shardsWatcher) updates() <-chan shard.View { return w.views }

func (w *shardsWatcher) update(v shard.View, more bool) error {
	if !more {
		return leader.ErrConnectionClosed
	}
	return w.newest.take(v)
}

// ticked reports a change: what happens at almost one time is one change.
func (w *shardsWatcher) ticked(context.Context) error {
	now := w.newest.summary()
	if reflect.DeepEqual(now, w.reported) {
		return nil
	}
	w.reported = now
	return w.out.changed(sharingChange{w.newest, w.s.clock.now()})
}

func (w *shardsWatcher) connection(err error) { w.out.trouble(err) }

func (w *shardsWatcher) view(now time.Time, trouble error, filter string) view {
	x := w.newest
	v := view{title: x.line(), at: now}
	if len(x.view.Owners) > 0 && x.only < 0 {
		v.title = fmt.Sprintf("Group %s, %d shards, assigner %s", x.group, len(x.view.Owners), x.assigner())
		rows, facts := x.table(), x.details()
		v.head, v.total = rows[0], len(rows)-1
		v.summary = line{{"no owner: " + facts[2][1], styleGood}, {", moving: " + facts[3][1], stylePlain}}
		if len(x.unowned()) > 0 {
			v.summary[0].style = styleBad
		}
		for _, cells := range rows[1:] {
			r := tableRow{cells: cells, marked: 1, mark: styleGood}
			if cells[1] != memberLives {
				r.mark = styleWarn
			}
			if matches(filter, cells) {
				v.rows = append(v.rows, r)
			}
		}
		v.narrow = []narrowing{{7, 13}, {6, 12}, {5, 0}, {4, 0}, {3, 0}, {0, 20}, {7, 0}, {6, 0}, {0, 8}}
	}
	if trouble != nil {
		v.trouble, v.why = "NOT UP TO DATE", errorText(trouble)
	}
	return v
}

// sharingChange is a group that has changed.
type sharingChange struct {
	sharing
	at time.Time // the server's
}

func (c sharingChange) time() time.Time { return c.at }

func (c sharingChange) text() string { return c.line() }

func (c sharingChange) object() any { return c.summaryAt(c.at.UTC()) }

// groupNames completes the name of a group.
func (g *globals) groupNames() []string {
	return g.complete(func(ctx context.Context, s *inspector) ([]string, error) {
		all, err := s.all(ctx)
		var names []string
		for _, x := range all {
			if name, ok := strings.CutSuffix(x.election, group.RegistryKey("")); ok && checkElection(name) == nil {
				names = append(names, name)
			}
		}
		return names, err
	})
}
