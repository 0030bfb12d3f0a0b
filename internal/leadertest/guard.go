package leadertest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// Guard is the bucket of a [Store] as a resource that only the leader may write. It is a
// [leader.Guard], and makes writers for the terms of one candidate. All its traffic goes
// over one [Link], and the faults of that link apply to it. See [Link.Guard].
//
// The guard itself is a key of the bucket. The actions of an operator on it are methods of the Store: Delete, Put
// over it, Drop.
type Guard struct {
	link *Link
	key  string
}

// Guard returns the bucket of the link as a guard, to be given to [leader.Campaign] by one
// candidate. The guard is the key [fence.DefaultGuardKey], or another one. Each call for a key returns the same guard.
// By default a guarded bucket is like a store that is not purge-protected ([WithoutPurgeProtection]).
func (l *Link) Guard(key ...string) Guard {
	if len(key) > 0 {
		return Guard{l, key[0]}
	}
	return Guard{l, fence.DefaultGuardKey}
}

// String names the link.
func (g Guard) String() string { return fmt.Sprintf("link %q", g.link.name) }

// Backend returns the port, for package leader.
func (g Guard) Backend() backend.Guard { return guardBackend(g) }

// guardBackend is the backend of a [Guard].
type guardBackend Guard

// Check requests the bucket's settings, which [Link.FailSettings] may fail. A bucket
// with a TTL is incompatible, because the guard would expire.
func (g guardBackend) Check(ctx context.Context, reply func(error)) {
	g.link.Backend().Settings(ctx, func(s backend.Settings, err error) {
		if err == nil && s.TTL > 0 {
			err = fmt.Errorf("%w: its messages expire after %v, and with them the guard", leader.ErrIncompatibleBucket, s.TTL)
		}
		reply(err)
	})
}

// Get reads the guard.
func (g guardBackend) Get(ctx context.Context, reply func(backend.Entry, error)) {
	g.link.get(ctx, g.key, reply, func() error { return leader.ErrNoBucket })
}

// Update writes the guard if its last revision is revision.
func (g guardBackend) Update(ctx context.Context, value []byte, revision uint64, reply func(uint64, error)) {
	g.link.store.mu.Lock()
	if g.link.raises == nil {
		g.link.raises = make(map[raise]string)
	}
	g.link.raises[raise{g.key, decode(value).Token}] = string(value)
	g.link.store.mu.Unlock()
	g.link.Backend().Update(ctx, g.key, value, revision, reply)
}

// Writer returns a writer of the term. The term's candidate must have been given the
// guard.
func (g Guard) Writer(t *leader.Term) *Writer {
	return &Writer{guard: g, term: t, standing: g.standing(t)}
}

// raise is one of a term at a guard.
type raise struct {
	key   string
	token uint64
}

// standing is the knowledge of the writers of one term about its guard, on their link.
// The store's lock protects it.
type standing struct {
	told     uint64 // the term's fence, when it was last asked
	revision uint64 // at which the guard stands for the term, which the candidate may not know yet
	doubt    bool   // a write of unknown outcome may be on its way
}

// termAt is a term at a guard.
type termAt struct {
	term *leader.Term
	key  string
}

// standing returns the standing of a term.
func (g Guard) standing(t *leader.Term) *standing {
	l, at := g.link, termAt{t, g.key}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	st := l.standings[at]
	if st == nil {
		st = &standing{}
		if l.standings == nil {
			l.standings = make(map[termAt]*standing)
		}
		l.standings[at] = st
	}
	return st
}

// record is the part of a guard's value that matters here. It is empty for any other value.
type record struct {
	Election string `json:"election"`
	Token    uint64 `json:"token"`
	Session  string `json:"session"`
}

func decode(value []byte) record {
	var r record
	if json.Unmarshal(value, &r) != nil || r.Election == "" || r.Session == "" {
		return record{}
	}
	return r
}
