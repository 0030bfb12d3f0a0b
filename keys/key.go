package keys

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// Key is the work on one key by this process, from a begin to the end. Its methods may be called from any goroutine.
type Key struct {
	set     *Set
	life    uint64 // of its revisions, see machine
	shard   *shard.Shard
	ctx     context.Context //nolint:containedctx // that of the work
	cancel  context.CancelCauseFunc
	newest  atomic.Pointer[Entry]
	known   atomic.Uint64 // the revision that Entry has returned last
	changed chan struct{}
}

// Name returns the key.
func (k *Key) Name() string { return k.newest.Load().Name }

// Entry returns the newest value that the set has received.
func (k *Key) Entry() Entry {
	e := *k.newest.Load()
	for was := k.known.Load(); was < e.Revision && !k.known.CompareAndSwap(was, e.Revision); was = k.known.Load() {
	}
	return e
}

// Changed receives when there is an Entry that Changed has not received for. A value that changes does not restart the work.
func (k *Key) Changed() <-chan struct{} { return k.changed }

// Context returns the context of the work. It ends with that of the shard and its cause, see [shard.Shard.Context], with
// [ErrDeleted] or [ErrNotWanted], and with [leader.ErrRegressed] if the bucket was made again or has lost writes. It ends with
// [context.Canceled] when the work has returned. Err and Done ask the clock.
func (k *Key) Context() context.Context { return k.ctx }

// Token returns the fencing token of the shard that has the key. It is greater than that of each earlier owner. A key that is
// deleted and put again can have the same token, in the same process.
func (k *Key) Token() uint64 { return k.shard.Token() }

// Shard returns the shard that has the key, and others beside it. The functions of its leader.Term.Go belong to the shard:
// the work on the key can begin again, in this process, before they return.
func (k *Key) Shard() *shard.Shard { return k.shard }

// Writer returns the writer of the guard of the slot, or nil without [Config].Guards. It writes to all keys of the bucket. A
// later owner of the slot has received its writes to keys that match Filter before it begins. It reads the others itself.
func (k *Key) Writer() fence.KVWriter {
	if k.set.guards == nil {
		return nil
	}
	return k.set.guards[k.shard.Number()].writer(k.shard.Term())
}

// completeLimit bounds the request of [Key.Complete].
const completeLimit = 5 * time.Second

// Complete deletes the key, because the work on it is done. It waits for the bucket for up to 5 s, and as long as Wants, Ready or
// the handler of the Logger waits. It does not depend on the context of the key, which ends with the deletion. It deletes the
// value that Entry has returned last, or with which the work has begun. If there is a later value, it returns [ErrChanged], and
// the key stays: call Entry, and go on with that value. It returns ErrChanged, too, if the key is deleted, and if the bucket was
// made again or has lost writes. After another error the key is deleted, or will be, or stays.
//
// A key that Complete has deleted does not begin again in this process before it is put again, unless the bucket loses the
// deletion. After another error a read decides that. With [Config].Guards the key does not begin on a later owner of the slot
// either, unless the bucket has stored the deletion after the guard of that owner.
func (k *Key) Complete() error {
	name, revision := k.Name(), k.known.Load()
	if errors.Is(context.Cause(k.ctx), leader.ErrRegressed) {
		return fmt.Errorf("%w: the bucket has no message of the revisions that %s has had", ErrChanged, name)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), completeLimit)
	defer cancel()
	k.set.send(func(a *actor, _ time.Time) { a.machine.completes(name, k.life) })
	switch err := k.set.bucket.Delete(ctx, name, revision); {
	case errors.Is(err, backend.ErrRefused):
		return fmt.Errorf("%w: %s is not at revision %d any more", ErrChanged, name, revision)
	case err != nil:
		return err
	}
	k.set.send(func(a *actor, now time.Time) { a.machine.completed(name, revision, k.life, now) })
	return nil
}

// update gives the work a new value.
func (k *Key) update(e Entry) {
	k.newest.Store(&e)
	select {
	case k.changed <- struct{}{}:
	default: // it has not received for the last one
	}
}
