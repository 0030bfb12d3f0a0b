package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/webpage"
)

// uiChecks are the checks of doctor that ask for nothing but what watch asks for.
var uiChecks = []string{
	"bucket", "cluster", "replicas", "settings", "protection", "ttl", "max-lease", "republish", "lease", "payload",
}

// uiChecksEvery is the time from one run of these checks to the next, if no trouble comes or goes.
const uiChecksEvery = 10 * time.Second

// examine makes the checks until ctx ends.
func (u *uiState) examine(ctx context.Context, s *inspector) {
	some := slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return !slices.Contains(uiChecks, c.name) })
	for {
		e := &environment{nc: s.nc, js: s.js, bucket: s.bucket, name: s.name, api: jsapi.APIPrefix(s.js.Options()), wait: s.limit}
		if found := e.runChecks(ctx, some); s.nc.IsConnected() {
			u.mu.Lock()
			u.head.Checked, u.head.Findings, u.head.Domain = true, shownFindings(found), e.settings.Domain
			u.Head(u.head)
			u.mu.Unlock()
		}
		select {
		case <-time.After(uiChecksEvery):
		case <-u.turned:
		case <-ctx.Done():
			return
		}
	}
}

// shownFindings returns what is wrong, the worst first.
func shownFindings(all []finding) []webpage.Finding {
	all = slices.DeleteFunc(all, func(f finding) bool {
		return f.Severity == severityOK || f.unchecked || strings.HasSuffix(f.Text, noSettings)
	})
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(b.Severity, a.Severity) })
	shown := make([]webpage.Finding, len(all))
	for i, f := range all {
		shown[i] = webpage.Finding{Severity: f.Severity.String(), Text: f.Text, Advice: f.Advice}
	}
	return shown
}

// sees takes the servers of a look that has succeeded, and the cordon.
func (u *uiState) sees(w *watcher) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.info == w.info && slices.Equal(u.head.Cordoned, w.cordoned) {
		return
	}
	u.info, u.head.Cordoned = w.info, w.cordoned
	u.head.Server = cmp.Or(w.s.nc.ConnectedServerName(), u.head.Server)
	u.head.Replicas = replicasOf(w.info, u.head.Server)
	u.Head(u.head)
}

// replicasOf returns the servers that keep a bucket. A server that is in no cluster is the one that is connected.
func replicasOf(info *jetstream.StreamInfo, connected string) []webpage.Replica {
	all := []webpage.Replica{{Name: cmp.Or(streamLeader(info), connected), Leads: true}}
	if info.Cluster == nil {
		return all
	}
	for _, r := range info.Cluster.Replicas {
		fault := ""
		switch {
		case r.Offline:
			fault = "offline"
		case r.Active > longSilence:
			fault = "silent for " + formatAge(r.Active)
		case !r.Current:
			fault = fmt.Sprintf("%d behind", r.Lag)
		}
		all = append(all, webpage.Replica{Name: r.Name, Fault: fault})
	}
	slices.SortStableFunc(all[1:], func(a, b webpage.Replica) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
