// Package health answers over HTTP whether a candidate leads, whether its process works, and
// whether it is connected:
//
//	mux.Handle("/leader", health.Leader(candidate))
//	mux.Handle("/live", health.Live(candidate))
//	mux.Handle("/connected", health.Connected(candidate))
//
// [Connected] is the one that a deployment can believe: a candidate is connected from the answer of
// its bucket on, as long as the bucket is not silent for more than half a lease and renews the
// lease that the candidate has ([leader.Stats.Connected]). A load balancer that sends traffic to the leader alone checks [Leader] of every replica.
// At any instant at most one replica answers 200, or as many as the election has seats. The
// load balancer checks only now and then. So for one interval of its checks it may still
// send requests to a leader that was deposed, and the code that serves the requests has to
// ask leader.Err itself before each step that matters.
//
// In Kubernetes the liveness probe goes to [Live]. Then a pod is started anew if its
// candidate has ended with an error, or is stuck, or its work is. A silence of NATS is no reason to start a
// pod anew, because the candidate goes on by itself when NATS is back. So the liveness probe
// never goes to [Connected], or an outage of NATS restarts every pod. It never goes to
// [Leader], or every pod but one is killed again and again.
//
// A readiness probe may go to [Connected], so that a roll-out stops at pods that do not
// reach NATS. In an outage of NATS none of the pods is ready then. Where a Service sends
// requests to the pods that they can answer without NATS, leave it out. The readiness probe
// goes to [Leader] only if the traffic of a Service shall reach the leader alone. A roll-out
// of a Deployment then waits for pods that are not ready because they do not lead, unless
// maxUnavailable is 100%.
//
// The body is one JSON object. For a nil candidate it is an error, with 503. All three have
//
//	election                 the name of the election
//	id                       of the candidate
//	error                    why the candidate has ended, or what is wrong
//
// Live adds
//
//	live                     its result
//
// and the other two add
//
//	state                    candidate, pending, leader, fenced or ended
//	is_leader                whether it leads at this instant, by its clock
//	token                    of the term that it leads
//	lease_remaining_seconds  for how long that is certain without another renewal
//	leader                   the other leader, if known; of several, the one on the lowest seat:
//	  id, token, since       since is the server's time of the election
//	  value                  the value that it has published, if that is UTF-8
//	  value64                in base64 otherwise
//	connected                the result of Connected
//	silent_seconds           the time since the last sign of a majority of the servers, if one is missing
//
// [MemberConnected] and [MemberLive] are for a member of a group of package shard, in place of Connected and Live of its
// election. Their bodies have group, id and error, and live or
//
//	connected, silent_seconds  of the election of the member, whose lease all its shards share
//	owned, granted, draining   shards that it works on, has been granted, and that end
//	waiting                    shards that wait for shard.Member.Serve
//	assigner                   ID of the assigner
//	members, unowned, moving   of the group, if this process is the assigner, as in shard.Stats
//	uneven
//
// All fields of a body but leader are of one instant, so they do not contradict each other. A
// candidate that leads is_leader, and is in the state leader. One that is connected is not fenced,
// unless it steps down or its work goes on. Unknown fields are left out. The body is as public as the handler's address, and that of
// Leader and Connected contains the value that the leader has published.
package health

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// Leader returns a handler that answers 200 while [leader.Err] of the candidate's term
// is nil. Otherwise it answers 503, and names the candidate that leads instead. It asks the
// clock, not a flag, so a process that was stopped for an hour answers 503 at once.
func Leader(c *leader.Candidate) http.Handler {
	return handler(c != nil, func(context.Context) (any, bool) {
		r := look(c, c.Stats())
		return r, r.IsLeader
	})
}

// Live returns a handler that answers 200 while the candidate works, and 503 once it has ended
// with an error (leader.Candidate.Err), or if [leader.Candidate.Ping] fails: because a call of the
// Store, a Guard or the Clock hangs for a second, or because the work of a term hangs
// ([leader.Config].StallTimeout) after the candidate has handed over. After leader.Candidate.Stop
// and the end of the context given to Campaign it answers 200: the process is about to end
// by itself.
//
// Live waits for the goroutine and for nothing else. It reads neither the state nor the clock.
func Live(c *leader.Candidate) http.Handler {
	return handler(c != nil, func(ctx context.Context) (any, bool) {
		err := ping(ctx, c)
		r := liveness{Election: c.Election(), ID: c.ID(), Live: err == nil}
		if err != nil {
			r.Error = err.Error()
		}
		return r, r.Live
	})
}

// MemberLive returns a handler that answers 200 while the member works, and 503 once it has ended with an error
// (shard.Member.Err), or if [shard.Member.Ping] fails or takes longer than a second. Ping also fails while granted shards
// have waited for shard.Member.Serve for more than a lease: a restart helps if the set-up of the program hangs. So do what
// can take longer before shard.Join.
func MemberLive(m *shard.Member) http.Handler {
	return handler(m != nil, func(ctx context.Context) (any, bool) {
		err := ping(ctx, m)
		r := liveness{Group: m.Group(), ID: m.ID(), Live: err == nil}
		if err != nil {
			r.Error = err.Error()
		}
		return r, r.Live
	})
}

// MemberConnected returns a handler that answers 200 while [leader.Stats.Connected] of the member's own election returns nil, and
// [shard.Member.Ping] does not return [shard.ErrNotBegun]: granted shards have not waited for shard.Member.Serve for more
// than a lease. Otherwise it answers 503, with the reason as error.
func MemberConnected(m *shard.Member) http.Handler {
	return handler(m != nil, func(ctx context.Context) (any, bool) {
		idle := ping(ctx, m)
		s := m.Stats()
		err := s.Election.Connected()
		r := memberReport{
			Group: m.Group(), ID: m.ID(), Connected: err == nil, Silent: s.Election.Silent.Seconds(),
			Owned: s.Owned, Granted: s.Granted, Draining: s.Draining, Waiting: s.Waiting, Assigner: s.Assigner,
		}
		if s.Assigns {
			r.groupReport = &groupReport{s.Members, s.Unowned, s.Moving, s.Uneven}
		}
		switch {
		case err != nil:
			r.Error = cmp.Or(m.Err(), err).Error()
		case errors.Is(idle, shard.ErrNotBegun):
			r.Error = idle.Error()
		}
		return r, r.Error == ""
	})
}

// liveLimit is the time in which a goroutine has to answer. A goroutine that is not held up
// answers as soon as a processor runs it.
const liveLimit = time.Second

// ping returns nil if a candidate or a member is well, and what is wrong otherwise.
func ping(ctx context.Context, c interface {
	Ping(ctx context.Context) error
	Err() error
},
) error {
	limited, cancel := deadline.Within(ctx, liveLimit)
	defer cancel()
	err := c.Ping(limited)
	switch {
	case errors.Is(err, leader.ErrStopped): // Err waits for nothing any more
		return c.Err()
	case errors.Is(err, leader.ErrStalled), errors.Is(err, shard.ErrNotBegun):
		return err
	case err != nil:
		return fmt.Errorf("a goroutine does not answer: %w", err)
	}
	return nil
}

// Connected returns a handler that answers 200 while [leader.Stats.Connected] returns nil: from
// when the bucket has answered until the candidate has ended, except while no sign of a majority
// of the servers has come for more than half of the candidate's lease ([leader.Stats].Silent), and
// while the candidate is fenced because it could not renew its lease, and while its work hangs
// ([leader.Stats].Stalled). Otherwise it answers 503,
// with the reason as error. So a candidate that is cut off answers 503 before another leads in its
// place, and one that has never reached its bucket does so from the beginning.
func Connected(c *leader.Candidate) http.Handler {
	return handler(c != nil, func(context.Context) (any, bool) {
		s := c.Stats()
		r, err := look(c, s), s.Connected()
		connected := err == nil
		if s.State == leader.StateEnded {
			err = c.Err()
		}
		if err != nil {
			r.Error = err.Error()
		}
		r.Connected, r.Silent = &connected, s.Silent.Seconds()
		return r, connected
	})
}

var candidate = leader.StateCandidate.String()

// liveness is the body of Live and MemberLive.
type liveness struct {
	Election string `json:"election,omitempty"`
	Group    string `json:"group,omitempty"`
	ID       string `json:"id"`
	Live     bool   `json:"live"`
	Error    string `json:"error,omitempty"`
}

// memberReport is the body of MemberConnected.
type memberReport struct {
	Group     string  `json:"group"`
	ID        string  `json:"id"`
	Owned     int     `json:"owned"`
	Granted   int     `json:"granted"`
	Draining  int     `json:"draining"`
	Waiting   int     `json:"waiting"`
	Assigner  string  `json:"assigner,omitempty"`
	Connected bool    `json:"connected"`
	Silent    float64 `json:"silent_seconds,omitempty"`
	Error     string  `json:"error,omitempty"`
	*groupReport
}

// groupReport is what the assigner adds.
type groupReport struct {
	Members int `json:"members"`
	Unowned int `json:"unowned"`
	Moving  int `json:"moving"`
	Uneven  int `json:"uneven"`
}

// report is the body of Leader and Connected.
type report struct {
	Election  string  `json:"election"`
	ID        string  `json:"id"`
	State     string  `json:"state"`
	IsLeader  bool    `json:"is_leader"`
	Token     uint64  `json:"token,omitempty"`
	Remains   float64 `json:"lease_remaining_seconds,omitempty"`
	Leader    *other  `json:"leader,omitempty"`
	Connected *bool   `json:"connected,omitempty"`
	Silent    float64 `json:"silent_seconds,omitempty"`
	Error     string  `json:"error,omitempty"`
}

// other is another candidate, which leads.
type other struct {
	ID      string    `json:"id"`
	Value   string    `json:"value,omitempty"`
	Value64 []byte    `json:"value64,omitempty"`
	Token   uint64    `json:"token"`
	Since   time.Time `json:"since,omitzero"`
}

// look makes a report of a snapshot, so that no two parts contradict each other.
func look(c *leader.Candidate, s leader.Stats) report {
	r := report{Election: c.Election(), ID: c.ID(), State: s.State.String()}
	if s.State == leader.StateLeader {
		r.IsLeader, r.Token, r.Remains = true, s.Token, s.Remaining.Seconds()
		return r
	}
	// A candidate that was elected after the snapshot is not reported as another one. If its state is
	// candidate, also after the call of Leader, the leader is another that has been given the same ID.
	h := c.Leader()
	if h.State == leader.HolderLeading && (h.ID != r.ID || r.State == candidate && c.State().String() == candidate) {
		r.Leader = &other{ID: h.ID, Token: h.Token, Since: h.Since}
		if utf8.Valid(h.Value) {
			r.Leader.Value = string(h.Value)
		} else {
			r.Leader.Value64 = h.Value
		}
	}
	return r
}

// handler serves what report returns, as JSON, or an error if there is no candidate or member.
func handler(exists bool, report func(context.Context) (body any, ok bool)) http.Handler {
	if !exists {
		report = func(context.Context) (any, bool) {
			return map[string]string{"error": "there is no candidate or member"}, false
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are served here", http.StatusMethodNotAllowed)
			return
		}
		h.Set("Content-Type", "application/json")
		body, ok := report(r.Context())
		status := http.StatusOK
		if !ok {
			status = http.StatusServiceUnavailable
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // the client may be gone
	})
}
