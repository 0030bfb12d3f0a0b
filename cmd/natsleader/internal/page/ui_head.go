package page

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/doctor"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/webpage"
)

// uiChecks are the checks of doctor by facts for which watch asks, too.
var uiChecks = []string{
	"bucket", "cluster", "replicas", "settings", "protection", "ttl", "max-lease", "republish", "lease", "payload",
}

// uiChecksEvery is the time from one run of these checks to the next, if no trouble comes or goes.
const uiChecksEvery = 10 * time.Second

// Examine makes the checks until ctx ends.
func (u *State) Examine(ctx context.Context, s *inspect.Inspector) {
	for {
		e := &doctor.Environment{Asker: inspect.Asker{Nc: s.Nc, Api: jsapi.APIPrefix(s.Js.Options()), Wait: s.Limit}, Js: s.Js, OwnBucket: s.Bucket, Name: s.Name}
		if e.Read(ctx, "Stream", "Settings"); s.Nc.IsConnected() {
			settings, _ := e.Settings.Get()
			u.Mu.Lock()
			u.Heading.Checked, u.Heading.Findings, u.Heading.Domain = true, shownFindings(judge.Of(e.Bucket, uiChecks...).Findings), settings.Domain
			u.Head(u.Heading)
			u.Mu.Unlock()
		}
		select {
		case <-time.After(uiChecksEvery):
		case <-u.turned:
		case <-ctx.Done():
			return
		}
	}
}

// shownFindings returns what is wrong or not known, the worst first.
func shownFindings(all []judge.Finding) []webpage.Finding {
	said := func(c judge.Cause) bool { // the check that is the cause says it itself
		return slices.ContainsFunc(all, func(f judge.Finding) bool { return f.Check == string(c) && f.Severity > judge.OK && f.Because == "" })
	}
	all = slices.DeleteFunc(slices.Clone(all), func(f judge.Finding) bool { return f.Severity == judge.OK || f.Because != "" && said(f.Because) })
	all = judge.Shown(all)
	slices.SortStableFunc(all, func(a, b judge.Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	shown := make([]webpage.Finding, len(all))
	for i, f := range all {
		shown[i] = webpage.Finding{Severity: f.Severity.String(), Text: f.Text, Advice: f.Advice}
		if f.Unchecked {
			shown[i].Text = f.Check + ": " + f.Text
		}
	}
	return shown
}

// sees takes the servers of a look that has succeeded, and the cordon.
func (u *State) sees(w *view.Watcher) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if u.info == w.Info && slices.Equal(u.Heading.Cordoned, w.Cordoned) {
		return
	}
	u.info, u.Heading.Cordoned = w.Info, w.Cordoned
	u.Heading.Server = cmp.Or(w.S.Nc.ConnectedServerName(), u.Heading.Server)
	u.Heading.Replicas = replicasOf(w.Info, u.Heading.Server)
	u.Head(u.Heading)
}

// replicasOf returns the servers that keep a bucket. A server that is in no cluster is the one that is connected.
func replicasOf(info *jetstream.StreamInfo, connected string) []webpage.Replica {
	all := []webpage.Replica{{Name: cmp.Or(inspect.StreamLeader(info), connected), Leads: true}}
	if info.Cluster == nil {
		return all
	}
	for _, r := range info.Cluster.Replicas {
		fault := ""
		switch {
		case r.Offline:
			fault = "offline"
		case r.Active > facts.LongSilence:
			fault = "silent for " + front.FormatAge(r.Active)
		case !r.Current:
			fault = fmt.Sprintf("%d behind", r.Lag)
		}
		all = append(all, webpage.Replica{Name: r.Name, Fault: fault})
	}
	slices.SortStableFunc(all[1:], func(a, b webpage.Replica) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
