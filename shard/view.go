package shard

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

// View is what the store shows of a group. It is not to be changed.
type View struct {
	Owners   []Owner       // by the number of the shard; empty if there is no group
	Members  []Peer        // by ID, those that are gone and still have shards included
	Assigner leader.Holder // of the election whose leader spreads the shards
	Lost     []int         // the shards of which no owner is known, because their part of the map is missing or damaged
}

// Owner is the member that a shard is granted to.
type Owner struct {
	State OwnerState
	ID    string // empty without an owner
	Token uint64 // of the grant
	Value []byte // that the member publishes; nil if it publishes none, or is gone
	From  string // the member whose work has to end first; empty if there is none
}

// OwnerState says whether the owner of a shard works on it.
type OwnerState uint8

// The states of an owner.
const (
	OwnerNone    OwnerState = iota // the shard has no owner
	OwnerWaits                     // until the work of another member has ended
	OwnerGranted                   // it lives, and has not begun the work for a lease, or no call of Serve takes shards
	OwnerWorks                     // or is about to begin
	OwnerIsGone                    // its term is over, and the shard is to be granted to another
)

// String returns a word for a log.
func (s OwnerState) String() string {
	if int(s) < len(ownerStates) {
		return ownerStates[s]
	}
	return fmt.Sprintf("OwnerState(%d)", uint8(s))
}

var ownerStates = [...]string{OwnerNone: "none", OwnerWaits: "waits", OwnerGranted: "granted", OwnerWorks: "works", OwnerIsGone: "gone"}

// Peer is a member of a group, as the store shows it.
type Peer struct {
	ID           string
	Value        []byte
	Program      string // see [Config]; empty if the member does not publish it
	Weight, Most int
	Hold         time.Duration
	Shards       int           // that are granted to it, in whichever state
	Leaves       bool          // it gives up its shards because it stops
	Drained      bool          // by [Drain]
	Late         []int         // the shards on which its work goes on after GracePeriod, as it last published
	Holder       leader.Holder // of the member's election
}

// Lookup reads once which members own the shards of a group. One read cannot show whether the lease of an owner is
// still valid: use [Observe]. It sends a request for each page of 1,000 shards and each member. Errors: [ErrNoGroup],
// [leader.ErrForeignRecord] for a group that this program does not know to read, and those of every [leader.Store].
func Lookup(ctx context.Context, store leader.Store, name string) (View, error) {
	port, err := openStore(store, name)
	if err != nil {
		return View{}, err
	}
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	s := sights{name: name, holders: make(map[string]leader.Holder)}
	if s.registry, _, err = readRegistry(ctx, port, name); err != nil {
		return View{}, err
	}
	pages := make([]backend.Entry, s.registry.Pages())
	var reads errgroup.Group
	reads.SetLimit(lookups)
	for i := range pages {
		reads.Go(func() (err error) {
			pages[i], err = get(ctx, port, group.PageKey(name, i))
			return err
		})
	}
	reads.Go(func() (err error) {
		s.assigner, err = leader.Lookup(ctx, store, group.AssignerKey(name))
		return err
	})
	if err := reads.Wait(); err != nil {
		return View{}, err
	}
	s.take(pages)
	var mu sync.Mutex
	for id := range s.members() {
		reads.Go(func() error {
			h, err := leader.Lookup(ctx, store, group.MemberKey(name, id))
			mu.Lock()
			defer mu.Unlock()
			s.holders[id] = h
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return View{}, err
	}
	return s.view(), nil
}

// viewOf returns what entries show of a group, of which all have been read.
func viewOf(name string, entry func(key string) backend.Entry, holder func(election string) leader.Holder) View {
	s := sights{name: name, assigner: holder(group.AssignerKey(name)), holders: make(map[string]leader.Holder)}
	var err error
	if s.registry, err = group.DecodeRegistry(entry(group.RegistryKey(name)).Value); err != nil {
		return View{Assigner: s.assigner}
	}
	pages := make([]backend.Entry, s.registry.Pages())
	for i := range pages {
		pages[i] = entry(group.PageKey(name, i))
	}
	s.take(pages)
	for id := range s.members() {
		s.holders[id] = holder(group.MemberKey(name, id))
	}
	return s.view()
}

// lookups is how many requests of a Lookup are under way at once.
const lookups = 16

// Observe reports on a channel which members own the shards of a group: at once when it is known, even if there is no
// such group, and again whenever it changes, until ctx ends or the application closes the connection. Then the channel
// is closed. A slow reader gets the newest view. While the store cannot be reached, Observe tries again. It never
// writes. Errors: [leader.ErrInvalidConfig].
func Observe(ctx context.Context, store leader.Store, name string) (<-chan View, error) {
	port, err := openStore(store, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{
		stored: stored{name: name, port: port}, store: store, ctx: ctx, rings: make(bell, 1), holders: make(map[string]leader.Holder),
		ends: make(map[string]context.CancelFunc),
	}
	assigner, err := leader.Observe(ctx, store, group.AssignerKey(name))
	if err != nil {
		cancel()
		return nil, err
	}
	views := make(chan View)
	go func() {
		defer close(views)
		defer cancel()
		o.run(assigner, views)
	}()
	return views, nil
}

// observer follows what the store shows of a group.
type observer struct {
	stored
	store    leader.Store
	ctx      context.Context //nolint:containedctx // until which it follows
	rings    bell
	assigner *leader.Holder
	pages    []*follower
	left     context.CancelFunc // ends the following of the pages
	ends     map[string]context.CancelFunc

	mu      sync.Mutex
	holders map[string]leader.Holder // of the elections of the members, once they are known
}

func (o *observer) run(assigner <-chan leader.Holder, views chan<- View) {
	roll := followMap(o.ctx, o.port, group.RegistryKey(o.name), rollAgain, o.rings)
	var newest View
	var out chan<- View // nil while there is nothing to send
	for first := true; ; {
		select {
		case h, open := <-assigner:
			if !open {
				return
			}
			o.assigner = &h
		case <-o.rings:
		case out <- newest:
			out = nil
			continue
		}
		if view, known := o.look(roll); known && (first || !reflect.DeepEqual(view, newest)) {
			newest, out, first = view, views, false
		}
	}
}

// look returns what is known, and whether that is all.
func (o *observer) look(roll *follower) (view View, known bool) {
	if known = roll.known(); !known || o.assigner == nil {
		return View{}, false
	}
	s := sights{name: o.name, assigner: *o.assigner, holders: make(map[string]leader.Holder)}
	var err error
	if s.registry, err = group.DecodeRegistry(roll.entry().Value); err != nil {
		return View{Assigner: s.assigner}, true
	}
	if o.layout != s.registry.Layout {
		if o.left != nil {
			o.left()
		}
		o.layout, o.pages = s.registry.Layout, nil
		var ctx context.Context
		ctx, o.left = context.WithCancel(o.ctx)
		for i := range o.layout.Pages() {
			o.pages = append(o.pages, followMap(ctx, o.port, group.PageKey(o.name, i), o.pageAgain(), o.rings))
		}
	}
	for i, revision := range publishedRevisions(o.layout, s.assigner) {
		o.pages[i].expect(revision)
	}
	pages := make([]backend.Entry, len(o.pages))
	for i, p := range o.pages {
		known = known && p.known()
		pages[i] = p.entry()
	}
	s.take(pages)
	members := s.members()
	for id, end := range o.ends {
		if !members[id] {
			end()
			delete(o.ends, id)
			o.mu.Lock()
			delete(o.holders, id)
			o.mu.Unlock()
		}
	}
	for id := range members {
		if o.ends[id] == nil {
			o.follow(id)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range members {
		h, isKnown := o.holders[id]
		known = known && isKnown
		s.holders[id] = h
	}
	return s.view(), known
}

// follow follows the election of a member.
func (o *observer) follow(id string) {
	var ctx context.Context
	ctx, o.ends[id] = context.WithCancel(o.ctx)
	holders, err := leader.Observe(ctx, o.store, group.MemberKey(o.name, id))
	if err != nil {
		return // the application has closed the connection
	}
	go func() {
		for h := range holders {
			o.mu.Lock()
			if ctx.Err() == nil {
				o.holders[id] = h
			}
			o.mu.Unlock()
			o.rings.ring()
		}
	}()
}

// sights are what was read of a group.
type sights struct {
	name     string
	registry group.Registry
	grants   []group.Grant
	bases    []uint64 // by the number of the page
	lost     []int    // the shards of pages that cannot be read
	assigner leader.Holder
	holders  map[string]leader.Holder // of the elections of the members, by ID
}

// take takes the pages. Of the shards of a page that is lost no owner is known: its members may work on.
func (s *sights) take(pages []backend.Entry) {
	for i, e := range pages {
		m, err := s.registry.DecodePage(i, e.Value, e.Revision)
		if err != nil {
			first, n := s.registry.Page(i)
			m.Grants = make([]group.Grant, n)
			for shard := range n {
				s.lost = append(s.lost, first+shard)
			}
		}
		s.grants, s.bases = append(s.grants, m.Grants...), append(s.bases, m.Base)
	}
}

// members returns the IDs of all that are members, or that the map names.
func (s *sights) members() map[string]bool {
	ids := make(map[string]bool)
	for _, m := range s.registry.Members {
		ids[m.ID] = true
	}
	for _, g := range s.grants {
		ids[g.Owner.ID], ids[g.Pred.ID] = true, true
	}
	maps.DeleteFunc(ids, func(id string, _ bool) bool { return id == "" || group.CheckKeys(s.name, id) != nil }) // no process can have it
	return ids
}

// termShown returns the newest term that the holder of the election of a member shows. A holder that has not led shows
// that of the last leader, if one is known.
func termShown(l group.Layout, h leader.Holder) term {
	revision, leads := h.Revision, h.State == leader.HolderLeading
	if !leads && h.Last != nil {
		h = *h.Last
	} else if !leads {
		h = leader.Holder{}
	}
	last := record.Last{ID: h.ID, Token: h.Token, Value: string(h.Value), Released: h.State == leader.HolderReleased}
	return termOf(l, last, leads, revision)
}

// view returns what the sights show.
func (s *sights) view() View {
	v := View{Assigner: s.assigner, Owners: make([]Owner, len(s.grants)), Lost: s.lost}
	terms, shards := make(map[string]term), make(map[string]int)
	for id, h := range s.holders {
		terms[id] = termShown(s.registry.Layout, h)
	}
	for i, g := range s.grants {
		page, o := i/s.registry.PageSize, &v.Owners[i]
		if pred, ok := terms[g.Pred.ID]; ok && !pred.standing(g.Pred).about(page).Freed(i%s.registry.PageSize, g.Since) {
			o.From = g.Pred.ID
		}
		if g.Owner == (group.Session{}) {
			continue
		}
		o.State, o.ID, o.Token = OwnerIsGone, g.Owner.ID, s.bases[page]+g.Since
		shards[o.ID]++
		if t := terms[o.ID]; t.leads && t.ID == o.ID && t.Token == g.Owner.Token {
			_, unbegun := slices.BinarySearch(t.published.Unbegun, i)
			o.State, o.Value = OwnerWorks, value(t.published)
			switch {
			case o.From != "":
				o.State = OwnerWaits
			case t.published.Idle, unbegun:
				o.State = OwnerGranted
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(terms)) {
		if shards[id] == 0 && !slices.ContainsFunc(s.registry.Members, func(m group.Session) bool { return m.ID == id }) {
			continue // the map names it as a predecessor
		}
		t := terms[id]
		m := Peer{ID: id, Shards: shards[id], Drained: slices.Contains(s.registry.Drained, id), Holder: s.holders[id]}
		if t.valid {
			p := t.published
			m.Value, m.Program, m.Weight, m.Most, m.Hold, m.Leaves, m.Late = value(p), p.Program, p.Weight, p.Most, p.Hold, p.Reports[0].Left, p.Late
		}
		v.Members = append(v.Members, m)
	}
	return v
}

// value returns the value of a member's application.
func value(p group.Published) []byte {
	if p.Value == "" {
		return nil
	}
	return []byte(p.Value)
}
