package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/wire"
)

// leastVersion has message TTLs with markers, which report that a message has expired.
const leastVersion = "2.11"

func (x *exam) server() []Finding {
	found := append(x.versions(), x.account())
	if x.noJetStream() {
		found = append(found, Critical.of("JetStream does not answer on %s", strings.TrimSuffix(x.Asked.API, ".")).
			advise("enable it on the server and for this account; name a domain or prefix with --js-domain or --js-api-prefix"))
	}
	return found
}

// account names the account of the connection: a bucket of the same name in another account is another bucket. It is worth
// no right, so that it is not known is no fault.
func (x *exam) account() Finding {
	me, _ := x.Server.Get()
	if me.Account == "" {
		return unread("the account of this connection: %s", cmp.Or(me.NoAccount, facts.NotRead.String()))
	}
	return fine("the connection is in account %v", me.Account)
}

// clustered reports whether the stream of the bucket is in a cluster, as far as is known.
func (x *exam) clustered() bool {
	return x.info != nil && x.info.Cluster != nil && x.info.Cluster.Name != ""
}

// versions judges the versions of the servers that keep the stream: they evaluate the conditions of guarded writes, and
// let announcements lapse. It also judges the connected server, and others that answered, because the stream can move
// to them.
func (x *exam) versions() []Finding {
	me, _ := x.Server.Get()
	if !x.clustered() && len(me.Others) == 0 {
		return []Finding{judgeVersion("", me.Version)}
	}
	var found []Finding
	keep := x.streamServers()
	var sound []facts.Version // of the stream
	for _, v := range me.Others {
		switch f := judgeVersion(v.Name, v.Version); {
		case f.Severity > OK:
			if !slices.Contains(keep, v.Name) {
				f.Text += " (it does not keep the bucket now)"
			}
			found = append(found, f)
		case slices.Contains(keep, v.Name):
			sound = append(sound, v)
		}
	}
	slices.SortStableFunc(sound, func(a, b facts.Version) int { return strings.Compare(a.Version, b.Version) })
	for i := 0; i < len(sound); {
		var names []string
		version := sound[i].Version
		for ; i < len(sound) && sound[i].Version == version; i++ {
			names = append(names, sound[i].Name)
		}
		found = slices.Insert(found, 0, fine("nats-server %s on %s", version, strings.Join(names, ", ")))
	}
	missing := slices.DeleteFunc(keep, func(name string) bool { return x.version(name).Version != "" })
	switch {
	case len(missing) == 0:
	case me.Refused != "":
		found = append(found, unread("versions of %s: %s (candidates with guards ask the same)", strings.Join(missing, ", "), me.Refused).
			advise("allow it, or name a context with system credentials with --system-context"))
	case me.Unasked != "":
		found = append(found, unread("versions of %s: the servers were not asked: %s", strings.Join(missing, ", "), me.Unasked))
	default:
		found = append(found, unread("versions of %s: no answer", strings.Join(missing, ", ")))
	}
	return found
}

// version returns what is known of a server's version.
func (x *exam) version(name string) facts.Version {
	me, _ := x.Server.Get()
	for _, v := range append(me.Others, facts.Version{Name: me.Name, Version: me.Version, Answered: true}) {
		if v.Name == name {
			return v
		}
	}
	return facts.Version{}
}

// tooOld names the servers of the stream that let no announcement lapse, as far as is known.
func (x *exam) tooOld() (names []string) {
	for _, name := range x.streamServers() {
		if v := x.version(name).Version; v != "" && !atLeast(v, leastVersion) {
			names = append(names, name)
		}
	}
	return names
}

// atLeast compares two versions. One that is not understood is less than any other.
func atLeast(version, least string) bool {
	var v, l [3]int
	n, _ := fmt.Sscanf(least, "%d.%d.%d", &l[0], &l[1], &l[2])
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return slices.Compare(v[:n], l[:n]) >= 0
}

// judgeVersion judges the version of the named server, or of the connected one.
func judgeVersion(name, version string) Finding {
	who := "nats-server " + version
	if name != "" {
		who += " on " + name
	}
	var major, minor int
	switch _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); {
	case err != nil && name != "":
		return unread("server %s says that its version is %q", name, version)
	case err != nil:
		return unread("the server says that its version is %q", version)
	case !atLeast(version, leastVersion):
		return Warning.of("%s is older than %s: it keeps no roster, has no expiry markers, and candidates with guards do not stand", who, leastVersion).
			advise("update it to " + wire.LeastGuardServer + " or later, which all of these need")
	case !atLeast(version, wire.LeastGuardServer):
		return Warning.of("%s is older than %s: it accepts some guarded writes of earlier terms, and candidates with guards do not stand", who, wire.LeastGuardServer).
			advise("update it to " + wire.LeastGuardServer + " or later")
	default:
		return fine("%s", who)
	}
}

// streamServers names the servers that keep the stream of the bucket, or all that are known if it is not known.
func (x *exam) streamServers() (names []string) {
	me, _ := x.Server.Get()
	if x.info != nil {
		return StreamServers(x.info, me.Name)
	}
	for _, v := range me.Others {
		names = append(names, v.Name)
	}
	return names
}

// StreamServers names the servers that keep a stream, of which only the connected one is known without a cluster.
func StreamServers(info *jetstream.StreamInfo, connected string) []string {
	c := info.Cluster
	if c == nil || c.Name == "" {
		return []string{connected}
	}
	var names []string
	if c.Leader != "" { // otherwise each server is a replica
		names = append(names, c.Leader)
	}
	for _, r := range c.Replicas {
		names = append(names, r.Name)
	}
	return names
}

const (
	// SettleTime is how long doctor looks at replicas that are not current. A server that is
	// alive is heard twice in that time.
	SettleTime = 2500 * time.Millisecond

	bring = "bring the server back, or have another take its place"
)

// condition is what one look at a stream shows of one of its servers.
type condition int

const (
	current condition = iota
	behind
	silentFor // too long
	offline
)

func conditionOf(r *jetstream.PeerInfo) condition {
	switch {
	case r.Offline:
		return offline
	case r.Active > facts.LongSilence:
		return silentFor
	case !r.Current:
		return behind
	}
	return current
}

// Replica is a server that keeps a bucket, by one look at its stream.
type Replica struct {
	Name    string
	Leads   bool
	Fault   string // what is wrong with it; empty: nothing, as far as that is known
	Unknown bool   // the server may be well, or not
}

// Replicas returns the servers that keep a bucket, the leader first. A server in no cluster is that of the connection. If
// the stream was not read or has no leader, which alone knows its replicas, the servers of before are unknown.
func Replicas(stream facts.Fact[facts.Stream], before []Replica) (all []Replica) {
	s, _ := stream.Get()
	switch {
	case s.Info != nil && s.Info.Cluster == nil:
		return []Replica{{Name: stream.From().Server, Leads: true}}
	case s.Info == nil || s.Info.Cluster.Leader == "":
		for _, r := range before {
			all = append(all, Replica{Name: r.Name, Unknown: true})
		}
		return all
	}
	for _, r := range s.Info.Cluster.Replicas {
		x := Replica{Name: r.Name}
		switch c := conditionOf(r); {
		case c == offline:
			x.Fault = "offline"
		case c == silentFor:
			x.Fault = fmt.Sprintf("silent for %v", r.Active.Round(time.Second))
		case c == behind && r.Lag > 0:
			x.Fault = fmt.Sprintf("%d behind", r.Lag)
		case c == behind:
			x.Fault = "not current"
		}
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	return append([]Replica{{Name: s.Info.Cluster.Leader, Leads: true}}, all...)
}

// replica returns the finding on a server of the stream, and whether it is missing: whether the stream has to do
// without it.
func (x *exam) replica(r *jetstream.PeerInfo) (f Finding, missing bool) {
	l := x.stream.Looks
	caughtUp, silent := slices.Contains(l.CaughtUp, r.Name), r.Active.Round(time.Second)
	switch c := conditionOf(r); {
	case c == offline:
		// A leader that has never heard of the server does not know when it was last seen.
		seen := ""
		if r.Active > 0 {
			seen = fmt.Sprintf(", last seen %v ago", silent)
		}
		return x.unheard(r, fmt.Sprintf("the replica on %s is offline%s", r.Name, seen), ""), true
	case c == silentFor:
		return x.unheard(r, fmt.Sprintf("the replica on %s has not been heard of for %v", r.Name, silent), dead), true
	case c == current || caughtUp && r.Lag == 0:
		return Finding{}, false
	case caughtUp:
		return Note.of("the replica on %s is catching up, %d operations behind", r.Name, r.Lag), false
	case l.Apart < SettleTime:
		return unread("whether the replica on %s is catching up: it is %d operations behind", r.Name, r.Lag).
			advise("run doctor again"), r.Active == 0
	case r.Active == 0:
		return x.unheard(r, fmt.Sprintf("the replica on %s has not been heard of since %s leads the stream", r.Name, l.Last.Leader), dead), true
	case r.Active >= l.Apart:
		return x.unheard(r, fmt.Sprintf("the replica on %s has not been heard of for %v, and is %d operations behind", r.Name, silent, r.Lag), dead), true
	default:
		return Warning.of("the replica on %s is %d operations behind, and has not caught up in %v", r.Name, r.Lag, l.Apart.Round(100*time.Millisecond)).
			advise("look at the log of the server, and at its disk"), true
	}
}

const dead = ": the server is dead, hung or cut off"

// unheard is the finding on a server whose replica the leader does not hear. A server whose disk was full ends its
// replica, and answers other requests.
func (x *exam) unheard(r *jetstream.PeerInfo, text, otherwise string) Finding {
	switch v := x.version(r.Name); {
	case v.Without:
		return Warning.of("%s, and the server runs without JetStream", text).advise("enable JetStream in its configuration, and restart it")
	case v.Answered:
		return Warning.of("%s, but the server runs and answers: its disk is or was full, or hangs", text).
			advise("look for \"no space left\" in its log, make room, and then restart it: it stores nothing until it is restarted")
	}
	either := Warning.of("%s, or its disk is or was full", text+cmp.Or(otherwise, dead))
	switch s, asked := x.Server.Get(); {
	case !asked || s.Refused != "":
		return either.advise("natsleader doctor tells which, as a user who may ask for versions; " + bring)
	case s.Unasked != "":
		return either.advise("run doctor again, which tells which; " + bring)
	}
	return Warning.of("%s%s", text, otherwise).advise(bring)
}

// absent names the servers that the stream has to do without, and counts those that it never got.
func (x *exam) absent() (names []string, vacant int) {
	l := x.stream.Looks
	if l.Last == nil {
		return nil, 0
	}
	for _, r := range l.Last.Replicas {
		if _, gone := x.replica(r); gone {
			names = append(names, r.Name)
		}
	}
	return names, max(0, x.info.Config.Replicas-1-len(l.Last.Replicas))
}

// leaderless reports whether the server of the connection sees no leader of the stream.
func (x *exam) leaderless() bool {
	return x.clustered() && (x.info.Cluster.Leader == "" || x.stream.Looks.Last == nil)
}

func (x *exam) cluster() []Finding {
	if !x.clustered() {
		return []Finding{fine("a single server, no cluster")}
	}
	c := x.stream.Looks.Last
	if x.leaderless() {
		server, _ := x.Server.Get()
		return []Finding{unanswered("%s sees no leader of stream %s: it is cut off from the others, or a majority of them is away, so that nothing can be written and every lease runs out",
			cmp.Or(server.Name, "this server"), x.info.Config.Name).
			advise("look again after some seconds, and ask another server with -s; if none sees a leader, bring back a majority of its servers")}
	}
	var found []Finding
	for _, r := range c.Replicas {
		if f, _ := x.replica(r); f.Text != "" {
			found = append(found, f)
		}
	}
	names, vacant := x.absent()
	size := 1 + len(c.Replicas) + vacant
	if vacant > 0 {
		found = append(found, Warning.of("the stream has servers for %d of its %d replicas only", size-vacant, size).
			advise("add servers to the cluster, or bring back those that the stream may be placed on"))
	}
	if gone := len(names) + vacant; size-gone <= size/2 {
		found = append(found, Critical.of("%d of the stream's %d servers are missing: nothing can be written, and every lease runs out", gone, size).
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

func (x *exam) replicas() []Finding {
	n := x.info.Config.Replicas
	if x.clustered() && x.info.Cluster.Leader == "" {
		return []Finding{unanswered("the stream has no leader, which alone knows its replicas")}
	}
	names, vacant := x.absent()
	gone := len(names) + vacant
	spare := (n+1)/2 - 1 - gone // servers that can still be lost
	lost := fmt.Sprintf("%d replicas, %d of them missing", n, gone)
	if len(names) > 0 {
		lost += " (" + strings.Join(names, ", ") + ")"
	}
	switch {
	case n <= 1 && x.clustered():
		return []Finding{Warning.of("one replica: while server %s is away nobody can lead, and with its disk all tokens are lost", x.info.Cluster.Leader).
			advise(x.addLine("--replicas 3"))}
	case n <= 1:
		return []Finding{Warning.of("one replica, on the only server: while it is away nobody can lead, and with its disk all tokens are lost").
			advise("run a cluster of three servers, then: " + x.addLine("--replicas 3"))}
	case gone > 0 && spare < 0:
		return []Finding{Critical.of("%s: elections stop", lost).advise("bring back a majority of the servers")}
	case gone > 0 && spare == 0:
		return []Finding{Warning.of("%s: elections stop with the loss of one more server", lost).
			advise("bring back what is missing before you restart or update any other server")}
	case gone > 0:
		return []Finding{Warning.of("%s: elections go on without %d more of their servers", lost, spare).
			advise("bring back what is missing")}
	case n%2 == 0:
		return []Finding{Warning.of("%d replicas outlive the loss of no more servers than %d do, and are more to lose", n, n-1).
			advise(x.addLine(fmt.Sprintf("--replicas %d", n+1)))}
	default:
		return []Finding{fine("%d replicas: elections go on without %d of their servers", n, n/2)}
	}
}

// DefaultSync is how often a server syncs to disk by default (nats-server, filestore.go, defaultSyncInterval).
const DefaultSync = 2 * time.Minute

func (x *exam) sync() []Finding {
	if x.info.Config.Storage == jetstream.MemoryStorage {
		return []Finding{fine("there is no disk to sync to: the storage is memory")}
	}
	if f, missing := x.missing("Sync", "sync"); missing {
		return []Finding{f}
	}
	var found []Finding
	all, _ := x.Sync.Get()
	names := x.streamServers()
	slices.Sort(names)
	for _, name := range names {
		i := slices.IndexFunc(all, func(s facts.Sync) bool { return s.Server == name })
		switch {
		case i < 0:
			found = append(found, unread("sync_interval of %s: it has not answered", name))
		case all[i].Interval > 0:
			found = append(found, x.interval(name, all[i].Interval))
		}
	}
	if len(found) == 0 {
		found = append(found, fine("every write is synced to disk before it is acknowledged"))
	}
	return found
}

func (x *exam) interval(server string, interval time.Duration) Finding {
	s, what := Note, "a power failure of several servers, or of one at a bad moment, can undo acknowledged writes"
	if x.info.Config.Replicas == 1 {
		s, what = Warning, "a power failure can undo acknowledged writes"
	}
	text := fmt.Sprintf("%s syncs to disk every %v", server, interval)
	if interval == DefaultSync {
		text += ", the default"
	}
	return s.of("%s: %s", text, what).advise("set sync_interval: always in the server's jetstream block; it makes writes slower")
}
