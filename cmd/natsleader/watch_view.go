package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/group"
)

// trouble is how much attention an election needs, the most first.
type trouble int

const (
	troubleUnknown trouble = iota // the lease is over by what is known, and the bucket does not answer or is gone
	troubleForeign                // the key holds something that natsleader did not write
	troubleExpired                // the leader died, or cannot write
	troubleDeleted                // the record of the last term is gone, and no candidate has taken the key
	troublePending
	troubleNone
	troubleIdle // given up in order, and no candidate wants it
)

// troubleOf returns the trouble of an election.
func (x *watched) troubleOf(now time.Time, trouble error) trouble {
	if !x.mayLead.IsZero() {
		return troubleUnknown
	}
	switch x.as {
	case stateLeading, statePending:
		if trouble != nil && x.now.remaining(now) <= 0 {
			return troubleUnknown
		}
		if x.as == statePending {
			return troublePending
		}
		return troubleNone
	case stateExpired:
		return troubleExpired
	case stateForeign:
		return troubleForeign
	case stateDeleted:
		if !x.now.idle() {
			return troubleDeleted
		}
	case stateReleased, stateNever:
	}
	return troubleIdle
}

// styled returns a row of an election in the style of its trouble.
func (x *watched) styled(texts []string, t trouble) tableRow {
	r := tableRow{cells: texts, marked: columnState}
	switch t {
	case troubleUnknown, troubleForeign, troubleExpired, troubleDeleted:
		r.style = styleBad
	case troublePending:
		r.style = styleWarn
	case troubleNone:
		r.mark = styleGood
	case troubleIdle:
		r.style = styleDim
	}
	return r
}

// row returns the row of an election in a view. Capitals show the trouble without colours.
func (x *watched) row(now time.Time, t trouble) tableRow {
	texts := x.now.overview(x.as, now)
	switch t {
	case troubleUnknown:
		texts[columnState] = "UNKNOWN"
	case troubleForeign, troubleExpired, troubleDeleted:
		texts[columnState], texts[columnLeader] = strings.ToUpper(texts[columnState]), "NOBODY"
		was := x.was
		if last := x.now.last(); last != nil {
			was = last.ID
		}
		if was != "" {
			texts[columnLeader] += " (was " + shorten(printable(was), longID) + ")"
		}
	case troublePending, troubleNone, troubleIdle:
	}
	return x.styled(texts, t)
}

func (w *watcher) view(now time.Time, failure error, filter string) view {
	title := "Elections in bucket " + w.s.name
	switch {
	case w.pattern != "":
		title = fmt.Sprintf("Elections %s in bucket %s", w.pattern, w.s.name)
	case w.election != "":
		title = fmt.Sprintf("Election %s in bucket %s", w.election, w.s.name)
	}
	head, value := w.withStand(overviewHead(now), "STAND"), columnValue
	if w.who != nil {
		value++
	}
	v := view{title: title, at: now, head: head, narrow: []narrowing{
		{columnSince, 0},
		{value, 13},
		{columnToken, 0},
		{columnLeader, 20},
		{columnElection, 20},
		{value, 0},
		{columnLease, 0},
		{columnElection, 14},
		{columnLeader, 8},
		{columnElection, 8},
		{columnFor, 0},
	}}
	if failure != nil {
		v.trouble = fmt.Sprintf("NOT UP TO DATE since %s (%s)", formatRecent(w.fresh, now), formatAge(now.Sub(w.fresh)))
		v.why = errorText(failure)
	}
	all := slices.DeleteFunc(w.all(), func(x *watched) bool { return x.last == nil })
	v.total = len(all)
	troubles := make(map[*watched]trouble, len(all))
	var counts [troubleIdle + 1]int
	for _, x := range all {
		t := x.troubleOf(now, failure)
		troubles[x] = t
		counts[t]++
	}
	slices.SortFunc(all, func(a, b *watched) int {
		return cmp.Or(cmp.Compare(troubles[a], troubles[b]), strings.Compare(a.now.election, b.now.election))
	})
	for _, x := range all {
		if r := x.row(now, troubles[x]); matches(filter, r.cells) {
			stand := "-"
			if _, _, ofGroup := group.NameOf(x.now.election); w.who != nil && !ofGroup {
				stand = fmt.Sprint(w.who.stand(x.now))
			}
			r.cells = w.withStand(r.cells, stand)
			v.rows = append(v.rows, r)
		}
	}
	v.summary = summaryOf(counts)
	if len(w.cordoned) > 0 {
		v.summary = append(v.summary, styled{"; cordoned: " + someNames(w.cordoned), styleWarn})
	}
	for _, c := range slices.Backward(w.recent) {
		if line := []string{formatRecent(c.at, now), printable(c.now.election), c.event()}; matches(filter, line) {
			v.recent = append(v.recent, line)
		}
	}
	return v
}

// withStand adds to a row how many candidates stand, where that is known.
func (w *watcher) withStand(cells []string, stand string) []string {
	if w.who == nil {
		return cells
	}
	return slices.Insert(cells, columnValue, stand)
}

// summaryOf counts elections by their trouble.
func summaryOf(counts [troubleIdle + 1]int) line {
	var l line
	add := func(n int, what string, s style) {
		if n == 0 {
			return
		}
		if len(l) > 0 {
			l = append(l, styled{", ", stylePlain})
		}
		l = append(l, styled{fmt.Sprintf("%d %s", n, what), s})
	}
	inTrouble := 0
	for _, n := range counts[:troublePending] {
		inTrouble += n
	}
	add(inTrouble, "in trouble", styleBad)
	add(counts[troublePending], "pending", styleWarn)
	add(counts[troubleNone], "led", styleGood)
	add(counts[troubleIdle], "idle", styleDim)
	if len(l) == 0 {
		l = line{{"no elections yet", styleDim}}
	}
	return l
}

// matches reports whether one of the cells contains the filter, in whatever case.
func matches(filter string, cells []string) bool {
	if filter == "" {
		return true
	}
	filter = strings.ToLower(filter)
	return slices.ContainsFunc(cells, func(cell string) bool { return strings.Contains(strings.ToLower(cell), filter) })
}
