package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// longSilence is too long a silence for a server that is alive. The leader of a stream
	// hears of each one every second. Servers that were killed count as online for much
	// longer, and as current while nothing is written.
	longSilence = 5 * time.Second
	// settleTime is how long doctor looks at replicas that are not current. A server that is
	// alive is heard twice in that time.
	settleTime = 2500 * time.Millisecond
	// settlePause is the time from one of these looks to the next.
	settlePause = 500 * time.Millisecond
)

// replicaLooks are two looks at the servers of a stream that the same server leads.
type replicaLooks struct {
	first, last *jetstream.ClusterInfo
	apart       time.Duration
	caughtUp    map[string]bool // servers that were less behind in a look than in the first one
}

func newReplicaLooks(c *jetstream.ClusterInfo) replicaLooks {
	return replicaLooks{first: c, last: c, caughtUp: make(map[string]bool)}
}

// take adds a look.
func (l *replicaLooks) take(c *jetstream.ClusterInfo, apart time.Duration) {
	l.last, l.apart = c, apart
	for _, r := range c.Replicas {
		if was := l.before(r.Name); was != nil && (r.Current && r.Active < longSilence || r.Active > 0 && r.Lag < was.Lag) {
			l.caughtUp[r.Name] = true
		}
	}
}

// before returns a server as it was in the first look, or nil.
func (l *replicaLooks) before(name string) *jetstream.PeerInfo {
	for _, r := range l.first.Replicas {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// settled reports whether another look would change nothing.
func (l *replicaLooks) settled() bool {
	for _, r := range l.last.Replicas {
		if !r.Offline && r.Active <= longSilence && !r.Current && !l.caughtUp[r.Name] {
			return false
		}
	}
	return true
}

// judge returns the finding about a server, and whether it is missing: whether the stream has
// to do without it.
func (l *replicaLooks) judge(r *jetstream.PeerInfo) (f finding, missing bool) {
	const bring = "bring the server back, or have another take its place"
	silent := r.Active.Round(time.Second)
	switch {
	case r.Offline:
		// A leader that has never heard of the server does not know when it was last seen.
		seen := ""
		if r.Active > 0 {
			seen = fmt.Sprintf(", last seen %v ago", silent)
		}
		return severityWarning.of("the replica on %s is offline%s", r.Name, seen).advise(bring), true
	case r.Active > longSilence:
		return severityWarning.of("the replica on %s has not been heard of for %v: the server is dead, hung or cut off", r.Name, silent).advise(bring), true
	case r.Current || l.caughtUp[r.Name] && r.Lag == 0:
		return finding{}, false
	case l.caughtUp[r.Name]:
		return severityNote.of("the replica on %s is catching up, %d operations behind", r.Name, r.Lag), false
	case l.apart < settleTime:
		return unread("whether the replica on %s is catching up: it is %d operations behind", r.Name, r.Lag).
			advise("run doctor again"), r.Active == 0
	case r.Active == 0:
		return severityWarning.of("the replica on %s has not been heard of since %s leads the stream: the server is dead, hung or cut off", r.Name, l.last.Leader).advise(bring), true
	case r.Active >= l.apart:
		return severityWarning.of("the replica on %s has not been heard of for %v, and is %d operations behind: the server is dead, hung or cut off", r.Name, silent, r.Lag).advise(bring), true
	default:
		return severityWarning.of("the replica on %s is %d operations behind, and has not caught up in %v", r.Name, r.Lag, l.apart.Round(100*time.Millisecond)).
			advise("look at the log of the server, and at its disk"), true
	}
}

// lookAtReplicas looks at the stream again if one of its servers is not current. A leader that
// has just been elected says of a dead server what it says of one that starts.
func (e *environment) lookAtReplicas(ctx context.Context) {
	c := e.info.Cluster
	if c == nil || c.Leader == "" {
		return
	}
	e.looks = newReplicaLooks(c)
	began, end := e.infoAt, time.Now().Add(2*settleTime)
	for !e.looks.settled() && e.looks.apart < settleTime && time.Now().Before(end) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(settlePause):
		}
		var info jetstream.StreamInfo
		asked := time.Now()
		err := e.request(&nats.Msg{Subject: e.api + "STREAM.INFO." + e.info.Config.Name}, &info)
		switch {
		case err != nil || info.Cluster == nil || info.Cluster.Leader == "":
			return
		case info.Cluster.Leader != e.looks.first.Leader:
			e.looks, began = newReplicaLooks(info.Cluster), asked
		default:
			e.looks.take(info.Cluster, asked.Sub(began))
		}
	}
}

// missing names the servers that the stream has to do without, and counts those that it never
// got.
func (e *environment) missing() (names []string, vacant int) {
	if e.looks.last == nil {
		return nil, 0
	}
	for _, r := range e.looks.last.Replicas {
		if _, gone := e.looks.judge(r); gone {
			names = append(names, r.Name)
		}
	}
	return names, max(0, e.info.Config.Replicas-1-len(e.looks.last.Replicas))
}

func checkCluster(_ context.Context, e *environment) []finding {
	c := e.info.Cluster
	if c == nil || c.Name == "" {
		return []finding{fine("a single server, no cluster")}
	}
	if c.Leader == "" {
		return []finding{severityCritical.of("stream %s has no leader: nothing can be written, and every lease runs out", e.info.Config.Name).
			advise("if that lasts for more than some seconds, bring back a majority of its servers")}
	}
	c = e.looks.last
	var found []finding
	for _, r := range c.Replicas {
		if f, _ := e.looks.judge(r); f.Text != "" {
			found = append(found, f)
		}
	}
	names, vacant := e.missing()
	size := 1 + len(c.Replicas) + vacant
	if vacant > 0 {
		found = append(found, severityWarning.of("the stream has servers for %d of its %d replicas only", size-vacant, size).
			advise("add servers to the cluster, or bring back those that the stream may be placed on"))
	}
	if gone := len(names) + vacant; size-gone <= size/2 {
		found = append(found, severityCritical.of("%d of the stream's %d servers are missing: nothing can be written, and every lease runs out", gone, size).
			advise("bring back a majority of its servers"))
	}
	switch {
	case len(found) > 0:
	case size == 1:
		found = append(found, fine("cluster %s, the stream is on %s", c.Name, c.Leader))
	default:
		found = append(found, fine("cluster %s, the stream is led by %s, all %d replicas are current", c.Name, c.Leader, size))
	}
	return found
}

func checkReplicas(_ context.Context, e *environment) []finding {
	n := e.info.Config.Replicas
	if streamLeader(e.info) == "" && e.info.Cluster != nil && e.info.Cluster.Name != "" {
		return []finding{unanswered("the stream has no leader, which alone knows its replicas")}
	}
	clustered := e.info.Cluster != nil && e.info.Cluster.Name != ""
	names, vacant := e.missing()
	gone := len(names) + vacant
	spare := (n+1)/2 - 1 - gone // servers that can still be lost
	lost := fmt.Sprintf("%d replicas, %d of them missing", n, gone)
	if len(names) > 0 {
		lost += " (" + strings.Join(names, ", ") + ")"
	}
	switch {
	case n <= 1 && clustered:
		return []finding{severityWarning.of("one replica: while server %s is away nobody can lead, and with its disk all tokens are lost", e.info.Cluster.Leader).
			advise(e.addLine("--replicas 3"))}
	case n <= 1:
		return []finding{severityWarning.of("one replica, on the only server: while it is away nobody can lead, and with its disk all tokens are lost").
			advise("run a cluster of three servers, then: " + e.addLine("--replicas 3"))}
	case gone > 0 && spare < 0:
		return []finding{severityCritical.of("%s: elections stop", lost).advise("bring back a majority of the servers")}
	case gone > 0 && spare == 0:
		return []finding{severityWarning.of("%s: elections stop with the loss of one more server", lost).
			advise("bring back what is missing before you restart or update any other server")}
	case gone > 0:
		return []finding{severityWarning.of("%s: elections go on without %d more of their servers", lost, spare).
			advise("bring back what is missing")}
	case n%2 == 0:
		return []finding{severityWarning.of("%d replicas outlive the loss of no more servers than %d do, and are more to lose", n, n-1).
			advise(e.addLine(fmt.Sprintf("--replicas %d", n+1)))}
	default:
		return []finding{fine("%d replicas: elections go on without %d of their servers", n, n/2)}
	}
}
