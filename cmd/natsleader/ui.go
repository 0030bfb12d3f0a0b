package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/group"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
	"github.com/natsleader/natsleader/shard"
)

// uiState hands what a watcher reports to the pages that are open. It is a renderer.
type uiState struct {
	*webpage.State
	offScreen
	log *lineLog

	mu        sync.Mutex
	s         *inspector            // nil: not connected
	endChecks context.CancelFunc    // on the connection
	info      *jetstream.StreamInfo // that the head shows
	head      webpage.Head
	fresh     time.Time           // the server's time at which the rows were last known to be the newest
	err       error               // why the rows are not up to date; nil: they are
	groups    map[string]*uiGroup // that are observed, until the connection is closed
	turned    chan struct{}       // err has come or gone
}

func newUIState(log *lineLog) *uiState {
	return &uiState{log: log, State: webpage.NewState(), groups: make(map[string]*uiGroup), turned: make(chan struct{}, 1)}
}

// connected takes the connection that requests of pages use, or nil.
func (u *uiState) connected(s *inspector) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.endChecks != nil {
		u.endChecks()
	}
	if u.s = s; s != nil {
		s.streams = []string{"KV_" + s.name} // pages may lack other permissions
		ctx, end := context.WithCancel(context.Background())
		u.endChecks = end
		go u.examine(ctx, s)
	}
}

// inspector returns the connection, or nil.
func (u *uiState) inspector() *inspector {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.s
}

// changed is part of renderer, as are shown and trouble. It reaches pages at once.
func (u *uiState) changed(changes ...change) error {
	now := time.Now()
	if s := u.inspector(); s != nil {
		now = s.clock.now()
	}
	for _, c := range changes {
		c, ok := c.(electionChange)
		if !ok {
			continue
		}
		key := c.now.election
		u.show(&watched{now: c.now, as: c.state, was: u.Row(key).ID}, now, nil, webpage.Change{
			Key: key, At: webpage.Milliseconds(c.at), State: string(c.state), ID: c.now.holder.ID, Token: c.now.holder.Token,
			First: c.previous == nil,
		})
	}
	return nil
}

// shown compares the rows with what the watcher knows. Renewals reach pages by it.
func (u *uiState) shown(now time.Time, of viewer) error {
	w, ok := of.(*watcher)
	if !ok || !w.complete {
		return nil
	}
	u.mu.Lock()
	if !w.troubled && w.feed != nil {
		u.err, u.fresh = nil, w.fresh
		u.log.trouble(nil)
		u.Complete(w.s.clock.now)
	}
	trouble := u.err
	u.mu.Unlock()
	u.sees(w)
	for _, x := range w.elections {
		if x.last != nil {
			u.show(x, now, trouble)
		}
	}
	return nil
}

// show shows the row of an election, with its record. That of a group's assigner is the row of the group, which has the
// members instead. Their own elections are not shown.
func (u *uiState) show(x *watched, now time.Time, why error, changes ...webpage.Change) {
	key, row, record := x.now.election, rowOf(x, now, why), x.now.entry.Value
	if name, _, ok := group.NameOf(key); ok {
		if key != group.AssignerKey(name) {
			return
		}
		g := u.group(name, now)
		record, row.Group, row.Value, row.Value64, row.Sharing = nil, name, g.brief, false, g.sharing
		g.advise(&row)
	}
	u.Show(row, record, changes...)
}

func (u *uiState) trouble(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if (u.err == nil) != (err == nil) {
		select {
		case u.turned <- struct{}{}:
		default:
		}
	}
	u.err = err
	if err != nil { // nil: the watcher reads the elections again first
		u.log.trouble(err)
		u.Trouble(errorText(err), u.fresh)
	}
}

// rowOf returns the row of an election.
func rowOf(x *watched, now time.Time, trouble error) webpage.Row {
	s := x.now
	row := webpage.Row{
		Key: s.election, State: string(x.as), Trouble: int(x.troubleOf(now, trouble)), ID: s.holder.ID, Token: s.holder.Token,
		Since: webpage.Milliseconds(s.since(x.as)), Revision: s.entry.Revision, Written: webpage.Milliseconds(s.entry.Created),
	}
	switch x.as {
	case stateLeading, statePending:
		if host := records.HostOf(row.ID); host != row.ID {
			row.Host = host
		}
		row.Expires, row.Lease = webpage.Milliseconds(s.expires()), s.holder.Lease.Milliseconds()
		var base string
		row.Value, base = text(s.holder.Value)
		if base != "" {
			row.Value, row.Value64 = base, true
		}
	case stateReleased, stateExpired, stateDeleted, stateForeign, stateNever:
		row.ID = x.was
		if last := s.last(); last != nil {
			row.ID, row.Token, row.Value, row.Value64 = last.ID, last.Token, cmp.Or(last.Value, last.Value64), last.Value64 != ""
		}
	}
	x.advise(&row, errors.Is(trouble, leader.ErrNoBucket))
	return row
}

var errNoElection = errors.New("no connection, or no such election")

// inspectorOf returns the connection that requests about an election use.
func (u *uiState) inspectorOf(election string) (*inspector, error) {
	s := u.inspector()
	if s == nil || checkElection(election) != nil {
		return nil, errNoElection
	}
	return s, nil
}

// roster observes the roster of an election for a page.
func (u *uiState) roster(ctx context.Context, election string) (<-chan []roster.Entry, error) {
	s, err := u.inspectorOf(election)
	if err != nil {
		return nil, err
	}
	all, err := roster.Observe(ctx, s.bucket, election)
	if err != nil && !errors.Is(err, leader.ErrNoRoster) {
		err = errors.New(errorText(err))
	}
	return all, err
}

// actions returns what a page may ask leaders for.
func (u *uiState) actions() map[string]webpage.Action {
	return map[string]webpage.Action{
		"step-down": u.act(func(ctx context.Context, b *leader.Bucket, a uiAction) (leader.Holder, error) {
			return leader.StepDown(ctx, b, a.Election, leader.StepDownOptions{By: requester("serve")})
		}),
		"transfer": u.act(func(ctx context.Context, b *leader.Bucket, a uiAction) (leader.Holder, error) {
			return leader.StepDown(ctx, b, a.Election, leader.StepDownOptions{To: a.ID, Next: a.ID == "", By: requester("serve")})
		}),
		"drain-member": u.onName(func(ctx context.Context, look *inspector, g *globals, a uiName) error {
			return look.onMember(ctx, shard.Drain, a, g, "is asked: each of its shards moves as soon as the work on it has ended")
		}),
		"undrain-member": u.onName(func(ctx context.Context, look *inspector, g *globals, a uiName) error {
			return look.onMember(ctx, shard.Undrain, a, g, "may take shards")
		}),
		"drain": u.onName(func(ctx context.Context, look *inspector, g *globals, a uiName) error {
			d := drain{stepDown: stepDown{globals: g, wait: uiWait, tool: "serve", yes: true}, name: a.Name, cordon: a.Cordon}
			return d.run(ctx, look)
		}),
		"uncordon": u.onName(func(ctx context.Context, look *inspector, g *globals, a uiName) error {
			end := undrain{globals: g, names: []string{a.Name}}
			return end.run(ctx, look)
		}),
	}
}

// uiAction is a request of the page.
type uiAction struct {
	Election string `json:"election"`
	ID       string `json:"id"`           // of the candidate that is to lead; empty: the next
	Token    uint64 `json:"token,string"` // of the term that the user has seen
}

// uiWait is how long a leader may take to hand over: less than the limit of the response.
const uiWait = 25 * time.Second

// uiName is a request of the page about the candidates of an ID or a host, or about a member of a group.
type uiName struct {
	Name   string `json:"name"`
	Group  string `json:"group"`
	Cordon bool   `json:"cordon"` // before a drain
}

// onName answers such a request with what a command prints.
func (u *uiState) onName(do func(context.Context, *inspector, *globals, uiName) error) webpage.Action {
	return func(ctx context.Context, request json.RawMessage) (any, error) {
		var a uiName
		if err := json.Unmarshal(request, &a); err != nil || a.Name == "" {
			return nil, &webpage.Error{Status: http.StatusBadRequest, Text: "no such leader or host"}
		}
		s := u.inspector()
		if s == nil {
			return nil, errNotConnected
		}
		look := &inspector{nc: s.nc, js: s.js, bucket: s.bucket, name: s.name, limit: s.limit, denials: s.denials} // with a clock of its own
		var out bytes.Buffer
		err := look.within(ctx, look.ask)
		if err == nil {
			err = do(ctx, look, &globals{bucket: s.name, stdio: stdio{stdout: &out, stderr: &out}}, a)
		}
		if err != nil {
			return nil, errors.New(out.String() + errorText(err))
		}
		return strings.TrimSpace(out.String()), nil
	}
}

// onMember asks a member of a group to give up its shards, or lets it take some again, and prints that.
func (s *inspector) onMember(ctx context.Context, do func(context.Context, leader.Store, string, string) error, a uiName, g *globals, done string) error {
	err := s.within(ctx, func(ctx context.Context) error { return do(ctx, s.bucket, a.Group, a.Name) })
	if err != nil {
		return err
	}
	return printLines(g.out(), []string{printable(a.Name) + " " + done})
}

// errNotConnected is the answer to a request while there is no connection.
var errNotConnected = &webpage.Error{Status: http.StatusServiceUnavailable, Text: "there is no connection to NATS"}

// act answers a request that changes the leader.
func (u *uiState) act(do func(context.Context, *leader.Bucket, uiAction) (leader.Holder, error)) webpage.Action {
	return func(ctx context.Context, request json.RawMessage) (any, error) {
		var a uiAction
		if err := json.Unmarshal(request, &a); err != nil || checkElection(a.Election) != nil {
			return nil, &webpage.Error{Status: http.StatusBadRequest, Text: "no such election"}
		}
		s := u.inspector()
		if s == nil {
			return nil, errNotConnected
		}
		if row := u.Row(a.Election); row.Token != 0 && row.Token != a.Token {
			return nil, errors.New("another term leads than that which the page has shown: ask again")
		}
		ctx, cancel := context.WithTimeout(ctx, uiWait)
		defer cancel()
		was, err := do(ctx, s.bucket, a)
		done, err := handedOver(ctx, s.bucket, a.Election, uiWait, was, err)
		if err != nil {
			return nil, errors.New(errorText(err))
		}
		return done, nil
	}
}
