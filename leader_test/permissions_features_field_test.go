//go:build field

package leader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// A pedantic client needs a wider permission for the roster. The error names it.
func TestPedantic_PermissionIsNamed(t *testing.T) {
	t.Parallel()
	const wider = "$JS.API.CONSUMER.CREATE.KV_E_roster.*"
	u := permRoster(permAnnouncer(permList("a", "a", false), "a"), "a")
	h := permServer(t, u)
	permRostered(t, h)
	b := tcpBucket(t, tcpJS(t, tcpDial(t, h.srv.ClientURL(), nats.UserInfo("a", "x"), nats.CustomInboxPrefix("_INBOX_a"), pedantic)))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	check.Says(t, check.Err(roster.Lookup(ctx, b, "a")), leader.ErrPermission, `Publish to "`+wider+`"`)
	u.pub = append(u.pub, wider)
	h.grant(t, u)
	tcpEventually(t, "it may", func() bool {
		_, err := roster.Lookup(t.Context(), b, "a")
		return err == nil
	})
}

// On a server a denied write shows as one without an answer. The preemptor that may not
// write the key pushes the leader out, is announced as denied, and leads when it may.
func TestPreemption_DeniedByAServer(t *testing.T) {
	t.Parallel()
	full := func(name string) permUser { return permRoster(permAnnouncer(permList(name, "a", false), "a"), "a") }
	h := permServer(t, full("low0"), full("low1"), full("high").without("$KV.E."))
	tcpCreate(t, permJS(t, h, "admin"), leader.BucketConfig{MaxLease: time.Second, Storage: jetstream.MemoryStorage, Roster: true})
	el := tcpElectionOf(t, "a")
	stand := func(name string, cfg leader.Config) *tcpCandidate {
		cfg.ID = name
		return el.stand(tcpBucket(t, permJS(t, h, name)), cfg)
	}
	low := []*tcpCandidate{stand("low0", byPriority)}
	tcpEventually(t, "the first leads", low[0].IsLeader)
	low = append(low, stand("low1", byPriority))
	high := stand("high", preemptor)
	bucket := tcpBucket(t, permJS(t, h, "admin"))
	stands := func(denied bool) func() bool {
		return func() bool {
			all := check.Got(roster.Lookup(t.Context(), bucket, "a"))(t)
			return slices.ContainsFunc(all, func(s roster.Entry) bool { return s.ID == "high" && s.Denied == denied })
		}
	}
	tcpEventually(t, "it stands", stands(false))
	low[0].Expect(leadertest.Deposed(leader.ErrResigned))
	tcpEventually(t, "it is named in vain", func() bool { return low[0].IsLeader() || low[1].IsLeader() })
	tcpEventually(t, "it is announced as denied", stands(true))
	h.grant(t, full("high"))
	tcpEventually(t, "it leads", high.IsLeader)
}

// A leader with the documented permissions of a candidate, and without the permission
// to answer, hands over like any other.
func TestStepDown_AnswerDenied(t *testing.T) {
	t.Parallel()
	operator := permObserver("b", false)
	operator.pub = append(operator.pub, "natsleader.ask.E.a")
	h := permServer(t, permList("a", "a", false), operator)
	permBucket(t, h, false, tcpLong)
	a := tcpElectionOf(t, "a").stand(tcpBucket(t, tcpJS(t, permDial(t, h, "a"))), leader.Config{ID: "a"})
	a.Expect(leadertest.Elected())
	nc := permDial(t, h, "b")
	asked, err := leader.StepDown(t.Context(), tcpBucket(t, tcpJS(t, nc)), "a", leader.StepDownOptions{By: "b"})
	check.That(t, err == nil && asked.ID == "a", "StepDown: %v, %v", asked, err)
	a.Expect(leadertest.Deposed(leader.ErrResigned))
	permDenials(t, nc)
}

// Without the permission a leader leads as before, and logs once for each connection
// that it cannot be asked. The requester's error names the missing permission.
func TestStepDown_WithoutPermission(t *testing.T) {
	t.Parallel()
	deaf := permList("a", "e", false).without("natsleader.ask")
	h := permServer(t, deaf, permList("b", "e", false))
	permBucket(t, h, false, 6*time.Second)
	var log bytes.Buffer
	a := tcpElectionOf(t, "e").stand(tcpBucket(t, tcpJS(t, permDial(t, h, "a"))), leader.Config{ID: "a", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a.Expect(leadertest.Elected())
	nc := permDial(t, h, "b")
	_, err := leader.StepDown(t.Context(), tcpBucket(t, tcpJS(t, nc)), "e", leader.StepDownOptions{By: "b"})
	check.That(t, errors.Is(err, leader.ErrPermission) && strings.Contains(err.Error(), `"`+asks+`"`),
		"StepDown: %v", err)
	tcpRenewed(t, tcpBucket(t, tcpJS(t, permDial(t, h, "admin"))), "e", 3)
	check.OK(t, a.Stop())
	tcpNoFaults(t, a)
	check.Equal(t, strings.Count(log.String(), "cannot be asked to hand over"), 1,
		"said %d times that it cannot be asked:\n%s", log.String())
}

// A client that may only observe sees the roster, and its changes.
func TestRoster_SeenByObserver(t *testing.T) {
	a, b := permAnnouncer(permList("a", "a", false), "a"), permAnnouncer(permList("b", "a", false), "a")
	h := permServer(t, permRoster(a, "a"), permRoster(b, "a"), permRoster(permObserver("o", false), "a"))
	permRostered(t, h)
	el := tcpElectionOf(t, "a")
	first := el.stand(tcpBucket(t, permJS(t, h, "a")), leader.Config{ID: "a", Queue: &leader.Queue{}})
	first.Expect(leadertest.Elected())
	nc := permDial(t, h, "o")
	looks := tcpBucket(t, tcpJS(t, nc))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all := check.Got(roster.Observe(ctx, looks, "a"))(t)
	told := func(want ...string) {
		t.Helper()
		var ids []string
		limit := time.After(tcpLimit)
		for {
			select {
			case now, ok := <-all:
				ids = ids[:0]
				for _, s := range now {
					ids = append(ids, fmt.Sprintf("%s %d %s", s.ID, s.Priority, s.Value))
				}
				if ok && slices.Equal(ids, want) {
					return
				}
			case <-limit:
				t.Fatalf("%q stand, want %q", ids, want)
			}
		}
	}
	told()
	store := tcpBucket(t, permJS(t, h, "b"))
	second := el.stand(store, leader.Config{ID: "b", Queue: &leader.Queue{Priority: 3}, Value: []byte("v")})
	told("b 3 v")
	once := check.Got(roster.Lookup(t.Context(), looks, "a"))(t)
	check.That(t, len(once) == 1 && once[0].ID == "b" && string(once[0].Value) == "v", "%v stand", once)
	check.OK(t, first.Stop())
	second.Expect(leadertest.Elected())
	told()
	cancel()
	for range all {
	}
	tcpNoFaults(t, first)
	tcpNoFaults(t, second)
	permDenials(t, nc)
}

// A candidate that may not announce itself reports that once, and stands all the same.
func TestAnnouncement_Denied(t *testing.T) {
	t.Parallel()
	h := permServer(t, permList("a", "a", false))
	permRostered(t, h)
	a := tcpElectionOf(t, "a").stand(tcpBucket(t, permJS(t, h, "a")), leader.Config{ID: "a", Queue: &leader.Queue{}, LeaseDuration: 6 * time.Second})
	a.Expect(leadertest.Elected())
	a.Expect(leadertest.Faulted(leader.ErrPermission))
	tcpRenewed(t, tcpBucket(t, permJS(t, h, "admin")), "a", 8) // longer than a lease
	check.OK(t, leadertest.Resign(t.Context(), a.Candidate))
	a.Expect(leadertest.Elected())
}
