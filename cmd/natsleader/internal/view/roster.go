package view

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// Lineup is the holder of an election's key, and the candidates that stand beside it.
type Lineup struct {
	Election   string
	holder     leader.Holder // zero: none
	over       leader.Holder // of which the lease is over, as status has read it: it may wait, and announces nothing while the newest record is its own
	candidates []roster.Entry
}

// readRoster reads the holder and the candidates.
func readRoster(ctx context.Context, s *inspect.Inspector, election string) (Lineup, error) {
	r := Lineup{Election: election}
	err := s.Within(ctx, func(ctx context.Context) error {
		x, err := s.One(ctx, election)
		if err != nil {
			return err
		}
		if x.At(s.Clock.Now()).Taken() {
			r.holder = x.Holder
		}
		r.candidates, err = r.Others(s)(ctx)
		return err
	})
	return r, err
}

// Others returns what reads the candidates beside the holder.
func (r Lineup) Others(s *inspect.Inspector) func(context.Context) ([]roster.Entry, error) {
	return func(ctx context.Context) ([]roster.Entry, error) {
		all, err := roster.Lookup(ctx, s.Bucket, r.Election)
		return all, inspect.AboutOne("KV_"+s.Roster, err)
	}
}

// table lists the leader before the candidates.
func (r Lineup) table(now time.Time) [][]string {
	rows := [][]string{{"PLACE", "ID", "PRIORITY", "PREEMPT", "SINCE", "FOR", "VALUE"}}
	add := func(place, id, priority, preempt string, since time.Time, value []byte) {
		row := []string{place, front.Shorten(front.Printable(id), front.LongID), priority, preempt, "-", "-", front.Shorten(front.Printable(string(value)), front.LongValue)}
		if !since.IsZero() {
			row[4], row[5] = front.FormatTime(since), front.FormatAge(now.Sub(since))
		}
		rows = append(rows, row)
	}
	switch h := r.holder; h.State {
	case leader.HolderLeading:
		add("leads", h.ID, "-", "-", h.Since, h.Value)
	case leader.HolderPending:
		add("pending", h.ID, "-", "-", h.Since, h.Value)
	case leader.HolderForeign:
		add("foreign", "-", "-", "-", time.Time{}, nil)
	case leader.HolderNone, leader.HolderReleased, leader.HolderExpired:
	}
	if h := r.over; h.ID != "" {
		add("lease over", h.ID, "-", "-", h.Since, h.Value)
	}
	for i, c := range r.candidates {
		place := fmt.Sprint(i + 1)
		if c.Denied {
			place = denial(c, now)
		}
		add(place, c.ID, fmt.Sprint(c.Priority), front.YesNo(c.Preempt), c.Since, c.Value)
	}
	if len(rows) == 1 {
		return [][]string{{"nobody leads " + r.Election + ", and nobody stands"}}
	}
	return rows
}

// mostNext is how many candidates a line names.
const mostNext = 3

// next names the first candidates, for a line.
func (r Lineup) next(now time.Time) string {
	if len(r.candidates) == 0 {
		return "nobody stands"
	}
	var names []string
	for _, c := range r.first() {
		name := front.Shorten(front.Printable(c.ID), front.LongID)
		if c.Denied {
			name += " (" + denial(c, now) + ")"
		}
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if more := len(r.candidates) - mostNext; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// denied returns the candidates that wait, if the last writes of all of them were denied.
func (r Lineup) denied() (names []facts.Text) {
	for _, c := range r.candidates {
		if !c.Denied {
			return nil
		}
		names = append(names, facts.Text(c.ID))
	}
	return names
}

// denial says when a candidate's last write was denied. It may write since, which it notices with its next write.
func denial(c roster.Entry, now time.Time) string {
	if c.DeniedAt.IsZero() {
		return "denied"
	}
	return "denied " + front.FormatAge(now.Sub(c.DeniedAt)) + " ago"
}

// first returns the candidates that a line names.
func (r Lineup) first() []roster.Entry { return r.candidates[:min(len(r.candidates), mostNext)] }

// line describes a roster in one line. An ID is quoted in it only where a table quotes it.
func (r Lineup) line(now time.Time) string {
	who := strings.Replace(r.holder.String(), strconv.Quote(r.holder.ID), front.Printable(r.holder.ID), 1)
	if len(r.candidates) == 0 {
		return who + "; " + r.next(now)
	}
	return who + "; next: " + r.next(now)
}

// rosterSummary describes a roster for programs.
type rosterSummary struct {
	Time       time.Time          `json:"time,omitzero"` // of a change
	Election   string             `json:"election"`
	Leader     *holderSummary     `json:"leader,omitempty"`
	Candidates []candidateSummary `json:"candidates"` // in the order in which they would follow
}

type holderSummary struct {
	ID      string    `json:"id"`
	Pending bool      `json:"pending,omitempty"` // does not lead yet
	Token   uint64    `json:"token"`
	Since   time.Time `json:"since,omitzero"`
	Value   string    `json:"value,omitempty"`
	Value64 string    `json:"value64,omitempty"`
}

type candidateSummary struct {
	ID       string    `json:"id"`
	Priority int       `json:"priority"`
	Preempt  bool      `json:"preempt"`
	Denied   bool      `json:"denied,omitempty"` // its last write of the key
	DeniedAt time.Time `json:"denied_at,omitzero"`
	Since    time.Time `json:"since"` // by its own clock
	Value    string    `json:"value,omitempty"`
	Value64  string    `json:"value64,omitempty"`
}

func (r Lineup) summary() rosterSummary {
	s := rosterSummary{Election: r.Election, Candidates: []candidateSummary{}}
	if h := r.holder; h.ID != "" {
		s.Leader = &holderSummary{ID: h.ID, Pending: h.State == leader.HolderPending, Token: h.Token, Since: h.Since.UTC()}
		s.Leader.Value, s.Leader.Value64 = facts.Value64(h.Value)
	}
	for _, c := range r.candidates {
		shown := candidateSummary{ID: c.ID, Priority: c.Priority, Preempt: c.Preempt, Denied: c.Denied, DeniedAt: c.DeniedAt, Since: c.Since.UTC()}
		shown.Value, shown.Value64 = facts.Value64(c.Value)
		s.Candidates = append(s.Candidates, shown)
	}
	return s
}

// announced lists the candidates that have announced themselves in the elections of a
// bucket.
type announced struct {
	counts  map[string]int // by election
	keys    []string       // of the roster, sorted
	damaged []string       // keys that hold something else
}

// stand returns how many candidates stand in an election. The holder of the key does
// not, but its announcement from before it won may still be there.
func (a announced) stand(x facts.ElectionStatus) int {
	n := a.counts[x.Election]
	if n == 0 {
		return 0
	}
	var record struct{ Session string }
	if json.Unmarshal(x.Entry.Value, &record) == nil {
		if _, found := slices.BinarySearch(a.keys, x.Election+"."+record.Session); found {
			n--
		}
	}
	return n
}

// readAnnounced reads the bucket's roster. What is no announcement counts for no candidate.
func readAnnounced(ctx context.Context, s *inspect.Inspector) (a announced, err error) {
	all, err := s.Announced(ctx)
	a.counts = map[string]int{}
	for _, x := range all {
		key, i := x.Session, strings.LastIndexByte(x.Session, '.')
		x.Session = key[i+1:]
		if _, stands := records.DecodeAnnouncement(x); !stands || i <= 0 {
			a.damaged = append(a.damaged, key)
			continue
		}
		a.keys = append(a.keys, key)
		a.counts[key[:i]]++
	}
	return a, err
}

// together is how long changes are collected before they are reported. A handover
// changes the leader and the candidates, one after the other.
const together = 100 * time.Millisecond

// rosterWatcher follows the roster of an election.
type rosterWatcher struct {
	pulse
	election string

	rosters  chan Lineup // each when nothing has changed for a while
	end      context.CancelFunc
	newest   Lineup
	reported *Lineup // nil: nothing yet
}

func newRosterWatcher(s *inspect.Inspector, election string, out Renderer) *rosterWatcher {
	return &rosterWatcher{pulse: newPulse(s, out), election: election, end: func() {}}
}

// open reports the roster as it is. It fails if a permission is missing.
func (w *rosterWatcher) open(ctx context.Context) error {
	if err := w.observe(ctx); err != nil {
		return err
	}
	w.looked = time.Now()
	return w.ticked(ctx)
}

// observe reads the roster, and observes it from then on.
func (w *rosterWatcher) observe(ctx context.Context) error {
	w.end()
	w.rosters = nil // it closes
	ctx, w.end = context.WithCancel(ctx)
	now, err := readRoster(ctx, w.s, w.election)
	if err != nil {
		return err
	}
	holders, err := leader.Observe(ctx, w.s.Bucket, w.election)
	if err != nil {
		return err
	}
	candidates, err := roster.Observe(ctx, w.s.Bucket, w.election)
	if err != nil {
		return err
	}
	w.newest, w.rosters = now, make(chan Lineup)
	go collect(ctx, now, holders, candidates, w.rosters)
	return nil
}

func (w *rosterWatcher) close() {
	w.abandon()
	w.end()
}

// collect puts the holder and the candidates together, until ctx ends or the connection
// is closed.
func collect(ctx context.Context, now Lineup, holders <-chan leader.Holder, candidates <-chan []roster.Entry, rosters chan<- Lineup) {
	defer close(rosters)
	settled := time.NewTimer(together)
	for {
		open := true
		select {
		case now.holder, open = <-holders:
			settled.Reset(together)
		case now.candidates, open = <-candidates:
			settled.Reset(together)
		case <-settled.C:
			select {
			case rosters <- now:
			case <-ctx.Done():
				return
			}
		}
		if !open {
			return
		}
	}
}

func (w *rosterWatcher) updates() <-chan Lineup { return w.rosters }

func (w *rosterWatcher) update(now Lineup, more bool) error {
	if !more {
		return leader.ErrConnectionClosed
	}
	w.newest = now
	return w.report()
}

// report reports a change, unless the bucket is silent: then none is known.
func (w *rosterWatcher) report() error {
	if w.Troubled || w.reported != nil && w.newest.same(*w.reported) {
		return nil
	}
	now := w.newest
	w.reported = &now
	return w.out.Changed(rosterChange{now, w.s.Clock.Now()})
}

func (w *rosterWatcher) ticked(ctx context.Context) error {
	w.beat(ctx, w.observe)
	return w.report()
}

func (w *rosterWatcher) view(now time.Time, trouble error, filter string) view {
	rows := w.newest.table(now)
	v := view{title: fmt.Sprintf("Roster of %s, %d stand", w.election, len(w.newest.candidates)), at: now, head: rows[0]}
	for _, cells := range rows[1:] {
		if matches(filter, cells) {
			v.rows = append(v.rows, front.TableRow{Cells: cells})
		}
	}
	v.total = len(rows) - 1
	v.narrow = []narrowing{{4, 0}, {6, 12}, {3, 0}, {6, 0}, {1, 12}, {5, 0}}
	if trouble != nil {
		v.trouble = "NOT UP TO DATE"
		v.why = front.ErrorText(trouble)
	}
	return v
}

// same reports whether there is no change to report. A renewal is none, and neither is another denied write.
func (r Lineup) same(o Lineup) bool {
	was, is := r.summary(), o.summary()
	for _, all := range [][]candidateSummary{was.Candidates, is.Candidates} {
		for i := range all {
			all[i].DeniedAt = time.Time{}
		}
	}
	return r.holder.State == o.holder.State && reflect.DeepEqual(was, is)
}

// rosterChange is a roster that has changed.
type rosterChange struct {
	Lineup
	at time.Time // the server's
}

func (c rosterChange) time() time.Time { return c.at }

func (c rosterChange) text() string { return c.line(c.at) }

func (c rosterChange) object() any {
	s := c.summary()
	s.Time = c.at.UTC()
	return s
}
