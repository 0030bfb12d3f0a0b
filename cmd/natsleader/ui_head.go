package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/webpage"
)

// uiChecks are the checks of doctor by facts for which watch asks, too.
var uiChecks = []string{
	"bucket", "cluster", "replicas", "settings", "protection", "ttl", "max-lease", "republish", "lease", "payload",
}

// uiChecksEvery is the time from one run of these checks to the next, if no trouble comes or goes.
const uiChecksEvery = 10 * time.Second

// examine makes the checks until ctx ends.
func (u *uiState) examine(ctx context.Context, s *inspector) {
	for {
		e := &environment{nc: s.nc, js: s.js, bucket: s.bucket, name: s.name, api: jsapi.APIPrefix(s.js.Options()), wait: s.limit}
		if e.read(ctx, "Stream", "Settings"); s.nc.IsConnected() {
			settings, _ := e.Settings.Get()
			u.mu.Lock()
			u.head.Checked, u.head.Findings, u.head.Domain = true, shownFindings(judge.Of(e.Bucket, uiChecks...).Findings), settings.Domain
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
func shownFindings(all []judge.Finding) []webpage.Finding {
	all = slices.DeleteFunc(all, func(f judge.Finding) bool { return f.Severity == judge.OK || f.Unchecked || f.Because != "" })
	slices.SortStableFunc(all, func(a, b judge.Finding) int { return cmp.Compare(b.Severity, a.Severity) })
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
		case r.Active > facts.LongSilence:
			fault = "silent for " + formatAge(r.Active)
		case !r.Current:
			fault = fmt.Sprintf("%d behind", r.Lag)
		}
		all = append(all, webpage.Replica{Name: r.Name, Fault: fault})
	}
	slices.SortStableFunc(all[1:], func(a, b webpage.Replica) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
