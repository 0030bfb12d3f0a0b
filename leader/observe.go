package leader

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/record"
)

func init() {
	backend.StoreFor = backendFor
	backend.SessionOf = func(holder any) string { return holder.(Holder).session }
}

// Observe reports the holder of the key of an election on a channel: when it is known, even if there is none, and
// whenever it changes. A slow reader gets the newest holder. The channel is closed when ctx ends or the application
// closes the connection. While the store cannot be reached, Observe tries again. It never writes. Errors:
// [ErrInvalidConfig].
func Observe(ctx context.Context, store Store, election string) (<-chan Holder, error) {
	b, err := backendFor(store, election)
	if err != nil {
		return nil, err
	}
	c := startCandidate(ctx, b, election, Config{Clock: clockOf(store), Logger: slog.New(slog.DiscardHandler)}, machine.Params{Observe: true})
	holders, events := make(chan Holder), c.reader()
	go func() {
		defer close(holders)
		var newest Holder
		var out chan<- Holder // nil while there is nothing to send
		for {
			select {
			case _, open := <-events.bell:
				if !open {
					return
				}
				for e, ok := events.next(); ok; e, ok = events.next() {
					if o, ok := e.(Observed); ok {
						newest, out = o.Holder, holders
					}
				}
			case out <- newest:
				out = nil
			}
		}
	}()
	return holders, nil
}

// Lookup reads the holder of the key of an election once, perhaps from a replica that lags. One read cannot show
// whether the lease is still valid: compare Renewed and Lease, or use [Observe]. Errors: those of every [Store].
func Lookup(ctx context.Context, store Store, election string) (Holder, error) {
	b, err := backendFor(store, election)
	if err != nil {
		return Holder{}, err
	}
	s, err := look(ctx, b, election)
	if err != nil {
		return Holder{}, err
	}
	return holderOf(s, seatOf(election)), nil
}

// holderShown returns the holder of the key, as far as it is to be reported, on a seat.
func holderShown(s *machine.Status, seat int) Holder {
	if s.Reported.Kind == record.EntryNothing || s.Reported.Kind == record.EntryUnseen {
		return Holder{Seat: seat, Last: lastOf(s.Seen, seat)}
	}
	return holderOf(*s.Seen, seat)
}

// look reads the key once.
func look(ctx context.Context, store backend.Store, election string) (record.Observation, error) {
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	entry, err := backend.Await(func(reply func(backend.Entry, error)) { store.Get(ctx, election, reply) })
	if err != nil {
		if ctx.Err() != nil {
			return record.Observation{}, fmt.Errorf("%w: %w", err, ctx.Err())
		}
		return record.Observation{}, err
	}
	return record.DecodeEntry(entry), nil
}

// date updates the fields that change with every renewal.
func (h *Holder) date(s record.Observation) {
	h.Revision = s.Revision
	h.Token = s.Rec.TermToken(s.Revision) // grows while the holder is pending
	h.Lease = s.Rec.Lease
	h.Renewed = serverTime(s.Created)
	switch {
	case s.Rec.Phase == record.PhaseElect:
		h.Since = h.Renewed
	case s.Rec.Since != 0:
		h.Since = serverTime(s.Rec.Since)
	}
}

// HolderOf returns the holder that one revision of an election's key names, whether its lease is valid or not. It
// believes a record that candidates reject because of its headers, which an entry of nats.go does not have. For a nil
// entry of a jetstream.KeyWatcher it returns [HolderNone].
func HolderOf(e jetstream.KeyValueEntry) Holder {
	if e == nil {
		return Holder{Seat: 1}
	}
	return holderOf(record.DecodeEntry(natskv.EntryOf(e)), seatOf(e.Key()))
}

// holderOf returns the holder that a revision of the key of that seat shows.
func holderOf(s record.Observation, seat int) Holder {
	switch {
	case s.Kind == record.EntryForeign:
		return Holder{Seat: seat, State: HolderForeign, Value: publishedValue(s.Rec.Value), Revision: s.Revision, Renewed: serverTime(s.Created)}
	case !s.Held():
		if s.Kind != record.EntryRecord {
			return Holder{Seat: seat}
		}
		return Holder{Seat: seat, State: HolderReleased, Token: s.Rec.Token, Revision: s.Revision, Last: lastOf(&s, seat)}
	}
	h := Holder{Seat: seat, State: HolderLeading, ID: s.Rec.ID, Value: publishedValue(s.Rec.Value), session: s.Rec.Session}
	if s.Rec.Phase == record.PhasePending {
		h.State, h.Last = HolderPending, lastOf(&s, seat)
	}
	h.date(s)
	return h
}

// pastHolder returns a holder that has led.
func pastHolder(l record.Last, seat int) Holder {
	h := Holder{Seat: seat, ID: l.ID, Token: l.Token, Value: publishedValue(l.Value), Renewed: serverTime(l.Until)}
	switch {
	case l.ID == "":
	case l.Released:
		h.State = HolderReleased
	default:
		h.State = HolderExpired
	}
	return h
}

// lastOf returns the last leader that a revision of the key shows, or nil.
func lastOf(s *record.Observation, seat int) *Holder {
	h := pastHolder(s.Leader(s.Created).Unpack(), seat)
	if h.State == HolderNone {
		return nil
	}
	return &h
}

// publishedValue returns nil if no value is published.
func publishedValue(value string) []byte {
	if value == "" {
		return nil
	}
	return []byte(value)
}

func serverTime(unixNano int64) time.Time {
	if unixNano == 0 {
		return time.Time{}
	}
	return time.Unix(0, unixNano)
}
