package view

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

// Around is what a failure says of the bucket: why the rows are not up to date; nil: they are.
func Around(now time.Time, failure error) judge.Around {
	return judge.Around{Now: now, Silent: failure != nil, Lost: errors.Is(failure, front.ErrUnreachable), Gone: errors.Is(failure, leader.ErrNoBucket)}
}

// styled returns a row of an election in the style of its trouble.
func styled(texts []string, t judge.Trouble) front.TableRow {
	r := front.TableRow{Cells: texts, Marked: columnState}
	switch t {
	case judge.TroubleUnknown, judge.TroubleForeign, judge.TroubleExpired, judge.TroubleDeleted:
		r.Style = front.StyleBad
	case judge.TroublePending:
		r.Style = front.StyleWarn
	case judge.TroubleNone:
		r.Mark = front.StyleGood
	case judge.TroubleIdle:
		r.Style = front.StyleDim
	}
	return r
}

// row returns the row of an election in a view. Capitals show the trouble without colours.
func (x *Watched) row(now time.Time, t judge.Trouble) front.TableRow {
	texts := overview(x.Now, x.As, now)
	switch t {
	case judge.TroubleUnknown:
		texts[columnState] = "UNKNOWN"
	case judge.TroubleForeign, judge.TroubleExpired, judge.TroubleDeleted:
		texts[columnState], texts[columnLeader] = strings.ToUpper(texts[columnState]), "NOBODY"
		was := x.Was
		if last := x.Now.Last(); last != nil {
			was = last.ID
		}
		if was != "" {
			texts[columnLeader] += " (was " + front.Shorten(front.Printable(was), front.LongID) + ")"
		}
	case judge.TroublePending, judge.TroubleNone, judge.TroubleIdle:
	}
	return styled(texts, t)
}

func (w *Watcher) view(now time.Time, failure error, filter string) view {
	title := "Elections in bucket " + w.S.Name
	switch {
	case w.pattern != "":
		title = fmt.Sprintf("Elections %s in bucket %s", w.pattern, w.S.Name)
	case w.election != "":
		title = fmt.Sprintf("Election %s in bucket %s", w.election, w.S.Name)
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
		v.trouble = fmt.Sprintf("NOT UP TO DATE since %s (%s)", front.FormatRecent(w.Fresh, now), front.FormatAge(now.Sub(w.Fresh)))
		v.why = front.ErrorText(failure)
	}
	all := slices.DeleteFunc(w.all(), func(x *Watched) bool { return x.Last == nil })
	v.total = len(all)
	in := Around(now, failure)
	in.Expires = w.Expires()
	troubles := make(map[*Watched]judge.Trouble, len(all))
	var counts [judge.TroubleIdle + 1]int
	for _, x := range all {
		t := judge.TroubleOf(judge.Election(x.Now, x.As, in), x.As)
		troubles[x] = t
		counts[t]++
	}
	slices.SortFunc(all, func(a, b *Watched) int {
		return cmp.Or(cmp.Compare(troubles[a], troubles[b]), strings.Compare(a.Now.Election, b.Now.Election))
	})
	for _, x := range all {
		if r := x.row(now, troubles[x]); matches(filter, r.Cells) {
			stand := "-"
			if _, _, ofGroup := group.NameOf(x.Now.Election); w.who != nil && !ofGroup {
				stand = fmt.Sprint(w.who.stand(x.Now))
			}
			r.Cells = w.withStand(r.Cells, stand)
			v.rows = append(v.rows, r)
		}
	}
	v.summary = summaryOf(counts)
	if len(w.Cordoned) > 0 {
		v.summary = append(v.summary, front.Styled{Text: "; cordoned: " + front.SomeNames(w.Cordoned), Style: front.StyleWarn})
	}
	for _, c := range slices.Backward(w.recent) {
		if line := []string{front.FormatRecent(c.At, now), front.Printable(c.Now.Election), c.Event()}; matches(filter, line) {
			v.recent = append(v.recent, line)
		}
	}
	return v
}

// withStand adds to a row how many candidates stand, where that is known.
func (w *Watcher) withStand(cells []string, stand string) []string {
	if w.who == nil {
		return cells
	}
	return slices.Insert(cells, columnValue, stand)
}

// summaryOf counts elections by their trouble.
func summaryOf(counts [judge.TroubleIdle + 1]int) front.Line {
	var l front.Line
	add := func(n int, what string, s front.Style) {
		if n == 0 {
			return
		}
		if len(l) > 0 {
			l = append(l, front.Styled{Text: ", ", Style: front.StylePlain})
		}
		l = append(l, front.Styled{Text: fmt.Sprintf("%d %s", n, what), Style: s})
	}
	inTrouble := 0
	for _, n := range counts[:judge.TroublePending] {
		inTrouble += n
	}
	add(inTrouble, "in trouble", front.StyleBad)
	add(counts[judge.TroublePending], "pending", front.StyleWarn)
	add(counts[judge.TroubleNone], "led", front.StyleGood)
	add(counts[judge.TroubleIdle], "idle", front.StyleDim)
	if len(l) == 0 {
		l = front.Line{{Text: "no elections yet", Style: front.StyleDim}}
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
