package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

// everyName matches all names.
var everyName = regexp.MustCompile("")

// PatternOf returns the expression for the names that a pattern matches, in which * is any text. Without a pattern these
// are all names.
func PatternOf(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return everyName, nil
	}
	if err := inspect.CheckElection(strings.ReplaceAll(pattern, "*", "x")); err != nil {
		return nil, front.Usagef("pattern %q may contain only letters, digits, * and -/_=., and no empty part", pattern)
	}
	return regexp.Compile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
}

// listing is what a table of elections shows, and in which order.
type listing struct {
	names      *regexp.Regexp
	states     []string // empty: all
	order      string
	allBuckets bool
	withRoster bool
	host       string // empty: all
	asJSON     bool
	found      int // elections and groups, shown or not
	cordoned   []string
	domain     string   // of JetStream, of the bucket that was read last
	damaged    []string // keys of rosters that hold no announcement
}

// listedStates are the states that a table can show, in the order of --sort state.
var listedStates = []facts.State{facts.Foreign, facts.Expired, facts.Deleted, facts.Pending, facts.Leading, facts.Released}

// listedElection is an election in a table.
type listedElection struct {
	facts.ElectionStatus
	as     facts.State
	in     judge.Around
	bucket string
	stand  *int // nil: not known
}

// orders compare elections for --sort.
var orders = map[string]func(a, b listedElection) int{
	"election": func(listedElection, listedElection) int { return 0 }, // as they were read
	"for":      func(a, b listedElection) int { return cmp.Compare(b.age(), a.age()) },
	"leader":   func(a, b listedElection) int { return strings.Compare(a.shownLeader(), b.shownLeader()) },
	"state": func(a, b listedElection) int {
		return cmp.Compare(slices.Index(listedStates, a.as), slices.Index(listedStates, b.as))
	},
}

func (x listedElection) age() time.Duration { return x.in.Now.Sub(x.Since(x.as)) }

// shownLeader is what the column LEADER shows: the last leader, in parentheses, comes before the leaders.
func (x listedElection) shownLeader() string {
	return overview(x.ElectionStatus, x.as, x.in.Now)[columnLeader]
}

func (l *listing) register(cmd *fisk.CmdClause) {
	states := make([]string, len(listedStates))
	for i, s := range listedStates {
		states[i] = string(s)
	}
	cmd.Flag("state", "Show only elections in this state; may be repeated: "+strings.Join(states, ", ")).PlaceHolder("STATE").EnumsVar(&l.states, states...)
	cmd.Flag("sort", "Order of the table: election, for (the longest first), leader or state (trouble first)").
		PlaceHolder("COLUMN").Default("election").EnumVar(&l.order, "election", "for", "leader", "state")
	cmd.Flag("all-buckets", "Show all buckets for elections at once").Short('A').UnNegatableBoolVar(&l.allBuckets)
	cmd.Flag("roster", "Show also how many candidates stand, and of one election which").UnNegatableBoolVar(&l.withRoster)
	cmd.Flag("host", "Show only what a candidate or member on this host, or with this ID, has").PlaceHolder("NAME").StringVar(&l.host)
}

// asked reports whether a table is asked for, and not one election.
func (l *listing) asked(election string) bool {
	return election == "" || strings.Contains(election, "*") || len(l.states) > 0 || l.order != "election" || l.allBuckets || l.host != ""
}

// read reads the elections of a bucket that the table shows, and its groups. Of a roster that cannot be read it returns the error, too.
func (l *listing) read(ctx context.Context, s *inspect.Inspector) (shown []listedElection, groups []groupSummary, err error) {
	var all []facts.ElectionStatus
	var who announced
	var unread error
	if l.withRoster {
		who, unread = inspect.Answer(ctx, s, func(ctx context.Context) (announced, error) { return readAnnounced(ctx, s) })
	}
	for _, key := range who.damaged {
		l.damaged = append(l.damaged, s.Roster+" "+key)
	}
	if l.allBuckets && errors.Is(unread, leader.ErrNoRoster) {
		unread = nil
	}
	if all, err = inspect.Answer(ctx, s, s.All); err != nil {
		return nil, nil, err
	}
	l.cordoned, _ = inspect.CordonOf(s.Cordoned)
	l.domain = s.Domain(ctx)
	now := s.Clock.Now()
	all, names := inspect.WithoutGroups(all)
	l.found += len(all) + len(names)
	in := cordoned(around(s, now), l.cordoned)
	for _, x := range all {
		listed := listedElection{ElectionStatus: x, as: x.At(now), in: in, bucket: s.Name}
		if l.withRoster && s.Roster != "" && unread == nil {
			n := who.stand(x)
			listed.stand = &n
		}
		has := l.host == "" || listed.as.Held() && records.OnHost(x.Holder.ID, l.host)
		if has && l.names.MatchString(x.Election) && (len(l.states) == 0 || slices.Contains(l.states, string(listed.as))) {
			shown = append(shown, listed)
		}
	}
	for _, name := range names {
		if l.names.MatchString(name) && len(l.states) == 0 {
			g, has := briefly(ctx, s, name, l.host)
			if !has {
				continue
			}
			if l.allBuckets {
				g.Bucket = s.Name
			}
			groups = append(groups, g)
		}
	}
	return shown, groups, unreadRoster(unread)
}

// unreadRoster is the error of a command that has shown the rest, or nil.
func unreadRoster(err error) error {
	if err != nil {
		err = fmt.Errorf("the roster was not read: %w", err)
	}
	return err
}

// statusOfAll prints a table. A bucket that cannot be read does not hide the others, and a roster not the elections.
func statusOfAll(ctx context.Context, g *front.Globals, s *inspect.Inspector, l *listing) error {
	of := []*inspect.Inspector{s}
	if l.allBuckets {
		var err error
		if of, err = s.OnAllBuckets(ctx); err != nil {
			return err
		}
	}
	var all []listedElection
	var groups []groupSummary
	var failed []string
	var unread error
	code := 0
	for _, s := range of {
		err := s.Within(ctx, s.Ask)
		if err == nil {
			var more []listedElection
			var moreGroups []groupSummary
			more, moreGroups, err = l.read(ctx, s)
			all, groups = append(all, more...), append(groups, moreGroups...)
		}
		switch {
		case err != nil && !l.allBuckets && len(all)+len(groups) > 0:
			unread = err
		case err != nil && !l.allBuckets:
			return err
		case err != nil:
			on := &front.Globals{Bucket: s.Name}
			failed, code = append(failed, fmt.Sprintf("bucket %s: %s", s.Name, front.ErrorText(on.Explain(err)))), cmp.Or(code, front.CodeOf(err))
		}
	}
	for _, g := range groups {
		if why := front.CodeOf(g.unread); why == front.ExitUnreachable || why == front.ExitDenied {
			unread = cmp.Or(unread, fmt.Errorf("group %s was not read: %w", front.Printable(g.Group), g.unread))
		}
	}
	slices.SortStableFunc(all, orders[l.order])
	if err := l.print(g, all, groups); err != nil || len(failed) == 0 {
		return cmp.Or(err, unread)
	}
	return front.ExitError{Code: code, Err: errors.New(strings.Join(failed, "; "))}
}

// print prints the table.
func (l *listing) print(g *front.Globals, all []listedElection, groups []groupSummary) error {
	summaries := []any{}
	rows := [][]string{l.row(overviewHead(time.Now()), "BUCKET", "STAND")}
	for _, x := range all {
		sum, stand := electionSummary(x.ElectionStatus, x.in), "-"
		sum.Domain = l.domain
		if l.allBuckets {
			sum.Bucket = x.bucket
		}
		if sum.Stand = x.stand; x.stand != nil {
			stand = fmt.Sprint(*x.stand)
		}
		summaries = append(summaries, sum)
		rows = append(rows, l.row(overview(x.ElectionStatus, x.as, x.in.Now), x.bucket, stand))
	}
	for _, group := range groups {
		summaries, rows = append(summaries, group), append(rows, l.row(group.overview(), group.Bucket, "-"))
	}
	lines := front.Columns(rows)
	if front.Colourful(g.Out()) {
		lines = painted(rows, all)
	}
	if len(summaries) == 0 {
		lines = []string{"no such election"}
		if l.found == 0 {
			lines[0] = "no election yet"
		}
		if l.host != "" {
			lines[0] = front.Printable(l.host) + " leads nothing, and has no member of a group"
		}
		if !l.allBuckets {
			lines[0] += " in bucket " + g.Bucket
		}
	}
	if l.domain != "" {
		lines = append(lines, "", "JetStream domain: "+front.Printable(l.domain))
	}
	more := make(map[string][]string)
	if len(l.cordoned) > 0 && !l.allBuckets {
		more["cordoned"] = l.cordoned
		lines = append(lines, "", "Cordoned: "+front.SomeNames(l.cordoned))
	}
	if len(l.damaged) > 0 {
		more["damaged"] = l.damaged
		lines = append(lines, "", "Damaged: "+front.SomeNames(l.damaged)+" (roster and key): no candidate has written them, and they count for none; nats kv del ROSTER KEY removes one")
	}
	if len(more) > 0 {
		summaries = append(summaries, more)
	}
	return front.PrintResult(g.Out(), l.asJSON, summaries, lines)
}

// row adds to a row the columns that flags ask for, before the last one, so that the others keep their numbers.
func (l *listing) row(cells []string, bucket, stand string) []string {
	last := len(cells) - 1
	if l.allBuckets {
		cells = slices.Insert(cells, last, bucket)
	}
	if l.withRoster {
		cells = slices.Insert(cells, last, stand)
	}
	return cells
}
