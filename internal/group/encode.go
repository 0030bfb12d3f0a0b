package group

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

const (
	// Format is the format of the stored values that this version writes.
	Format = 1
	// MaxPages is the greatest number of pages of a group. A member publishes a revision for each.
	MaxPages = 100
	// MaxPageSize is the greatest number of shards on a page.
	MaxPageSize = 1000
	// MaxMembers is the greatest number of members of a group.
	MaxMembers = 2000
	// MaxAsked is the greatest number of shards that operators have asked to move and that have not moved.
	MaxAsked = 1000
	// MaxLate is the greatest number of shards that a member names whose work goes on too long.
	MaxLate = 1000
	// MaxProgram is the greatest length of the name of a program, in bytes.
	MaxProgram = 256
	// maxPrograms is how many programs an assigner names.
	maxPrograms = 8
	// MaxWeight is the greatest weight of a member.
	MaxWeight = 1_000_000
	// MaxHold bounds for how long a damaged value can keep shards without an owner.
	MaxHold = wire.MostMaxLease
	// maxUnbegun bounds the ranges of shards that have not begun: a member publishes more that matters.
	maxUnbegun = 4 << 10
	// maxSize is more than the size of any page or registry: it has up to 2,000 sessions, and JSON turns
	// one byte of an ID into six at most.
	maxSize = 4 << 20
)

var (
	// ErrForeign is the error for a stored value that no member has written.
	ErrForeign = errors.New("not written by a member of a group")
	// ErrLaterFormat is the error for a stored value whose format this version does not know.
	ErrLaterFormat = errors.New("written by a later version")
)

// Layout is how many shards a group has, and how they are put on pages. It is fixed by the first member.
type Layout struct {
	Shards   int `json:"shards"`
	PageSize int `json:"page"` // shards on each page but the last
}

// Pages returns the number of pages.
func (l Layout) Pages() int { return (l.Shards + l.PageSize - 1) / l.PageSize }

// Page returns the first shard of a page, and how many it has.
func (l Layout) Page(page int) (first, n int) {
	first = page * l.PageSize
	return first, min(l.PageSize, l.Shards-first)
}

// check returns an error if no group has this layout.
func (l Layout) check() error {
	switch {
	case l.PageSize < 1 || l.PageSize > MaxPageSize:
		return fmt.Errorf("%w: pages of %d shards", ErrForeign, l.PageSize)
	case l.Shards < 1 || l.Shards > MaxPages*l.PageSize:
		return fmt.Errorf("%w: %d shards on pages of %d", ErrForeign, l.Shards, l.PageSize)
	}
	return nil
}

// check returns an error if no member has this session.
func (s Session) check() error {
	switch {
	case s.ID == "" || len(s.ID) > record.MaxID:
		return fmt.Errorf("%w: ID of %d bytes", ErrForeign, len(s.ID))
	case s.Token == 0 || s.Token > record.LastToken:
		return fmt.Errorf("%w: token %d of %q", ErrForeign, s.Token, s.ID)
	}
	return nil
}

// Registry is what all members of a group agree on.
type Registry struct {
	Layout
	// Base is added to the revision of a grant for the token of the shard. Unix microseconds of the first
	// member let tokens rise when the bucket is deleted and made again.
	Base    uint64         `json:"base"`
	Members []Session      `json:"members"`
	Drained []string       `json:"drained,omitempty"` // IDs of members that operators want to have no shards
	Asked   map[int]string `json:"asked,omitempty"`   // see Assigner
}

// Encode returns the registry as JSON.
func (r Registry) Encode() []byte {
	r.Members = append([]Session{}, r.Members...) // [] and not null
	return encode(struct {
		Format int `json:"v"`
		Registry
	}{Format, r})
}

// DecodeRegistry decodes a registry.
func DecodeRegistry(value []byte) (Registry, error) {
	var r Registry
	err := decode(value, maxSize, &r)
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return Registry{}, err
	}
	// A list that is empty, null or missing is one and the same.
	if r.Members == nil {
		r.Members = []Session{}
	}
	if len(r.Drained) == 0 {
		r.Drained = nil
	}
	if len(r.Asked) == 0 {
		r.Asked = nil
	}
	return r, nil
}

// check returns an error if no group has this registry.
func (r *Registry) check() error {
	switch err := r.Layout.check(); {
	case err != nil:
		return err
	case r.Base > record.MaxMinToken:
		return fmt.Errorf("%w: base %d", ErrForeign, r.Base)
	case len(r.Members) > MaxMembers:
		return fmt.Errorf("%w: %d members", ErrForeign, len(r.Members))
	case len(r.Drained) > MaxMembers || len(r.Asked) > MaxAsked:
		return fmt.Errorf("%w: %d drained members, %d shards asked for", ErrForeign, len(r.Drained), len(r.Asked))
	}
	for i := range r.Asked {
		if i < 0 || i >= r.Shards {
			return fmt.Errorf("%w: shard %d of %d is asked for", ErrForeign, i, r.Shards)
		}
	}
	ids := make(map[string]bool)
	for _, s := range r.Members {
		if err := s.check(); err != nil {
			return err
		}
		if ids[s.ID] {
			return fmt.Errorf("%w: %q is a member twice", ErrForeign, s.ID)
		}
		ids[s.ID] = true
	}
	if r.Base == 0 { // members wait for the base
		return fmt.Errorf("%w: no base", ErrForeign)
	}
	return nil
}

// wirePage is a page as it is stored. Shards with the same grant share an entry.
type wirePage struct {
	Format   int         `json:"v"`
	Page     int         `json:"page"`
	Shards   int         `json:"shards"` // of the group
	Base     uint64      `json:"base"`
	Sessions []Session   `json:"sessions"`
	Grants   []wireGrant `json:"grants"`
}

// wireGrant is a grant of some shards, as an array: it is repeated often.
type wireGrant struct {
	owner  int // the number of the session, from 1; 0: none
	since  uint64
	pred   int
	shards string // ranges, from the first of the page
	list   []int  // of Encode
}

func (g wireGrant) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{g.owner, g.since, g.pred, Ranges(g.list)})
}

func (g *wireGrant) UnmarshalJSON(data []byte) error {
	fields := []any{&g.owner, &g.since, &g.pred, &g.shards}
	err := json.Unmarshal(data, &fields)
	if err == nil && len(fields) != 4 {
		err = fmt.Errorf("a grant of %d fields", len(fields))
	}
	return err
}

// EncodePage returns the grants of the shards of a page as JSON.
func (l Layout) EncodePage(page int, base uint64, grants []Grant) []byte {
	w := wirePage{Format: Format, Page: page, Shards: l.Shards, Base: base, Sessions: []Session{}}
	sessions, entries := map[Session]int{{}: 0}, make(map[Grant]int)
	number := func(s Session) int {
		if _, ok := sessions[s]; !ok {
			w.Sessions = append(w.Sessions, s)
			sessions[s] = len(w.Sessions)
		}
		return sessions[s]
	}
	for i, g := range grants {
		n, ok := entries[g]
		if !ok {
			n = len(w.Grants)
			entries[g] = n
			w.Grants = append(w.Grants, wireGrant{owner: number(g.Owner), since: g.Since, pred: number(g.Pred)})
		}
		w.Grants[n].list = append(w.Grants[n].list, i)
	}
	return encode(w)
}

// DecodePage decodes a page that is stored at a revision, and resolves its grants. Each shard of the page has to
// have a grant: a shard that lost its grant could be granted to another beside its owner.
func (l Layout) DecodePage(page int, value []byte, revision uint64) (Map, error) {
	var w wirePage
	if err := decode(value, maxSize, &w); err != nil {
		return Map{}, err
	}
	if w.Page != page || w.Shards != l.Shards {
		return Map{}, fmt.Errorf("%w: page %d of %d shards, not page %d of %d", ErrForeign, w.Page, w.Shards, page, l.Shards)
	}
	if w.Base > record.MaxMinToken {
		return Map{}, fmt.Errorf("%w: base %d", ErrForeign, w.Base)
	}
	sessions := make([]Session, 1, 1+len(w.Sessions))
	for _, s := range w.Sessions {
		if err := s.check(); err != nil {
			return Map{}, err
		}
		sessions = append(sessions, s)
	}
	_, n := l.Page(page)
	m := Map{Revision: revision, Base: w.Base, Grants: make([]Grant, n)}
	granted := make([]bool, n)
	for _, g := range w.Grants {
		switch {
		case g.owner < 0 || g.pred < 0 || max(g.owner, g.pred) >= len(sessions):
			return Map{}, fmt.Errorf("%w: sessions %d and %d of %d", ErrForeign, g.owner, g.pred, len(w.Sessions))
		case g.since > revision:
			return Map{}, fmt.Errorf("%w: a grant of revision %d at revision %d", ErrForeign, g.since, revision)
		}
		shards, err := numbers(g.shards, n)
		if err != nil {
			return Map{}, err
		}
		for _, i := range shards {
			if granted[i] {
				return Map{}, fmt.Errorf("%w: shard %d has two grants", ErrForeign, i)
			}
			granted[i] = true
			m.Grants[i] = Grant{Owner: sessions[g.owner], Since: g.since, Pred: sessions[g.pred]}
		}
	}
	if i := slices.Index(granted, false); i >= 0 {
		return Map{}, fmt.Errorf("%w: shard %d has no grant", ErrForeign, i)
	}
	m.Resolve()
	return m, nil
}

// ShardsOf returns how many shards a group has by its first page, or 0 and why the value is no such page.
func (l Layout) ShardsOf(page []byte, revision uint64) (int, error) {
	var w wirePage
	if err := decode(page, maxSize, &w); err != nil {
		return 0, err
	}
	if l.Shards = w.Shards; l.check() != nil {
		return 0, l.check()
	}
	if _, err := l.DecodePage(0, page, revision); err != nil {
		return 0, err
	}
	return l.Shards, nil
}

// Published is what a member publishes with its lease.
type Published struct {
	Reports []Report // by the number of the page; all are equal in Left
	Late    []int    // see Worker; at most MaxLate
	Idle    bool     // its program has not called Serve for a lease
	Unbegun []int    // shards whose work begins too late, of which it names as many as have room
	Weight  int
	Most    int // see Worker
	// Hold is for how long after the end of a term its shards wait for a later term of the same member.
	Hold    time.Duration
	Program string // of which the member is part; "" if it is not known, as of an earlier version
	Value   string // of the application
}

// wireMember is a [Published] as it is stored.
type wireMember struct {
	Format  int            `json:"v"`
	Seen    map[int]uint64 `json:"seen,omitempty"` // by page; 0 if there is none
	Busy    string         `json:"busy,omitempty"` // ranges
	Late    string         `json:"late,omitempty"`
	Idle    bool           `json:"idle,omitempty"`
	Unbegun string         `json:"unbegun,omitempty"`
	Left    bool           `json:"left,omitempty"`
	Weight  int            `json:"weight"`
	Most    int            `json:"most,omitempty"`
	Hold    string         `json:"hold,omitempty"`
	Program string         `json:"program,omitempty"`
	Value   string         `json:"value,omitempty"`
	Binary  string         `json:"value64,omitempty"` // a value that is not UTF-8, in base64
}

// EncodeMember returns a publication as JSON, or an error if it is too large.
func (l Layout) EncodeMember(p Published) ([]byte, error) {
	w := wireMember{Format: Format, Seen: make(map[int]uint64), Idle: p.Idle, Weight: p.Weight, Most: p.Most, Program: p.Program}
	var busy []int
	for page, r := range p.Reports {
		w.Left = w.Left || r.Left
		if r.Seen != 0 {
			w.Seen[page] = r.Seen
		}
		first, _ := l.Page(page)
		for _, i := range r.Busy {
			busy = append(busy, first+i)
		}
	}
	w.Busy, w.Late, w.Unbegun = Ranges(busy), Ranges(p.Late), Ranges(p.Unbegun)
	if len(w.Unbegun) > maxUnbegun {
		w.Unbegun = w.Unbegun[:strings.LastIndexByte(w.Unbegun[:maxUnbegun], ',')]
	}
	if p.Hold != 0 {
		w.Hold = p.Hold.String()
	}
	w.Value, w.Binary = record.WireValue(p.Value)
	value := encode(w)
	if len(value) > wire.MaxValue {
		return nil, fmt.Errorf("a member publishes %d bytes, which is more than %d: its value has %d bytes, and it stops %d shards",
			len(value), wire.MaxValue, len(p.Value), len(busy))
	}
	return value, nil
}

// HasLeft reports whether a member has published last that it begins no work any more.
func HasLeft(value []byte) bool {
	var w wireMember
	return decode(value, wire.MaxValue, &w) == nil && w.Left
}

// DecodeMember decodes what a member has published in a record that is stored at a revision. The reports have all
// pages.
func (l Layout) DecodeMember(value []byte, revision uint64) (Published, error) {
	var w wireMember
	if err := decode(value, wire.MaxValue, &w); err != nil {
		return Published{}, err
	}
	p := Published{Reports: make([]Report, l.Pages()), Idle: w.Idle, Weight: w.Weight, Most: w.Most}
	for i := range p.Reports {
		p.Reports[i].Left = w.Left
	}
	for page, seen := range w.Seen {
		switch {
		case page < 0 || page >= len(p.Reports):
			return Published{}, fmt.Errorf("%w: page %d of %d", ErrForeign, page, len(p.Reports))
		case seen > revision:
			return Published{}, fmt.Errorf("%w: has seen revision %d at revision %d", ErrForeign, seen, revision)
		}
		p.Reports[page].Seen = seen
	}
	if w.Busy != "" {
		busy, err := numbers(w.Busy, l.Shards)
		if err != nil {
			return Published{}, err
		}
		for _, i := range busy {
			r := &p.Reports[i/l.PageSize]
			r.Busy = append(r.Busy, i%l.PageSize)
		}
	}
	if len(w.Program) <= MaxProgram { // else a later version has other bounds
		p.Program = w.Program
	}
	var err error
	if w.Late != "" {
		if p.Late, err = numbers(w.Late, l.Shards); err != nil {
			return Published{}, err
		}
	}
	if w.Unbegun != "" {
		if p.Unbegun, err = numbers(w.Unbegun, l.Shards); err != nil {
			return Published{}, err
		}
	}
	if w.Hold != "" {
		if p.Hold, err = time.ParseDuration(w.Hold); err != nil {
			return Published{}, fmt.Errorf("%w: hold %.20q", ErrForeign, w.Hold)
		}
	}
	switch {
	case w.Weight < 1 || w.Weight > MaxWeight:
		return Published{}, fmt.Errorf("%w: weight %d", ErrForeign, w.Weight)
	case w.Most < 0:
		return Published{}, fmt.Errorf("%w: at most %d shards", ErrForeign, w.Most)
	case p.Hold < 0 || p.Hold > MaxHold:
		return Published{}, fmt.Errorf("%w: hold %v", ErrForeign, p.Hold)
	}
	if p.Value, err = record.ValueOf(w.Value, w.Binary); err != nil {
		return Published{}, fmt.Errorf("%w: value: %w", ErrForeign, err)
	}
	return p, nil
}

// Program is an application of which a member is part.
type Program struct {
	Name   string `json:"name"`
	Member string `json:"member"` // the ID of one that is
}

// Programs are those of the members of a group, each once. Members that do not name theirs are left out.
type Programs []Program

// Add adds the program of a member.
func (p *Programs) Add(name, member string) {
	if name != "" && len(*p) < maxPrograms && !p.has(name) {
		*p = append(*p, Program{name, member})
	}
}

func (p Programs) has(name string) bool {
	return slices.ContainsFunc(p, func(o Program) bool { return o.Name == name })
}

// Within reports whether all of them are among others.
func (p Programs) Within(others Programs) bool {
	return !slices.ContainsFunc(p, func(o Program) bool { return !others.has(o.Name) })
}

// Differ reports whether the members are of more than one program.
func (p Programs) Differ() bool { return len(p) > 1 }

// String names each program with one of its members.
func (p Programs) String() string {
	var parts []string
	for _, o := range p {
		parts = append(parts, fmt.Sprintf("%q of member %q", o.Name, o.Member))
	}
	return strings.Join(parts, ", ")
}

// wireAssigner is the publication of an assigner as it is stored.
type wireAssigner struct {
	Format   int      `json:"v"`
	Pages    []uint64 `json:"pages"`
	Programs Programs `json:"programs,omitempty"`
}

// EncodeAssigner returns the publication of an assigner as JSON: the newest revision of each page that it knows, and the
// programs of the members if they differ.
func EncodeAssigner(pages []uint64, programs Programs) []byte {
	if !programs.Differ() {
		programs = nil
	}
	return encode(wireAssigner{Format, pages, programs})
}

// DecodePrograms returns the programs that an assigner has published, or none if they do not differ.
func DecodePrograms(value []byte) Programs {
	var w wireAssigner
	if decode(value, wire.MaxValue, &w) != nil {
		return nil
	}
	var known Programs
	for _, p := range w.Programs {
		if len(p.Name) <= MaxProgram && len(p.Member) <= record.MaxID {
			known.Add(p.Name, p.Member)
		}
	}
	if !known.Differ() {
		return nil
	}
	return known
}

// DecodeAssigner decodes what an assigner has published in a record that is stored at a revision.
func (l Layout) DecodeAssigner(value []byte, revision uint64) (pages []uint64, err error) {
	var w struct { // programs of a later format cost no revisions
		Format int      `json:"v"`
		Pages  []uint64 `json:"pages"`
	}
	if err := decode(value, wire.MaxValue, &w); err != nil {
		return nil, err
	}
	if len(w.Pages) != l.Pages() || slices.Max(w.Pages) > revision {
		return nil, fmt.Errorf("%w: revisions %v of %d pages at revision %d", ErrForeign, w.Pages, l.Pages(), revision)
	}
	return w.Pages, nil
}

// encode returns a value as JSON.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // people read it
	if err := enc.Encode(v); err != nil {
		panic(err) // strings and numbers
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decode decodes a value of this format.
func decode(value []byte, size int, v any) error {
	if len(value) > size {
		return fmt.Errorf("%w: %d bytes", ErrForeign, len(value))
	}
	var head struct {
		Format int `json:"v"`
	}
	err := json.Unmarshal(value, &head)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrForeign, err)
	case head.Format > Format:
		return fmt.Errorf("%w: format %d", ErrLaterFormat, head.Format)
	case head.Format < Format:
		return fmt.Errorf("%w: format %d", ErrForeign, head.Format)
	}
	if err := json.Unmarshal(value, v); err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return nil
}

// Ranges returns rising numbers as a text: 0-9,14.
func Ranges(list []int) string {
	var b []byte
	for i := 0; i < len(list); i++ {
		first := list[i]
		for i+1 < len(list) && list[i+1] == list[i]+1 {
			i++
		}
		b = strconv.AppendInt(append(b, ','), int64(first), 10)
		if list[i] != first {
			b = strconv.AppendInt(append(b, '-'), int64(list[i]), 10)
		}
	}
	return strings.TrimPrefix(string(b), ",")
}

// numbers returns the numbers of a text that Ranges has made. They rise, and are less than n.
func numbers(text string, n int) (list []int, err error) {
	next := 0
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err1 := strconv.Atoi(low)
		last, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || first < next || last < first || last >= n {
			return nil, fmt.Errorf("%w: %.20q is no range of %d to %d", ErrForeign, part, next, n-1)
		}
		for ; first <= last; first++ {
			list = append(list, first)
		}
		next = last + 1
	}
	return list, nil
}
