package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/choria-io/fisk"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
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

A bucket with a TTL would end the cordon: there it does not cordon, and --keep is refused.

The exit code is that of a new reading: 1 if a leader refuses or leads again, or the answer
is no; 64 if --yes is missing; 69 if a leader does not answer; and 124 if a leader or member
has not handed over in time: the request to a member stays.

  natsleader drain "$(hostname)"
  natsleader drain web-1 --dry-run
  natsleader drain web-1 --only orders`

// Drain is the act that takes all leaderships and shards from a process or a host.
type Drain struct {
	StepDown
	Name     string       // an ID or a host
	only     string       // a group; empty: all, and all elections
	keep     bool         // nothing is taken away
	Cordon   bool         // first
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

// RegisterDrain adds the command drain.
func RegisterDrain(app *fisk.Application, g *front.Globals) {
	d := &Drain{StepDown: StepDown{Globals: g, Tool: "drain"}}
	cmd := app.Command("drain", "Take leaderships and shards from a process or host").HelpLong(drainHelp)
	cmd.Arg("name", "ID, or the host name with which generated IDs begin").Required().HintAction(func() []string { return leaderIDs(g) }).StringVar(&d.Name)
	cmd.Flag("only", "Only its members of this group, without a cordon").PlaceHolder("GROUP").HintAction(func() []string { return view.GroupNames(g) }).StringVar(&d.only)
	cmd.Flag("keep", "Only cordon it, and take nothing away").UnNegatableBoolVar(&d.keep)
	var waits bool
	cmd.Flag("wait", "Longest time to wait until it has nothing").Default("30s").IsSetByUser(&waits).DurationVar(&d.Wait)
	cmd.Flag("dry-run", "Print what it would do").UnNegatableBoolVar(&d.dryRun)
	cmd.Flag("yes", "Do not ask for confirmation").Short('y').UnNegatableBoolVar(&d.Yes)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&d.asJSON)
	cmd.Action(func(*fisk.ParseContext) error {
		switch {
		case d.keep && d.only != "":
			return front.Usagef("--keep only cordons, and --only cordons nothing; nothing was done")
		case d.keep && (waits || d.Yes):
			return front.Usagef("--keep neither waits nor asks: it takes no --wait and --yes; nothing was done")
		}
		d.Cordon = d.only == ""
		return inspect.DoExisting(g, d.Run)
	})
}

// Run prints what was done for programs, also if something has failed.
func (d *Drain) Run(ctx context.Context, look *inspect.Inspector) error {
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
	return cmp.Or(front.PrintJSON(d.Out(), d.done, "  "), err)
}

func (d *Drain) whose() string { return front.Printable(d.Name) }

// onlyCordon cordons the name, or reads the cordon for a plan.
func (d *Drain) onlyCordon(ctx context.Context, look *inspect.Inspector) error {
	text, names := "cordoned in bucket "+d.Bucket+": "+d.whose(), []string(nil)
	var err error
	switch {
	case d.dryRun && look.TTL > 0:
		return front.Exitf(front.ExitFailed, "%s", d.noCordon(look))
	case d.dryRun:
		if names, _, err = look.Cordon(ctx); err == nil {
			text = d.wouldCordon(names)
		}
	default:
		names, err = d.recordon(ctx, look)
	}
	if err != nil {
		return err
	}
	d.done = &drained{Bucket: d.Bucket, DryRun: d.dryRun, Cordoned: append([]string{}, names...)}
	return d.tell(text)
}

func (d *Drain) recordon(ctx context.Context, look *inspect.Inspector) ([]string, error) {
	return look.Recordon(ctx, func(names []string) ([]string, error) { return append(names, d.Name), nil })
}

func (d *Drain) wouldCordon(names []string) string {
	if slices.Contains(names, d.Name) {
		return d.whose() + " is cordoned already"
	}
	return "would cordon " + d.whose() + " in bucket " + d.Bucket
}

// noCordon says why the name is not cordoned.
func (d *Drain) noCordon(look *inspect.Inspector) string {
	return fmt.Sprintf("%s is not cordoned, because bucket %s drops its keys after %v", d.whose(), d.Bucket, look.TTL)
}

// tell prints lines for people.
func (d *Drain) tell(lines ...string) error {
	if d.asJSON || len(lines) == 0 {
		return nil
	}
	return front.PrintLines(d.Out(), lines)
}

// askAll carries out the plan: what it has read before it changes anything. A group that was not read keeps no election from
// being handed over.
func (d *Drain) askAll(ctx context.Context, look *inspect.Inspector) error {
	began := time.Now()
	limited, cancel := context.WithDeadline(ctx, began.Add(d.Wait))
	defer cancel()
	led, soon, unread, err := d.plan(ctx, look)
	if err != nil {
		return err
	}
	if d.dryRun {
		return cmp.Or(d.show(look, led, soon), unread)
	}
	if err := d.confirmShortage(); err != nil {
		return err
	}
	switch {
	case d.Cordon && look.TTL > 0:
		_, _ = fmt.Fprintf(d.Errs(), "natsleader: %s: stop its processes soon\n", d.noCordon(look))
	case d.Cordon:
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
		return cmp.Or(unread, d.awaitMembers(ctx, look, began.Add(d.Wait)))
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
			return front.Exitf(front.ExitWaited, "%s still has the key of %s after %v", d.whose(), inspect.ShortList(soon), d.Wait)
		case len(led) == 0:
			members := d.awaitMembers(ctx, look, began.Add(d.Wait))
			owned, unseen := d.owned(ctx, look)
			return d.end(all, again, owned, cmp.Or(unread, members, unseen))
		case limited.Err() != nil:
			return front.Exitf(front.ExitWaited, "%s still leads %s after %v", d.whose(), inspect.ShortList(led), d.Wait)
		}
		d.pass(limited, look.Bucket, led, all)
	}
}

// timeToHear is how long candidates have to hear of their cordon before leaders hand over. One that has not heard of it may
// follow a leader of its own host, and is asked next.
const timeToHear = 100 * time.Millisecond

// plan reads what the drain will change, and why the first group was not read.
func (d *Drain) plan(ctx context.Context, look *inspect.Inspector) (led, soon []facts.ElectionStatus, unread, err error) {
	d.done = &drained{Bucket: d.Bucket, DryRun: d.dryRun}
	if d.only != "" {
		var m *membersOf
		m, err = inGroup(ctx, look, d.only, d.Name)
		d.members = []*membersOf{m}
		return nil, nil, nil, err
	}
	if led, _, soon, err = d.led(ctx, look, nil); err != nil {
		return nil, nil, nil, err
	}
	names, err := inspect.CordonOf(look.Cordoned)
	if err != nil && d.Cordon {
		_, _, err = look.Cordon(ctx) // which names the remedy
		return nil, nil, nil, err
	}
	d.done.Cordoned = append([]string{}, names...)
	// One that is gone may keep shards for its Hold.
	if d.Cordon {
		d.members, unread = onHost(ctx, look, d.Name, func(p view.MemberSummary) bool { return !facts.MemberPast(p.State) || len(p.Shards) > 0 })
	}
	return led, soon, unread, nil
}

// show prints the plan.
func (d *Drain) show(look *inspect.Inspector, led, soon []facts.ElectionStatus) error {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch {
	case d.Cordon && look.TTL > 0:
		say("%s", d.noCordon(look))
	case d.Cordon:
		say("%s", d.wouldCordon(d.done.Cordoned))
	}
	for _, x := range led {
		d.done.Elections = append(d.done.Elections, handover{Election: x.Election, From: &leaderSummary{x.Holder.ID, x.Holder.Token}})
		say("%s", wouldAsk(x))
	}
	for _, x := range soon {
		say("would wait for %s, which has the key of %s and does not lead yet", front.Printable(x.Holder.ID), x.Election)
	}
	for _, m := range d.members {
		without, why := Shortage(m.of, m.chosen)
		of := drainedGroup{Group: m.of.Group, Without: without}
		for _, p := range m.chosen {
			of.Members = append(of.Members, drainedMember{p.ID, len(p.Shards), p.State})
			if p.State == facts.MemberDrained && len(p.Shards) == 0 {
				say("%s of group %s is drained already", front.Printable(p.ID), m.of.Group)
				continue
			}
			say("would drain %s of group %s, which has %s", front.Printable(p.ID), m.of.Group, front.Plural(len(p.Shards), "shard"))
		}
		if d.done.Groups = append(d.done.Groups, of); why != "" {
			say("%s", why)
		}
	}
	return d.tell(lines...)
}

// confirmShortage asks for confirmation if the other members of a group do not take all shards.
func (d *Drain) confirmShortage() error {
	var all []string
	for _, m := range d.members {
		if _, why := Shortage(m.of, m.chosen); why != "" {
			all = append(all, why)
		}
	}
	switch {
	case len(all) == 0:
		return nil
	case d.Yes:
		_, _ = fmt.Fprintf(d.Errs(), "natsleader: %s\n", strings.Join(all, "; "))
		return nil
	case !d.CanAsk():
		return front.Usagef("%s, and standard input is no terminal: --yes drains all the same; nothing was done", strings.Join(all, "; "))
	}
	out := d.WordsOf(d.asJSON)
	for _, why := range all {
		out.Say("%s.", strings.ToUpper(why[:1])+why[1:])
	}
	return out.Confirm(false, "Drain?", "nothing was done")
}

// asked is an election and a leader that was asked. The leader is asked once: a candidate
// that leads again would go on forever where no other candidate stands. Another candidate on
// the same host may follow it, and is asked next. And a candidate that hands over may win
// another election meanwhile.
type asked struct{ election, id string }

func askedOf(x facts.ElectionStatus) asked { return asked{x.Election, x.Holder.ID} }

// led reads the elections of the leaders that are meant. again are those whose leaders were asked before. soon are those
// of which a cordoned candidate has the key already: it keeps that, and leads soon.
func (d *Drain) led(ctx context.Context, look *inspect.Inspector, done map[asked]error) (led, again, soon []facts.ElectionStatus, err error) {
	all, err := inspect.Answer(ctx, look, look.All)
	if names, _ := inspect.CordonOf(look.Cordoned); !d.cordoned {
		_, d.cordoned = records.Cordoned(names, d.Name)
	}
	now := look.Clock.Now()
	elections, _ := inspect.WithoutGroups(all) // without its own key a member loses all shards, and gets them again
	for _, x := range elections {
		st := x.At(now)
		if !st.Held() || !records.OnHost(x.Holder.ID, d.Name) || inspect.CheckElection(x.Election) != nil {
			continue
		}
		switch _, before := done[askedOf(x)]; {
		case st == facts.Pending && (d.cordoned || d.Cordon):
			soon = append(soon, x)
		case st == facts.Pending:
		case before:
			again = append(again, x)
		default:
			led = append(led, x)
		}
	}
	return led, again, soon, err
}

// MostAtOnce bounds the requests under way: a process may lead thousands of elections.
const MostAtOnce = 64

// pass asks for each election, and prints the outcomes as they come.
func (d *Drain) pass(ctx context.Context, bucket *leader.Bucket, led []facts.ElectionStatus, done map[asked]error) {
	var all errgroup.Group
	all.SetLimit(MostAtOnce)
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
				_, _ = fmt.Fprintf(d.Errs(), "natsleader: %s: %s\n", x.Election, front.ErrorText(err))
			}
			return nil // one failure ends no other request
		})
	}
	_ = all.Wait()
}

// end sums up. owned are the shards that it has still, and members is why those that were drained have some. Of several failures
// the greatest exit code counts: 124 and 69 name a leader that may still hand over, 1 names one that does not.
func (d *Drain) end(done map[asked]error, again []facts.ElectionStatus, owned string, members error) error {
	code, failed := 0, 0
	for _, err := range done {
		if err != nil {
			code, failed = max(code, front.CodeOf(err)), failed+1
		}
	}
	switch {
	case members != nil && d.Cordon && front.CodeOf(members) >= code:
		return members
	case failed > 0:
		return front.Exitf(code, "%d of %d leaders have not handed over", failed, len(done))
	case len(again) > 0:
		return front.Exitf(front.ExitFailed, "%s leads again, since no other candidate took over: %s", d.whose(), inspect.ShortList(again))
	case d.Cordon && owned != "":
		return front.Exitf(front.ExitFailed, "%s owns %s: a member has joined meanwhile", d.whose(), owned)
	}
	text := d.whose() + " leads nothing in bucket " + d.Bucket
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
		text += "; it is not known whether it owns shards: " + front.ErrorText(members)
	}
	return d.tell(text)
}

// leaderIDs completes the ID of a leader.
func leaderIDs(g *front.Globals) []string {
	return inspect.Complete(g, "leaders", func(ctx context.Context, s *inspect.Inspector) ([]string, error) {
		all, err := s.All(ctx)
		var ids []string
		for _, x := range all {
			if x.Holder.State == leader.HolderLeading && unquoted(x.Holder.ID) {
				ids = append(ids, x.Holder.ID)
			}
		}
		slices.Sort(ids)
		return slices.Compact(ids), err
	})
}

// awaitMembers waits until the members that were asked have given up their shards, and returns the first error. It looks at each
// group once, however late it is.
func (d *Drain) awaitMembers(ctx context.Context, look *inspect.Inspector, by time.Time) error {
	if once := time.Now().Add(look.Limit); by.Before(once) {
		by = once
	}
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	var failed error
	for _, m := range d.members {
		done, lines, err := m.emptied(ctx, look, d.Name, d.Wait)
		if err == nil {
			d.done.Groups = append(d.done.Groups, done)
			err = d.tell(lines...)
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

// owned says which groups have members that are meant and own shards, or nothing.
func (d *Drain) owned(ctx context.Context, look *inspect.Inspector) (string, error) {
	all, err := onHost(ctx, look, d.Name, func(p view.MemberSummary) bool { return len(p.Shards) > 0 })
	var texts []string
	for _, m := range all {
		n := 0
		for _, p := range m.chosen {
			n += len(p.Shards)
		}
		texts = append(texts, fmt.Sprintf("%s of group %s", front.Plural(n, "shard"), m.of.Group))
	}
	return front.Some(texts), err
}

const undrainHelp = `It ends the cordon of a name, and lets its drained members of groups take shards again. A
candidate that waits for a free key takes it at once. It does not wait until a member has
shards. With --only it lets the members of one group take shards again, and leaves the
cordon as it is.

The exit code is 1 if a name is not cordoned and has no drained member; then nothing is changed.

  natsleader undrain "$(hostname)"`

// Undrain is the act that ends a drain.
type Undrain struct {
	*front.Globals
	Names  []string
	only   string
	asJSON bool
}

// RegisterUndrain adds the command undrain.
func RegisterUndrain(app *fisk.Application, g *front.Globals) {
	u := &Undrain{Globals: g}
	cmd := app.Command("undrain", "Let a process or host take elections and shards again").HelpLong(undrainHelp)
	cmd.Arg("name", "ID or host").Required().HintAction(func() []string { return cordonedNames(g) }).StringsVar(&u.Names)
	cmd.Flag("only", "Only the members of this group").PlaceHolder("GROUP").HintAction(func() []string { return view.GroupNames(g) }).StringVar(&u.only)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&u.asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return inspect.DoExisting(g, u.Run) })
}

// Run ends the cordon of the names, and undrains the members that they name.
func (u *Undrain) Run(ctx context.Context, look *inspect.Inspector) error {
	done, lines := drained{Bucket: u.Bucket}, []string(nil)
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
			lines = append(lines, "no longer cordoned: "+front.SomeNames(was))
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
	return cmp.Or(front.PrintResult(u.Out(), u.asJSON, done, lines), unread)
}

// members returns the members that are meant, and why the first group was not read.
func (u *Undrain) members(ctx context.Context, look *inspect.Inspector) (all []*membersOf, unread error) {
	for _, name := range u.Names {
		if u.only == "" {
			more, err := onHost(ctx, look, name, func(p view.MemberSummary) bool { return p.Drained })
			all, unread = append(all, more...), cmp.Or(unread, err)
			continue
		}
		m, err := inGroup(ctx, look, u.only, name)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, unread
}

// uncordon ends the cordon of the names that have one. A name needs a cordon, or a member that is drained.
func (u *Undrain) uncordon(ctx context.Context, look *inspect.Inspector, members []*membersOf, unread error) (names, was []string, err error) {
	names, err = look.Recordon(ctx, func(names []string) ([]string, error) {
		was = nil
		for _, name := range u.Names {
			on := func(p view.MemberSummary) bool { return records.OnHost(p.ID, name) }
			switch {
			case slices.Contains(names, name):
				was = append(was, name)
			case unread == nil && !slices.ContainsFunc(members, func(m *membersOf) bool { return slices.ContainsFunc(m.chosen, on) }):
				return names, front.Exitf(front.ExitFailed, "%s is not cordoned in bucket %s, and has no drained member; nothing was changed", front.Printable(name), u.Bucket)
			}
		}
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(was, name) }), nil
	})
	return names, was, err
}

// membersOf are the members of one group that an act means.
type membersOf struct {
	of     *view.Sharing
	chosen []view.MemberSummary
}

// inGroup returns the members of a group with the ID, or on the host.
func inGroup(ctx context.Context, look *inspect.Inspector, of, name string) (*membersOf, error) {
	m := &membersOf{of: &view.Sharing{Group: of, Only: -1}}
	err := cmp.Or(m.of.Read(ctx, look), m.of.Known())
	m.choose(name, func(view.MemberSummary) bool { return true })
	if err == nil && len(m.chosen) == 0 {
		err = noMember(ctx, look, of, name)
	}
	return m, err
}

// noMember is the error for a name that no member of a group has, or none any more: the key of one that is gone stays.
func noMember(ctx context.Context, look *inspect.Inspector, of, name string) error {
	who := front.Printable(name)
	e, err := inspect.Answer(ctx, look, func(ctx context.Context) (facts.ElectionStatus, error) {
		return look.One(ctx, group.MemberKey(of, name))
	})
	switch {
	case err == nil && e.At(look.Clock.Now()).Held() && !facts.Takes(e.Election, e.Holder.ID):
		return front.Exitf(front.ExitFailed, "%s holds its key, and the map of group %s does not name it yet", who, front.Printable(of))
	case err == nil && e.Entry.Revision > 0 && !e.Entry.Marker && e.Member() == facts.MemberLeft:
		return front.Exitf(front.ExitFailed, "%s has left group %s, and has no shards", who, front.Printable(of))
	case err == nil && e.Entry.Revision > 0 && !e.Entry.Marker:
		return front.Exitf(front.ExitFailed, "%s is gone: its lease is over, and it is no member of group %s any more", who, front.Printable(of))
	}
	return front.Exitf(front.ExitFailed, "no member of group %s has the ID %s or is on a host of that name", front.Printable(of), who)
}

// choose chooses the members with the ID, or on the host, that are wanted.
func (m *membersOf) choose(name string, wanted func(view.MemberSummary) bool) {
	for _, p := range m.of.Members() {
		if records.OnHost(p.ID, name) && wanted(p) {
			m.chosen = append(m.chosen, p)
		}
	}
}

// onHost returns, of each group, the members with the ID, or on the host, that are wanted, and why the first group was not read.
func onHost(ctx context.Context, look *inspect.Inspector, name string, wanted func(view.MemberSummary) bool) (all []*membersOf, err error) {
	keys, err := inspect.Answer(ctx, look, look.All)
	if err != nil {
		return nil, err
	}
	_, groups := inspect.WithoutGroups(keys)
	for _, of := range groups {
		m := &membersOf{of: &view.Sharing{Group: of, Only: -1}}
		unread := cmp.Or(m.of.Read(ctx, look), m.of.Known())
		lost := new(front.ExitError)
		if errors.Is(unread, shard.ErrNoGroup) && !errors.As(unread, lost) {
			unread = nil // only the key of a dead assigner is left of it
		}
		if unread != nil {
			err = cmp.Or(err, fmt.Errorf("group %s: %w", front.Printable(of), unread))
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
	State  string `json:"state,omitempty"`  // facts.MemberDrained: it has given them up; facts.MemberLeft or facts.MemberGone: others have got them
}

// request asks the members to give up their shards, and returns the first error. The group may have removed one whose term
// was over.
func (m *membersOf) request(ctx context.Context, look *inspect.Inspector) (failed error) {
	for _, p := range m.chosen {
		err := look.Within(ctx, func(ctx context.Context) error { return shard.Drain(ctx, look.Bucket, m.of.Group, p.ID) })
		if !errors.Is(err, shard.ErrNoMember) || !facts.MemberPast(p.State) {
			failed = cmp.Or(failed, err)
		}
	}
	return failed
}

// emptied waits until the members that were asked have given up their shards. It returns the outcome, also in words.
func (m *membersOf) emptied(ctx context.Context, look *inspect.Inspector, name string, wait time.Duration) (done drainedGroup, lines []string, err error) {
	ids := make(map[string]bool)
	for _, p := range m.chosen {
		ids[p.ID] = true
	}
	var left []int
	var again []string // members that take shards: the request is not seen yet, or does not hold any more
	x := m.of
	if err := until(ctx, x, look, wait, func() (bool, error) {
		left = append(left[:0], x.View.Lost...) // which they may have
		for i, o := range x.View.Owners {
			if ids[o.ID] || ids[o.From] {
				left = append(left, i)
			}
		}
		for _, w := range x.Late() {
			if ids[w.ID] {
				left = append(left, w.Shards...)
			}
		}
		slices.Sort(left)
		left = slices.Compact(left)
		again = again[:0]
		for _, p := range x.Members() {
			if ids[p.ID] && p.State == facts.MemberLives {
				again = append(again, p.ID)
			}
		}
		return len(left)+len(again) == 0, nil
	}, func() (what, why string) {
		if len(again) > 0 {
			return fmt.Sprintf("%s of group %s has not stayed drained", front.SomeNames(again), x.Group), "it has started anew, or was undrained"
		}
		return fmt.Sprintf("%d shards of group %s have not left %s", len(left), x.Group, front.Printable(name)),
			"the work on " + group.Ranges(left) + " has not ended; the request stays"
	}); err != nil {
		return done, nil, err
	}
	done.Group = x.Group
	now := x.Members()
	for _, p := range m.chosen {
		n, state := len(p.Shards), facts.MemberGone // if it is no member any more
		if i := slices.IndexFunc(now, func(o view.MemberSummary) bool { return o.ID == p.ID }); i >= 0 {
			state = now[i].State
		}
		line := fmt.Sprintf("group %s: %s is drained: it has given up %s", x.Group, front.Printable(p.ID), front.Plural(n, "shard"))
		if facts.MemberPast(state) {
			line = fmt.Sprintf("group %s: %s is no member any more: others take its %d shards, as far as they have room", x.Group, front.Printable(p.ID), n)
		} else {
			state = facts.MemberDrained
		}
		done.Members = append(done.Members, drainedMember{p.ID, n, state})
		lines = append(lines, line)
	}
	return done, lines, nil
}

// release lets members take shards again.
func (m *membersOf) release(ctx context.Context, look *inspect.Inspector) (done drainedGroup, lines []string, err error) {
	done.Group = m.of.Group
	for _, p := range m.chosen {
		if failed := look.Within(ctx, func(ctx context.Context) error { return shard.Undrain(ctx, look.Bucket, done.Group, p.ID) }); failed != nil {
			err = cmp.Or(err, failed)
			continue
		}
		done.Members = append(done.Members, drainedMember{ID: p.ID})
		lines = append(lines, fmt.Sprintf("group %s: %s may take shards", done.Group, front.Printable(p.ID)))
	}
	return done, lines, err
}

// Shortage says how many shards would have no owner without the chosen members, also in words.
func Shortage(x *view.Sharing, chosen []view.MemberSummary) (without int, why string) {
	if !slices.ContainsFunc(chosen, func(c view.MemberSummary) bool { return c.State == facts.MemberLives || len(c.Shards) > 0 }) {
		return 0, "" // nothing is taken
	}
	room, all := 0, len(x.View.Owners)
	for _, m := range x.Members() {
		switch {
		case m.State != facts.MemberLives || slices.ContainsFunc(chosen, func(c view.MemberSummary) bool { return c.ID == m.ID }):
		case m.Most == 0:
			room = all
		default:
			room += m.Most
		}
	}
	if room >= all {
		return 0, ""
	}
	return all - room, fmt.Sprintf("the other members of group %s take %d of %d shards, so %d would have no owner", x.Group, room, all, all-room)
}
