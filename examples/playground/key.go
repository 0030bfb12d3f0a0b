package main

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
)

// The states of an election, and how much attention they need, as the page has them.
const (
	stateLeading  = "leading"
	statePending  = "pending"
	stateReleased = "released"
	stateDeleted  = "deleted"
	stateExpired  = "expired"
)

var attention = map[string]int{stateExpired: 2, stateDeleted: 3, statePending: 4, stateLeading: 5, stateReleased: 6}

// watchKey shows the key of the election on the page until ctx ends.
func (p *playground) watchKey(ctx context.Context) {
	k := keyView{state: p.state}
	for ctx.Err() == nil {
		p.mu.Lock()
		reopened := p.reopened
		p.mu.Unlock()
		watch, err := p.kv.Watch(ctx, electionName)
		if err != nil { // the server is down
			select {
			case <-time.After(rest):
			case <-ctx.Done():
			}
			continue
		}
		k.follow(ctx, watch.Updates(), reopened)
		_ = watch.Stop() // of a server that has gone, or of a playground that ends
	}
}

// keyView shows a key on the page.
type keyView struct {
	state *webpage.State
	row   webpage.Row
	value []byte // the record
	last  string // who led last
}

// follow shows entries until ctx ends, the feed does or the server was started again.
func (k *keyView) follow(ctx context.Context, entries <-chan jetstream.KeyValueEntry, reopened <-chan struct{}) {
	ticker := time.NewTicker(rest)
	defer ticker.Stop()
	for {
		select {
		case e, open := <-entries:
			switch {
			case !open:
				return
			case e == nil:
				k.state.Complete(time.Now)
			default:
				k.read(e)
			}
		case now := <-ticker.C:
			k.expire(now)
		case <-reopened:
			return
		case <-ctx.Done():
			return
		}
	}
}

// read shows an entry of the key.
func (k *keyView) read(e jetstream.KeyValueEntry) {
	if e.Revision() == k.row.Revision {
		return // a feed that begins anew
	}
	h := leader.HolderOf(e)
	row := webpage.Row{
		Key: electionName, State: h.State.String(), ID: h.ID, Token: h.Token, Since: webpage.Milliseconds(h.Since), Lease: h.Lease.Milliseconds(),
		Expires: webpage.Milliseconds(h.Renewed.Add(h.Lease)), Revision: e.Revision(), Written: webpage.Milliseconds(e.Created()),
	}
	if h.State == leader.HolderNone || h.State == leader.HolderForeign {
		row.State = stateDeleted
	}
	if h.State != leader.HolderPending && h.State != leader.HolderLeading {
		row.ID, row.Token, row.Expires, row.Lease, row.Since = k.last, max(h.Token, k.row.Token), 0, 0, row.Written
	} else {
		k.last = h.ID
	}
	if row.Since == 0 {
		row.Since = row.Written
	}
	k.show(row, e.Value(), e.Created())
}

// expire shows that the lease is over.
func (k *keyView) expire(now time.Time) {
	if ends := k.row.Expires; ends != 0 && now.UnixMilli() > ends {
		row := k.row
		row.State, row.Since, row.Expires, row.Lease = stateExpired, ends, 0, 0
		k.show(row, k.value, time.UnixMilli(ends))
	}
}

// show shows a row, and as a change unless it is a renewal.
func (k *keyView) show(row webpage.Row, value []byte, at time.Time) {
	was := k.row
	row.Trouble = attention[row.State]
	k.row, k.value = row, value
	if was.State == row.State && was.ID == row.ID && was.Token == row.Token {
		k.state.Show(row, value)
		return
	}
	k.state.Show(row, value, webpage.Change{
		Key: row.Key, At: webpage.Milliseconds(at), State: row.State, ID: row.ID, Token: row.Token,
		Text: words(row), Trouble: row.Trouble < attention[statePending],
	})
}

// words describe a row whose state is another one.
func words(row webpage.Row) string {
	switch row.State {
	case stateLeading:
		return row.ID + " leads"
	case statePending:
		return row.ID + " holds the key, and does not lead yet"
	}
	return "nobody leads: " + row.State
}
