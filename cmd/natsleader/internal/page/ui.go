// Package page serves the elections of a bucket over HTTP, as a page and as metrics.
package page

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

	"github.com/natsleader/natsleader/cmd/natsleader/internal/act"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	"github.com/natsleader/natsleader/internal/group"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
	"github.com/natsleader/natsleader/shard"
)

// State hands what a watcher reports to the pages that are open. It is a renderer.
type State struct {
	*webpage.State
	view.OffScreen
	log    *front.LineLog
	groups map[string]*sharing // as the watcher of this connection shows them

	oneShot map[string]bool // elections of such jobs

	Mu        sync.Mutex
	S         *inspect.Inspector    // nil: not connected
	endChecks context.CancelFunc    // on the connection
	info      *jetstream.StreamInfo // that the head shows
	read      reading               // what else it shows
	replicas  []judge.Replica
	Heading   webpage.Head
	fresh     time.Time     // the server's time at which the rows were last known to be the newest
	err       error         // why the rows are not up to date; nil: they are
	turned    chan struct{} // err or the connection has come or gone
}

// NewUIState returns the state of the page before anything was read.
func NewUIState(log *front.LineLog) *State {
	return &State{log: log, State: webpage.NewState(), groups: make(map[string]*sharing), oneShot: make(map[string]bool), turned: make(chan struct{}, 1)}
}

// connected takes the connection that requests of pages use, or nil.
func (u *State) connected(s *inspect.Inspector) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if u.endChecks != nil {
		u.endChecks()
	}
	u.S = s
	u.showHead()
	if s != nil {
		clear(u.groups)
		s.Streams = []string{"KV_" + s.Name} // pages may lack other permissions
		ctx, end := context.WithCancel(context.Background())
		u.endChecks = end
		go u.Examine(ctx, s)
	}
}

// inspector returns the connection, or nil.
func (u *State) inspector() *inspect.Inspector {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	return u.S
}

// Changed is part of renderer, as are shown and trouble. It reaches pages at once.
func (u *State) Changed(changes ...view.Change) error {
	now := time.Now()
	if s := u.inspector(); s != nil {
		now = s.Clock.Now()
	}
	for _, c := range changes {
		c, ok := c.(view.ElectionChange)
		if !ok {
			continue
		}
		in := u.around(now, c.Expires)
		u.showNow(&view.Watched{Now: c.Now, As: c.State}, in, webpage.Change{
			Key: c.Now.Election, Text: c.Event(), Trouble: judge.TroubleOf(judge.Election(c.Now, c.State, in), c.State) < judge.TroublePending, At: webpage.Milliseconds(c.At), State: string(c.State), ID: c.Now.Holder.ID, Token: c.Now.Holder.Token,
			First: c.Previous == nil,
		})
	}
	return nil
}

// around returns what is known of the bucket.
func (u *State) around(now time.Time, expires bool) judge.Around {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	in := view.Around(now, u.err)
	in.Expires = expires
	for _, name := range u.Heading.Cordoned {
		in.Cordoned = append(in.Cordoned, facts.Text(name))
	}
	return in
}

// Shown compares the rows with what the watcher knows. Renewals reach pages by it.
func (u *State) Shown(now time.Time, of view.Viewer) error {
	w, ok := of.(*view.Watcher)
	if !ok {
		return nil
	}
	if u.sees(w); !w.Complete {
		return nil
	}
	u.Mu.Lock()
	fresh := !w.Troubled && w.Feed != nil
	if fresh {
		u.err, u.fresh = nil, w.Fresh
		u.log.NoteTrouble(nil)
	}
	u.Mu.Unlock()
	in := u.around(now, w.Expires())
	if !in.Silent {
		u.share(w, in)
	}
	oneShot := make(map[string]bool)
	for key, x := range w.Elections {
		if x.Last != nil {
			u.showNow(x, in)
		}
		if x.Now.Note.OneShot {
			oneShot[key] = true
		}
	}
	u.Mu.Lock()
	u.oneShot = oneShot
	u.Mu.Unlock()
	if fresh {
		u.Keep(func(key string) bool { return w.Elections[key] != nil })
		u.Complete(w.S.Clock.Now) // of all rows
	}
	return nil
}

// showNow shows the row of an election, with its record. That of a group's assigner is the row of the group, which has the
// members instead. Their own elections are not shown.
func (u *State) showNow(x *view.Watched, in judge.Around, changes ...webpage.Change) {
	key, row, record := x.Now.Election, rowOf(x, in), x.Now.Entry.Value
	if name, _, ok := group.NameOf(key); ok {
		g := u.groups[name]
		if key != group.AssignerKey(name) || g == nil { // Shown takes the group first
			return
		}
		record, row.Group, row.Value, row.Value64, row.Sharing = nil, name, g.brief, false, g.shown
		advise(&row, judge.WithAssigner(g.is, judge.Election(x.Now, x.As, in)))
	}
	u.Show(row, record, changes...)
}

// NoteTrouble shows why the page is not up to date.
func (u *State) NoteTrouble(err error) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if (u.err == nil) != (err == nil) {
		u.turn()
	}
	u.err = err
	u.showHead()
	if err != nil { // nil: the watcher reads the elections again first
		u.log.NoteTrouble(err)
		u.Trouble(front.ErrorText(err), u.fresh)
	}
}

// rowOf returns the row of an election.
func rowOf(x *view.Watched, in judge.Around) webpage.Row {
	s := x.Now
	row := webpage.Row{
		Key: s.Election, State: string(x.As), ID: s.Holder.ID, Token: s.Holder.Token,
		Revision: s.Entry.Revision, Written: webpage.Milliseconds(s.Entry.Created),
	}
	switch x.As {
	case facts.Leading, facts.Pending:
		if host := records.HostOf(row.ID); host != row.ID {
			row.Host = host
		}
		row.Expires, row.Lease = webpage.Milliseconds(s.Expires()), s.Holder.Lease.Milliseconds()
		var base string
		row.Value, base = facts.Value64(s.Holder.Value)
		if base != "" {
			row.Value, row.Value64 = base, true
		}
	case facts.Released, facts.Expired, facts.Deleted, facts.Foreign, facts.Never:
		row.ID = ""
		if last := s.Last(); last != nil {
			row.ID, row.Token, row.Value, row.Value64 = last.ID, last.Token, cmp.Or(last.Value, last.Value64), last.Value64 != ""
		}
	}
	advise(&row, judge.Election(x.Now, x.As, in))
	return row
}

// advise shows in a row what is wrong, and what to do.
func advise(row *webpage.Row, is judge.Finding) {
	row.Trouble, row.Code = int(judge.TroubleOf(is, facts.State(row.State))), string(is.Code)
	row.Why, row.Do, row.Link = is.Text, is.Advice, is.Runbook
	if !is.Since.IsZero() {
		row.Since = webpage.Milliseconds(is.Since)
	}
}

var errNoElection = errors.New("no connection, or no such election")

// inspectorOf returns the connection that requests about an election use.
func (u *State) inspectorOf(election string) (*inspect.Inspector, error) {
	s := u.inspector()
	if s == nil || inspect.CheckElection(election) != nil {
		return nil, errNoElection
	}
	return s, nil
}

// roster observes the roster of an election for a page.
func (u *State) roster(ctx context.Context, election string) (<-chan []roster.Entry, error) {
	s, err := u.inspectorOf(election)
	if err != nil {
		return nil, err
	}
	all, err := roster.Observe(ctx, s.Bucket, election)
	if err != nil && !errors.Is(err, leader.ErrNoRoster) {
		err = errors.New(front.ErrorText(err))
	}
	return all, err
}

// actions returns what a page may ask leaders for.
func (u *State) actions() map[string]webpage.Action {
	return map[string]webpage.Action{
		"step-down": u.act(func(ctx context.Context, b *leader.Bucket, a uiAction) (leader.Holder, error) {
			return leader.StepDown(ctx, b, a.Election, leader.StepDownOptions{By: act.Requester("serve"), Token: a.Token})
		}),
		"transfer": u.act(func(ctx context.Context, b *leader.Bucket, a uiAction) (leader.Holder, error) {
			return leader.StepDown(ctx, b, a.Election, leader.StepDownOptions{To: a.ID, Next: a.ID == "", By: act.Requester("serve"), Token: a.Token})
		}),
		"drain-member": u.onName(func(ctx context.Context, look *inspect.Inspector, g *front.Globals, a uiName) error {
			return onMember(ctx, look, shard.Drain, a, g, "is asked: each of its shards moves as soon as the work on it has ended")
		}),
		"undrain-member": u.onName(func(ctx context.Context, look *inspect.Inspector, g *front.Globals, a uiName) error {
			return onMember(ctx, look, shard.Undrain, a, g, "may take shards")
		}),
		"drain": u.onName(func(ctx context.Context, look *inspect.Inspector, g *front.Globals, a uiName) error {
			d := act.Drain{StepDown: act.StepDown{Globals: g, Wait: uiWait, Tool: "serve", Yes: true}, Name: a.Name, Cordon: a.Cordon}
			return d.Run(ctx, look)
		}),
		"uncordon": u.onName(func(ctx context.Context, look *inspect.Inspector, g *front.Globals, a uiName) error {
			end := act.Undrain{Globals: g, Names: []string{a.Name}}
			return end.Run(ctx, look)
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
func (u *State) onName(do func(context.Context, *inspect.Inspector, *front.Globals, uiName) error) webpage.Action {
	return func(ctx context.Context, request json.RawMessage) (any, error) {
		var a uiName
		if err := json.Unmarshal(request, &a); err != nil || a.Name == "" {
			return nil, &webpage.Error{Status: http.StatusBadRequest, Text: "no such leader or host"}
		}
		s := u.inspector()
		if s == nil {
			return nil, errNotConnected
		}
		look := &inspect.Inspector{Nc: s.Nc, Js: s.Js, Bucket: s.Bucket, Name: s.Name, Limit: s.Limit, Denials: s.Denials} // with a clock of its own
		var out bytes.Buffer
		err := look.Within(ctx, look.Ask)
		if err == nil {
			err = do(ctx, look, &front.Globals{Bucket: s.Name, Stdio: front.Stdio{Stdout: &out, Stderr: &out}}, a)
		}
		if err != nil {
			return nil, errors.New(out.String() + front.ErrorText(err))
		}
		return strings.TrimSpace(out.String()), nil
	}
}

// onMember asks a member of a group to give up its shards, or lets it take some again, and prints that.
func onMember(ctx context.Context, s *inspect.Inspector, do func(context.Context, leader.Store, string, string) error, a uiName, g *front.Globals, done string) error {
	err := s.Within(ctx, func(ctx context.Context) error { return do(ctx, s.Bucket, a.Group, a.Name) })
	if err != nil {
		return err
	}
	return front.PrintLines(g.Out(), []string{front.Printable(a.Name) + " " + done})
}

// errNotConnected is the answer to a request while there is no connection.
var errNotConnected = &webpage.Error{Status: http.StatusServiceUnavailable, Text: "there is no connection to NATS"}

// act answers a request that changes the leader.
func (u *State) act(do func(context.Context, *leader.Bucket, uiAction) (leader.Holder, error)) webpage.Action {
	return func(ctx context.Context, request json.RawMessage) (any, error) {
		var a uiAction
		if err := json.Unmarshal(request, &a); err != nil || inspect.CheckElection(a.Election) != nil {
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
		was, err := do(ctx, s.Bucket, a)
		done, err := act.HandedOver(ctx, s.Bucket, a.Election, uiWait, was, err)
		if err != nil {
			return nil, errors.New(front.ErrorText(err))
		}
		return done, nil
	}
}
