package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

var (
	// ErrNoGroup is the error for a group that no member has joined.
	ErrNoGroup = errors.New("shard: no such group")
	// ErrNoMember is the error for an ID that no member of the group has.
	ErrNoMember = errors.New("shard: no such member")
)

// Move asks the group to move a shard to the member of an ID, once the work on it has ended. If that makes the spread
// uneven, another shard leaves that member. Move returns when the request is stored. [Observe] reports the move. The
// assigner drops a request that it cannot meet, for example for a drained member. Errors: [ErrNoGroup], [ErrNoMember],
// [leader.ErrInvalidConfig] for a number that the group does not have, and those of every [leader.Store].
func Move(ctx context.Context, store leader.Store, name string, shard int, id string) error {
	return ask(ctx, store, name, id, func(r *group.Registry) error {
		switch {
		case shard < 0 || shard >= r.Shards:
			return fmt.Errorf("%w: shard %d of group %s: choose one from 0 to %d", leader.ErrInvalidConfig, shard, name, r.Shards-1)
		case len(r.Asked) >= group.MaxAsked:
			return fmt.Errorf("%w: %d shards of group %s are to move already: wait until some have moved", leader.ErrRequestRefused, len(r.Asked), name)
		case r.Asked == nil:
			r.Asked = make(map[int]string)
		}
		r.Asked[shard] = id
		return nil
	})
}

// Drain asks the group to move all shards away from the member of an ID, each once its work has ended. Shards for which
// no other member has room then have no owner. The member takes no shards until [Undrain], or until its process has
// ended and another joins under the ID. A process that is cut off before the request reaches it, until others have its
// shards, takes shards again. Drain returns when the request is stored. Errors: [ErrNoGroup], [ErrNoMember], and those of
// every [leader.Store].
func Drain(ctx context.Context, store leader.Store, name, id string) error {
	return ask(ctx, store, name, id, func(r *group.Registry) error {
		if !slices.Contains(r.Drained, id) {
			r.Drained = append(r.Drained, id)
		}
		return nil
	})
}

// Undrain lets a member take shards again after [Drain]. It has the same errors, [ErrNoMember] also for a drained member
// whose term is over, for example because it is cut off: it is drained when it is back.
func Undrain(ctx context.Context, store leader.Store, name, id string) error {
	return ask(ctx, store, name, id, func(r *group.Registry) error {
		r.Drained = slices.DeleteFunc(r.Drained, func(drained string) bool { return drained == id })
		return nil
	})
}

// ask adds a request that concerns a member to the registry.
func ask(ctx context.Context, store leader.Store, name, id string, add func(*group.Registry) error) error {
	port, err := openStore(store, name)
	if err != nil {
		return err
	}
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	for {
		r, revision, err := readRegistry(ctx, port, name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(r.Members, func(s group.Session) bool { return s.ID == id }) {
			return fmt.Errorf("%w: %q in group %s", ErrNoMember, id, name)
		}
		if err = add(&r); err != nil {
			return err
		}
		if _, err = update(ctx, port, group.RegistryKey(name), r.Encode(), revision); err == nil {
			return nil
		}
		if refused := new(backend.RefusedError); !errors.As(err, &refused) { // else another was first: try again at once
			return err
		}
	}
}

// openStore returns the backend of a store, for the keys of a group.
func openStore(store leader.Store, name string) (backend.Store, error) {
	if err := group.CheckKeys(name, ""); err != nil {
		return nil, fmt.Errorf("%w: %w", leader.ErrInvalidConfig, err)
	}
	if _, marked := store.(backend.Marked); marked {
		return nil, fmt.Errorf("%w: a store of package seats or kvelect, of whose elections a group has none: pass the bucket itself", leader.ErrInvalidConfig)
	}
	return backend.StoreFor(store, group.AssignerKey(name))
}

// readRegistry reads the registry of a group that exists.
func readRegistry(ctx context.Context, port backend.Store, name string) (group.Registry, uint64, error) {
	e, err := get(ctx, port, group.RegistryKey(name))
	if err != nil {
		return group.Registry{}, 0, err
	}
	r, err := group.DecodeRegistry(e.Value)
	switch {
	case e.Revision == 0 || e.Marker:
		return r, 0, fmt.Errorf("%w: %s", ErrNoGroup, name)
	case err != nil:
		return r, 0, fmt.Errorf("%w: the registry of group %s is %w", leader.ErrForeignRecord, name, err)
	}
	return r, e.Revision, nil
}
