//go:build field

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// step-down makes the leader hand over.
func TestStepDown_HandsOver(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	_, js := connectTo(t, url)
	bucket, err := leader.OpenBucket(js, "elections")
	if err != nil {
		t.Fatal(err)
	}
	b, err := leader.Campaign(t.Context(), bucket, "billing", leader.Config{ID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { <-b.Done() }()
	defer func() { _ = b.Stop(t.Context()) }()
	eventually(t, "b knows who leads", func() bool { h, ok := b.Leader(); return ok && h.ID == "a" })

	token := tokenOf(t, a)
	out := succeeds(t, "step-down", "billing", "-s", url)
	if !strings.HasPrefix(out, "a has handed over billing ("+token+")\nb leads with token ") {
		t.Errorf("%q", out)
	}
	if a.IsLeader() {
		t.Error("a still leads")
	}
}

// step-down of an election without a leader fails.
func TestStepDown_WithoutLeader(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	fails(t, natsleader(t, "step-down", "billing", "-s", url), exitFailed, "nobody leads billing")
	fails(t, natsleader(t, "step-down", "billing", "--force", "--yes", "-s", url), exitFailed, "nobody leads billing")
	fails(t, natsleader(t, "step-down", "billing", "--bucket", "other", "-s", url), exitBucket, "natsleader bucket add other")
	fails(t, natsleader(t, "step-down", "b*", "-s", url), exitUsage, `"b*"`)
	fails(t, natsleader(t, "step-down", "-s", url), exitUsage, "election")

	_, js := connectTo(t, url)
	put(t, js, "foreign", "hello")
	fails(t, natsleader(t, "step-down", "foreign", "-s", url), exitFailed, "nobody leads foreign")
	c := campaigns(t, url, "elections", "mail", leader.Config{})
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	fails(t, natsleader(t, "step-down", "mail", "--force", "--yes", "-s", url), exitFailed, "nothing to delete")
}

// step-down reports a leader that refuses, is silent or is slow.
func TestStepDown_RefusedOrSlow(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	campaigns(t, url, "elections", "refused", leader.Config{ID: "a", RefuseRequests: true})
	fails(t, natsleader(t, "step-down", "refused", "-s", url), exitFailed, "a refuses requests to step down")

	_, js := connectTo(t, url)
	put(t, js, "silent", record(t, js, "refused", "b", time.Hour))
	fails(t, natsleader(t, "step-down", "silent", "-s", url), exitUnreachable, "b has not handed over, and does not answer: it may be draining")

	c := campaigns(t, url, "elections", "slow", leader.Config{ID: "c", DrainTimeout: time.Hour})
	term, _ := c.Term()
	defer term.Release()
	fails(t, natsleader(t, "step-down", "slow", "--wait", "1s", "-s", url), exitWaited, "c has not handed over within 1s")
}

// step-down --force deletes the key and says what that means.
func TestStepDownForce_DeletesKey(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{MaxLease: 6 * time.Second})
	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a", RefuseRequests: true})
	out := succeeds(t, "step-down", "billing", "--force", "--yes", "-s", url)
	for _, says := range []string{"a leads it and finds out at its next renewal", "wait for 6s, the lease on record", "nobody leads", "\ndeleted\n"} {
		if !strings.Contains(out, says) {
			t.Errorf("does not say %q:\n%s", says, out)
		}
	}
	if got, _ := statusJSON(t, url, "billing"); got.State != stateDeleted && got.State != statePending {
		t.Errorf("%+v", got)
	}
	eventually(t, "a finds out", func() bool { return !a.IsLeader() })

	_, js := connectTo(t, url)
	put(t, js, "foreign", "hello")
	succeeds(t, "step-down", "foreign", "--force", "--yes", "-s", url)
	if got, _ := statusJSON(t, url, "foreign"); got.State != stateDeleted {
		t.Errorf("%+v", got)
	}
}

// renewal returns the record of a current term of the election model.
func renewal(t *testing.T, js jetstream.JetStream, id string, lease time.Duration) string {
	t.Helper()
	return strings.Replace(record(t, js, "model", id, lease), `"state":"elected"`, `"state":"leading","token":7`, 1)
}

// renewing is a bucket in which the leader renews its lease right before each of
// the first deletions.
type renewing struct {
	backend.Store
	renew func()
	times int
}

func (r *renewing) Mark(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	if r.times > 0 {
		r.times--
		r.renew()
	}
	r.Store.Mark(ctx, key, value, revision, reply)
}

// step-down --force does not delete the key of a holder that was not shown.
func TestStepDownForce_ShownHolderOnly(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	_, js := connectTo(t, url)
	campaigns(t, url, "elections", "model", leader.Config{ID: "a"})
	a, b := renewal(t, js, "a", time.Hour), renewal(t, js, "b", time.Hour)
	g := &globals{bucket: "elections", timeout: patience, noContext: true}
	g.settings = append(g.settings, func() natscontext.Option { return natscontext.WithServerURL(url) })
	look, err := g.newInspector(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer look.close()
	look.clock.server = look.clock.server.Add(time.Second) // its clock never lags behind the server's
	bucket := look.bucket.Backend()
	remove := func(election string, bucket backend.Store, meanwhile string) (state, error) {
		put(t, js, election, a)
		shown, err := look.one(t.Context(), election)
		if err != nil {
			t.Fatal(err)
		}
		if meanwhile != "" {
			put(t, js, election, meanwhile)
		}
		s := &stepDown{globals: g, election: election}
		_, err = s.remove(t.Context(), look, bucket, shown, stateLeading, 0)
		now, lookErr := look.one(t.Context(), election)
		if lookErr != nil {
			t.Fatal(lookErr)
		}
		return now.at(look.clock.now()), err
	}
	if got, err := remove("still", bucket, a); err != nil || got != stateDeleted {
		t.Errorf("renewed before: %v, %s", err, got)
	}
	again := &renewing{bucket, func() { put(t, js, "renewed", a) }, 2}
	if got, err := remove("renewed", again, ""); err != nil || got != stateDeleted || again.times != 0 {
		t.Errorf("renewed between: %v, %s", err, got)
	}
	succeeded := &renewing{bucket, func() { put(t, js, "succeeded", b) }, 1}
	for election, x := range map[string]struct {
		bucket    backend.Store
		meanwhile string
		says      string
		is        state
	}{
		"succeeded": {succeeded, "", "b leads succeeded with token 7 by now; nothing was deleted", stateLeading},
		"other":     {bucket, b, "b leads other with token 7 by now; nothing was deleted", stateLeading},
		"later":     {bucket, strings.Replace(a, `"token":7`, `"token":9`, 1), "a leads later with token 9 by now; nothing was deleted", stateLeading},
		"taken":     {bucket, strings.Replace(a, `"state":"leading","token"`, `"state":"pending","least"`, 1), "a holds the key of taken by now; nothing was deleted", statePending},
		"silent":    {bucket, renewal(t, js, "a", time.Nanosecond), "nobody leads silent by now; nothing was deleted", stateExpired},
		"foreign":   {bucket, "hello", "the key of foreign holds something", stateForeign},
	} {
		got, err := remove(election, x.bucket, x.meanwhile)
		if err == nil || codeOf(err) != exitFailed || !strings.HasPrefix(err.Error(), x.says) || got != x.is {
			t.Errorf("%s: %v, %s", election, err, got)
		}
	}
}
