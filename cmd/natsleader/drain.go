package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/choria-io/fisk"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/group"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

const drainHelp = `A name is the ID of a candidate or member, or the host of those that were given no ID:
their IDs begin with it. Drain a candidate with an ID of another form by that ID.

It cordons the name, so that its candidates take no election of the bucket, also after a
restart of their processes. Then it asks all leaders of that name to hand over, and all
members of groups to give up their shards, each when the work on it has ended, or after
its GracePeriod. It looks again until they lead nothing and own nothing. If a leader
refuses or is silent, the others hand over all the same. undrain ends the cordon.

With --keep it only cordons: leaders and members keep what they have, and members may
take more shards. With --only it drains the members of one group and cordons nothing.
With --dry-run it prints what it would do.

If the other members of a group do not take all shards, it asks for confirmation. Where
standard input is no terminal, nothing is done then without --yes. About elections
without another candidate it does not ask: look at status --roster first.

Candidates that may not read the key natsleader.cordon of the bucket heed no cordon. A
process that is cut off sees a change when it is connected again. If all candidates of an
election are cordoned, nobody leads it. A cordon has 64 names at most. A member that joins
later takes shards, so do not start its process again.

The exit code is that of a new reading: 1 if a leader refuses or leads again, the answer is
no, or the bucket has a TTL, which would end the cordon; 64 if --yes is missing; 69 if a
leader does not answer; and 124 if a leader or member has not handed over in time: the
request to a member stays.

  natsleader drain "$(hostname)"
  natsleader drain web-1 --dry-run
  natsleader drain web-1 --only orders`

// drain is the act that takes all leaderships and shards from a process or a host.
type drain struct {
	stepDown
	name     string       // an ID or a host
	only     string       // a group; empty: all, and all elections
	keep     bool         // nothing is taken away
	cordon   bool         // first
	cordoned bool         // by this command, or before it
	members  []*membersOf // that are asked
	done     *drained     // for programs; nil: it has not read what there is
}

// drained is what drain and undrain have done, or would do, for programs.
type drained struct {
	Bucket    string         `json:"bucket"`
	DryRun    bool           `json:"dry_run,omitempty"`
	Cordoned  []string       `json:"cordoned,omitzero"` // the names on the cordon then, if it was read
	Elections []handover     `json:"elections,omitempty"`
	Groups    []drainedGroup `json:"groups,omitempty"`
}

func registerDrain(app *fisk.Application, g *globals) {
	d := &drain{stepDown: stepDown{globals: g, tool: "drain"}}
	cmd := app.Command("drain", "Take leaderships and shards from a process or host").HelpLong(drainHelp)
	cmd.Arg("name", "ID, or the host name with which generated IDs begin").Required().HintAction(g.leaderIDs).StringVar(&d.name)
	cmd.Flag("only", "Only its members of this group, without a cordon").PlaceHolder("GROUP").HintAction(g.groupNames).StringVar(&d.only)
	cmd.Flag("keep", "Only cordon it, and take nothing away").UnNegatableBoolVar(&d.keep)
	cmd.Flag("wait", "Longest time to wait until it has nothing").Default("30s").DurationVar(&d.wait)
	cmd.Flag("dry-run", "Print what it would do").UnNegatableBoolVar(&d.dryRun)
	cmd.Flag("yes", "Do not ask for confirmation").Short('y').UnNegatableBoolVar(&d.yes)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&d.asJSON)
	cmd.Action(func(*fisk.ParseContext) error {
		if d.keep && d.only != "" {
			return usagef("--keep only cordons, and --only cordons nothing; nothing was done")
		}
		d.cordon = d.only == ""
		return g.inspectBucket(d.run)
	})
}

// run prints what was done for programs, also if something has failed.
func (d *drain) run(ctx context.Context, look *inspector) error {
	act := d.askAll
	if d.keep {
		act = d.onlyCordon
	}
	err := act(ctx, look)
	if err != nil && d.cordoned && !d.dryRun {
		err = fmt.Errorf("%w; %s stays cordoned", err, d.whose())
	}
	if !d.asJSON || d.done == nil {
		return err
	}
	return cmp.Or(printJSON(d.out(), d.done, "  "), err)
}

func (d *drain) whose() string { return printable(d.name) }

// onlyCordon cordons the name, or reads the cordon for a plan.
func (d *drain) onlyCordon(ctx context.Context, look *inspector) error {
	text, names := "cordoned in bucket "+d.bucket+": "+d.whose(), []string(nil)
	var err error
	if d.dryRun {
		if names, _, err = look.cordon(ctx); err == nil {
			text = d.wouldCordon(names)
		}
	} else {
		names, err = d.recordon(ctx, look)
	}
	if err != nil {
		return err
	}
	d.done = &drained{Bucket: d.bucket, DryRun: d.dryRun, Cordoned: append([]string{}, names...)}
	return d.tell(text)
}

func (d *drain) recordon(ctx context.Context, look *inspector) ([]string, error) {
	return look.recordon(ctx, func(names []string) ([]string, error) { return append(names, d.name), nil })
}

func (d *drain) wouldCordon(names []string) string {
	if slices.Contains(names, d.name) {
		return d.whose() + " is cordoned already"
	}
	return "would cordon " + d.whose() + " in bucket " + d.bucket
}

// tell prints lines for people.
func (d *drain) tell(lines ...string) error {
	if d.asJSON || len(lines) == 0 {
		return nil
	}
	return printLines(d.out(), lines)
}

// askAll carries out the plan: what it has read before it changes anything. A group that was not read keeps no election from
// being handed over.
func (d *drain) askAll(ctx context.Context, look *inspector) error {
	began := time.Now()
	limited, cancel := context.WithDeadline(ctx, began.Add(d.wait))
	defer cancel()
	led, soon, unread, err := d.plan(ctx, look)
	if err != nil {
		return err
	}
	if d.dryRun {
		return cmp.Or(d.show(led, soon), unread)
	}
	if err := d.confirmShortage(); err != nil {
		return err
	}
	if d.cordon {
		names, err := d.recordon(ctx, look)
		if err != nil {
			d.done = nil
			return err
		}
		if len(led) > 0 && !slices.Equal(names, d.done.Cordoned) {
			_ = deadline.Sleep(limited, timeToHear)
		}
		d.cordoned, d.done.Cordoned = true, append([]string{}, names...)
	}
	for _, m := range d.members {
		unread = cmp.Or(unread, m.request(ctx, look))
	}
	if d.only != "" {
		return cmp.Or(unread, d.awaitMembers(ctx, look, began.Add(d.wait)))
	}
	all := map[asked]error{}
	for {
		led, again, soon, err := d.led(ctx, look, all)
		switch {
		case err != nil:
			return err
		case len(led) == 0 && len(soon) > 0 && deadline.Sleep(limited, 250*time.Millisecond) == nil:
			continue
		case len(led) == 0 && len(soon) > 0:
			return exitf(exitWaited, "%s still has the key of %s after %v", d.whose(), shortList(soon), d.wait)
		case len(led) == 0:
			members := d.awaitMembers(ctx, look, began.Add(d.wait))
			owned, unseen := d.owned(ctx, look)
			return d.end(all, again, owned, cmp.Or(unread, members, unseen))
		case limited.Err() != nil:
			return exitf(exitWaited, "%s still leads %s after %v", d.whose(), shortList(led), d.wait)
		}
		d.pass(limited, look.bucket, led, all)
	}
}

// timeToHear is how long candidates have to hear of their cordon before leaders hand over. One that has not heard of it may
// follow a leader of its own host, and is asked next.
const timeToHear = 100 * time.Millisecond

// plan reads what the drain will change, and why the first group was not read.
func (d *drain) plan(ctx context.Context, look *inspector) (led, soon []electionStatus, unread, err error) {
	d.done = &drained{Bucket: d.bucket, DryRun: d.dryRun}
	if d.only != "" {
		var m *membersOf
		m, err = d.inGroup(ctx, look, d.only, d.name)
		d.members = []*membersOf{m}
		return nil, nil, nil, err
	}
	if led, _, soon, err = d.led(ctx, look, nil); err != nil {
		return nil, nil, nil, err
	}
	names, err := cordonOf(look.cordoned)
	if err != nil && d.cordon {
		_, _, err = look.cordon(ctx) // which names the remedy
		return nil, nil, nil, err
	}
	d.done.Cordoned = append([]string{}, names...)
	// One that is gone may keep shards for its Hold.
	if d.cordon {
		d.members, unread = d.onHost(ctx, look, d.name, func(p memberSummary) bool { return !isPast(p.State) || len(p.Shards) > 0 })
	}
	return led, soon, unread, nil
}

// show prints the plan.
func (d *drain) show(led, soon []electionStatus) error {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if d.cordon {
		say("%s", d.wouldCordon(d.done.Cordoned))
	}
	for _, x := range led {
		d.done.Elections = append(d.done.Elections, handover{Election: x.election, From: &leaderSummary{x.holder.ID, x.holder.Token}})
		say("%s", wouldAsk(x))
	}
	for _, x := range soon {
		say("would wait for %s, which has the key of %s and does not lead yet", printable(x.holder.ID), x.election)
	}
	for _, m := range d.members {
		without, why := m.of.shortage(m.chosen)
		of := drainedGroup{Group: m.of.group, Without: without}
		for _, p := range m.chosen {
			of.Members = append(of.Members, drainedMember{p.ID, len(p.Shards), p.State})
			if p.State == memberDrained && len(p.Shards) == 0 {
				say("%s of group %s is drained already", printable(p.ID), m.of.group)
				continue
			}
			say("would drain %s of group %s, which has %s", printable(p.ID), m.of.group, plural(len(p.Shards), "shard"))
		}
		if d.done.Groups = append(d.done.Groups, of); why != "" {
			say("%s", why)
		}
	}
	return d.tell(lines...)
}

// confirmShortage asks for confirmation if the other members of a group do not take all shards.
func (d *drain) confirmShortage() error {
	var all []string
	for _, m := range d.members {
		if _, why := m.of.shortage(m.chosen); why != "" {
			all = append(all, why)
		}
	}
	switch {
	case len(all) == 0:
		return nil
	case d.yes:
		_, _ = fmt.Fprintf(d.errs(), "natsleader: %s\n", strings.Join(all, "; "))
		return nil
	case !d.canAsk():
		return usagef("%s, and standard input is no terminal: --yes drains all the same; nothing was done", strings.Join(all, "; "))
	}
	out := d.wordsOf(d.asJSON)
	for _, why := range all {
		out.say("%s.", strings.ToUpper(why[:1])+why[1:])
	}
	return out.confirm(false, "Drain?", "nothing was done")
}

// asked is an election and a leader that was asked. The leader is asked once: a candidate
// that leads again would go on forever where no other candidate stands. Another candidate on
// the same host may follow it, and is asked next. And a candidate that hands over may win
// another election meanwhile.
type asked struct{ election, id string }

func askedOf(x electionStatus) asked { return asked{x.election, x.holder.ID} }

// led reads the elections of the leaders that are meant. again are those whose leaders were asked before. soon are those
// of which a cordoned candidate has the key already: it keeps that, and leads soon.
func (d *drain) led(ctx context.Context, look *inspector, done map[asked]error) (led, again, soon []electionStatus, err error) {
	all, err := answer(ctx, look, look.all)
	if names, _ := cordonOf(look.cordoned); !d.cordoned {
		_, d.cordoned = records.Cordoned(names, d.name)
	}
	now := look.clock.now()
	elections, _ := withoutGroups(all) // without its own key a member loses all shards, and gets them again
	for _, x := range elections {
		st := x.at(now)
		if !st.held() || !records.OnHost(x.holder.ID, d.name) || checkElection(x.election) != nil {
			continue
		}
		switch _, before := done[askedOf(x)]; {
		case st == statePending && (d.cordoned || d.cordon):
			soon = append(soon, x)
		case st == statePending:
		case before:
			again = append(again, x)
		default:
			led = append(led, x)
		}
	}
	return led, again, soon, err
}

// mostAtOnce bounds the requests under way: a process may lead thousands of elections.
const mostAtOnce = 64

// pass asks for each election, and prints the outcomes as they come.
func (d *drain) pass(ctx context.Context, bucket *leader.Bucket, led []electionStatus, done map[asked]error) {
	var all errgroup.Group
	all.SetLimit(mostAtOnce)
	var mu sync.Mutex
	for _, x := range led {
		all.Go(func() error {
			outcome, err := d.ask(ctx, bucket, x)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				d.done.Elections = append(d.done.Elections, outcome)
				err = d.tell(strings.Join(outcome.lines(), "; "))
			}
			if done[askedOf(x)] = err; err != nil {
				_, _ = fmt.Fprintf(d.errs(), "natsleader: %s: %s\n", x.election, errorText(err))
			}
			return nil // one failure ends no other request
		})
	}
	_ = all.Wait()
}

// end sums up. owned are the shards that it has still, and members is why those that were drained have some. Of several failures
// the greatest exit code counts: 124 and 69 name a leader that may still hand over, 1 names one that does not.
func (d *drain) end(done map[asked]error, again []electionStatus, owned string, members error) error {
	code, failed := 0, 0
	for _, err := range done {
		if err != nil {
			code, failed = max(code, codeOf(err)), failed+1
		}
	}
	switch {
	case members != nil && d.cordon && codeOf(members) >= code:
		return members
	case failed > 0:
		return exitf(code, "%d of %d leaders have not handed over", failed, len(done))
	case len(again) > 0:
		return exitf(exitFailed, "%s leads again, since no other candidate took over: %s", d.whose(), shortList(again))
	case d.cordon && owned != "":
		return exitf(exitFailed, "%s owns %s: a member has joined meanwhile", d.whose(), owned)
	}
	text := d.whose() + " leads nothing in bucket " + d.bucket
	if len(done) > 0 {
		text += " any more"
	}
	switch {
	case d.cordoned:
		text += ", and is cordoned"
	case len(done) > 0:
		text += ", and stays a candidate"
	}
	switch {
	case owned != "":
		text += "; it owns " + owned
	case members != nil: // they were not asked for
		text += "; it is not known whether it owns shards: " + errorText(members)
	}
	return d.tell(text)
}

// shortList names the first elections of a list.
func shortList(all []electionStatus) string {
	const most = 5
	var names []string
	for _, x := range all[:min(most, len(all))] {
		names = append(names, printable(x.election))
	}
	text := strings.Join(names, ", ")
	if more := len(all) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// leaderIDs completes the ID of a leader.
func (g *globals) leaderIDs() []string {
	return g.complete("leaders", func(ctx context.Context, s *inspector) ([]string, error) {
		all, err := s.all(ctx)
		var ids []string
		for _, x := range all {
			if x.holder.State == leader.HolderLeading && unquoted(x.holder.ID) {
				ids = append(ids, x.holder.ID)
			}
		}
		slices.Sort(ids)
		return slices.Compact(ids), err
	})
}

// awaitMembers waits until the members that were asked have given up their shards. It looks once, however late it is.
func (d *drain) awaitMembers(ctx context.Context, look *inspector, by time.Time) error {
	if once := time.Now().Add(look.limit); by.Before(once) {
		by = once
	}
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	for _, m := range d.members {
		done, lines, err := m.emptied(ctx, look, d.name, d.wait)
		if err != nil {
			return err
		}
		d.done.Groups = append(d.done.Groups, done)
		if err := d.tell(lines...); err != nil {
			return err
		}
	}
	return nil
}

// owned says which groups have members that are meant and own shards, or nothing.
func (d *drain) owned(ctx context.Context, look *inspector) (string, error) {
	all, err := d.onHost(ctx, look, d.name, func(p memberSummary) bool { return len(p.Shards) > 0 })
	var texts []string
	for _, m := range all {
		n := 0
		for _, p := range m.chosen {
			n += len(p.Shards)
		}
		texts = append(texts, fmt.Sprintf("%s of group %s", plural(n, "shard"), m.of.group))
	}
	return some(texts), err
}

const undrainHelp = `It ends the cordon of a name, and lets its drained members of groups take shards again. A
candidate that waits for a free key takes it at once. It does not wait until a member has
shards. With --only it lets the members of one group take shards again, and leaves the
cordon as it is.

The exit code is 1 if a name is not cordoned and has no drained member; then nothing is changed.

  natsleader undrain "$(hostname)"`

// undrain is the act that ends a drain.
type undrain struct {
	*globals
	names  []string
	only   string
	asJSON bool
}

func registerUndrain(app *fisk.Application, g *globals) {
	u := &undrain{globals: g}
	cmd := app.Command("undrain", "Let a process or host take elections and shards again").HelpLong(undrainHelp)
	cmd.Arg("name", "ID or host").Required().HintAction(g.cordonedNames).StringsVar(&u.names)
	cmd.Flag("only", "Only the members of this group").PlaceHolder("GROUP").HintAction(g.groupNames).StringVar(&u.only)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&u.asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return g.inspectBucket(u.run) })
}

func (u *undrain) run(ctx context.Context, look *inspector) error {
	done, lines := drained{Bucket: u.bucket}, []string(nil)
	members, unread := u.members(ctx, look)
	if u.only != "" && unread != nil {
		return unread
	}
	if u.only == "" {
		names, was, err := u.uncordon(ctx, look, members, unread)
		if err != nil {
			return err
		}
		if done.Cordoned = append([]string{}, names...); len(was) > 0 {
			lines = append(lines, "no longer cordoned: "+someNames(was))
		}
	}
	for _, m := range members {
		of, more, err := m.release(ctx, look)
		done.Groups, lines, unread = append(done.Groups, of), append(lines, more...), cmp.Or(unread, err)
	}
	if unread != nil {
		unread = fmt.Errorf("members of groups may be drained still, so ask once more: %w", unread)
	}
	if len(lines) == 0 && !u.asJSON {
		return unread
	}
	return cmp.Or(printResult(u.out(), u.asJSON, done, lines), unread)
}

// members returns the members that are meant, and why the first group was not read.
func (u *undrain) members(ctx context.Context, look *inspector) (all []*membersOf, unread error) {
	for _, name := range u.names {
		if u.only == "" {
			more, err := u.onHost(ctx, look, name, func(p memberSummary) bool { return p.State == memberDrained })
			all, unread = append(all, more...), cmp.Or(unread, err)
			continue
		}
		m, err := u.inGroup(ctx, look, u.only, name)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, unread
}

// uncordon ends the cordon of the names that have one. A name needs a cordon, or a member that is drained.
func (u *undrain) uncordon(ctx context.Context, look *inspector, members []*membersOf, unread error) (names, was []string, err error) {
	names, err = look.recordon(ctx, func(names []string) ([]string, error) {
		was = nil
		for _, name := range u.names {
			on := func(p memberSummary) bool { return records.OnHost(p.ID, name) }
			switch {
			case slices.Contains(names, name):
				was = append(was, name)
			case unread == nil && !slices.ContainsFunc(members, func(m *membersOf) bool { return slices.ContainsFunc(m.chosen, on) }):
				return names, exitf(exitFailed, "%s is not cordoned in bucket %s, and has no drained member; nothing was changed", printable(name), u.bucket)
			}
		}
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(was, name) }), nil
	})
	return names, was, err
}

// membersOf are the members of one group that an act means.
type membersOf struct {
	of     *sharing
	chosen []memberSummary
}

// inGroup returns the members of a group with the ID, or on the host.
func (g *globals) inGroup(ctx context.Context, look *inspector, of, name string) (*membersOf, error) {
	m := &membersOf{of: &sharing{group: of, only: -1}}
	err := m.of.read(ctx, look)
	m.choose(name, func(memberSummary) bool { return true })
	if err == nil && len(m.chosen) == 0 {
		err = exitf(exitFailed, "no member of group %s has the ID %s or is on a host of that name", printable(of), printable(name))
	}
	return m, err
}

// choose chooses the members with the ID, or on the host, that are wanted.
func (m *membersOf) choose(name string, wanted func(memberSummary) bool) {
	for _, p := range m.of.members() {
		if records.OnHost(p.ID, name) && wanted(p) {
			m.chosen = append(m.chosen, p)
		}
	}
}

// onHost returns, of each group, the members with the ID, or on the host, that are wanted, and why the first group was not read.
func (g *globals) onHost(ctx context.Context, look *inspector, name string, wanted func(memberSummary) bool) (all []*membersOf, err error) {
	keys, err := answer(ctx, look, look.all)
	if err != nil {
		return nil, err
	}
	_, groups := withoutGroups(keys)
	for _, of := range groups {
		m := &membersOf{of: &sharing{group: of, only: -1}}
		if unread := m.of.read(ctx, look); unread != nil {
			err = cmp.Or(err, fmt.Errorf("group %s: %w", printable(of), unread))
			continue
		}
		if m.choose(name, wanted); len(m.chosen) > 0 {
			all = append(all, m)
		}
	}
	return all, err
}

// drainedGroup is what a drain or its end has changed in a group.
type drainedGroup struct {
	Group   string          `json:"group"`
	Members []drainedMember `json:"members"`
	Without int             `json:"without_owner,omitempty"` // of a plan: how many shards the other members do not take
}

type drainedMember struct {
	ID     string `json:"id"`
	Shards int    `json:"shards,omitempty"` // that it had
	State  string `json:"state,omitempty"`  // memberDrained: it has given them up; memberLeft or memberGone: others have got them
}

// request asks the members to give up their shards.
func (m *membersOf) request(ctx context.Context, look *inspector) error {
	for _, p := range m.chosen {
		if err := look.within(ctx, func(ctx context.Context) error { return shard.Drain(ctx, look.bucket, m.of.group, p.ID) }); err != nil {
			return err
		}
	}
	return nil
}

// emptied waits until the members that were asked have given up their shards. It returns the outcome, also in words.
func (m *membersOf) emptied(ctx context.Context, look *inspector, name string, wait time.Duration) (done drainedGroup, lines []string, err error) {
	ids := make(map[string]bool)
	for _, p := range m.chosen {
		ids[p.ID] = true
	}
	var left []int
	x := m.of
	if err := x.until(ctx, look, wait, func() (bool, error) {
		left = left[:0]
		for i, o := range x.view.Owners {
			if ids[o.ID] || ids[o.From] {
				left = append(left, i)
			}
		}
		for _, w := range x.late() {
			if ids[w.ID] {
				left = append(left, w.Shards...)
			}
		}
		slices.Sort(left)
		left = slices.Compact(left)
		return len(left) == 0, nil
	}, func() (what, why string) {
		return fmt.Sprintf("%d shards of group %s have not left %s", len(left), x.group, printable(name)), "the work on " + group.Ranges(left) + " has not ended"
	}); err != nil {
		return done, nil, err
	}
	done.Group = x.group
	now := x.members()
	for _, p := range m.chosen {
		n, state := len(p.Shards), memberGone // if it is no member any more
		if i := slices.IndexFunc(now, func(o memberSummary) bool { return o.ID == p.ID }); i >= 0 {
			state = now[i].State
		}
		line := fmt.Sprintf("group %s: %s is drained: it has given up %s", x.group, printable(p.ID), plural(n, "shard"))
		if isPast(state) {
			line = fmt.Sprintf("group %s: %s is no member any more: others take its %d shards, as far as they have room", x.group, printable(p.ID), n)
		} else {
			state = memberDrained
		}
		done.Members = append(done.Members, drainedMember{p.ID, n, state})
		lines = append(lines, line)
	}
	return done, lines, nil
}

// release lets members take shards again.
func (m *membersOf) release(ctx context.Context, look *inspector) (done drainedGroup, lines []string, err error) {
	done.Group = m.of.group
	for _, p := range m.chosen {
		if err := look.within(ctx, func(ctx context.Context) error { return shard.Undrain(ctx, look.bucket, done.Group, p.ID) }); err != nil {
			return done, lines, err
		}
		done.Members = append(done.Members, drainedMember{ID: p.ID})
		lines = append(lines, fmt.Sprintf("group %s: %s may take shards", done.Group, printable(p.ID)))
	}
	return done, lines, nil
}

// shortage says how many shards would have no owner without the chosen members, also in words.
func (x *sharing) shortage(chosen []memberSummary) (without int, why string) {
	if !slices.ContainsFunc(chosen, func(c memberSummary) bool { return c.State == memberLives || len(c.Shards) > 0 }) {
		return 0, "" // nothing is taken
	}
	room, all := 0, len(x.view.Owners)
	for _, m := range x.members() {
		switch {
		case m.State != memberLives || slices.ContainsFunc(chosen, func(c memberSummary) bool { return c.ID == m.ID }):
		case m.Most == 0:
			room = all
		default:
			room += m.Most
		}
	}
	if room >= all {
		return 0, ""
	}
	return all - room, fmt.Sprintf("the other members of group %s take %d of %d shards, so %d would have no owner", x.group, room, all, all-room)
}
