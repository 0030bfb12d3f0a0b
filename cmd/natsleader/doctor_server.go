package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/wire"
)

// leastVersion has message TTLs with markers, which report that a message has expired.
const leastVersion = "2.11"

func checkServer(_ context.Context, e *environment) []finding {
	found := e.checkVersions()
	if e.noJetStream() {
		found = append(found, severityCritical.of("JetStream does not answer on %s", strings.TrimSuffix(e.api, ".")).
			advise("enable it on the server and for this account; name a domain or prefix with --js-domain or --js-api-prefix"))
	}
	return found
}

// checkVersions checks the versions of the servers that keep the stream: they evaluate the
// conditions of guarded writes, and let announcements lapse. It also checks the connected
// server, and others that answer meanwhile, because the stream can move to them.
func (e *environment) checkVersions() []finding {
	me := e.nc.ConnectedServerName()
	if e.info == nil || e.info.Cluster == nil || e.info.Cluster.Name == "" {
		e.known = map[string]string{me: e.nc.ConnectedServerVersion()}
		return []finding{judgeVersion("", e.nc.ConnectedServerVersion())}
	}
	versions, err := e.versions()
	e.known = versions
	var found []finding
	keep := e.streamServers()
	sound := make(map[string][]string) // servers of the stream by version
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		switch f := judgeVersion(name, versions[name]); {
		case f.Severity > severityOK:
			if !slices.Contains(keep, name) {
				f.Text += " (it does not keep the bucket now)"
			}
			found = append(found, f)
		case slices.Contains(keep, name):
			sound[versions[name]] = append(sound[versions[name]], name)
		}
	}
	for _, version := range slices.Backward(slices.Sorted(maps.Keys(sound))) {
		found = slices.Insert(found, 0, fine("nats-server %s on %s", version, strings.Join(sound[version], ", ")))
	}
	var missing []string
	for _, name := range keep {
		if _, known := versions[name]; !known {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) == 0:
	case errors.Is(err, nats.ErrPermissionViolation):
		found = append(found, unread("versions of %s: %s (candidates with guards ask the same)", strings.Join(missing, ", "), violation(err)).
			advise("allow it, or name a context with system credentials with --system-context"))
	default:
		found = append(found, unread("versions of %s: no answer", strings.Join(missing, ", ")))
	}
	return found
}

// tooOldFor names the servers of the stream whose known versions are less than that.
func (e *environment) tooOldFor(least string) (names []string) {
	for _, name := range e.streamServers() {
		if v := e.known[name]; v != "" && !atLeast(v, least) {
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

// judgeVersion checks the version of the named server, or of the connected one.
func judgeVersion(name, version string) finding {
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
		return severityWarning.of("%s is older than %s: it keeps no roster, has no expiry markers, and candidates with guards do not stand", who, leastVersion).
			advise("update it to " + wire.LeastGuardServer + " or later, which all of these need")
	case !atLeast(version, wire.LeastGuardServer):
		return severityWarning.of("%s is older than %s: it accepts some guarded writes of earlier terms, and candidates with guards do not stand", who, wire.LeastGuardServer).
			advise("update it to " + wire.LeastGuardServer + " or later")
	default:
		return fine("%s", who)
	}
}

// streamServers names the servers that keep the stream of the bucket.
func (e *environment) streamServers() []string {
	c := e.info.Cluster
	if c == nil || c.Name == "" {
		return []string{e.nc.ConnectedServerName()}
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

// askVersions returns the request that servers answer with their status to an account of their own.
func askVersions() *nats.Msg {
	return &nats.Msg{Subject: wire.VersionSubject, Data: []byte(`{"include_unused": true}`)}
}

// serverStatus is what a server reports of itself.
type serverStatus struct {
	Server struct {
		Name      string `json:"name"`
		Version   string `json:"ver"`
		Cluster   string `json:"cluster"`
		Domain    string `json:"domain"`
		JetStream bool   `json:"jetstream"`
	} `json:"server"`
	Data *struct { // nil: the request was not for JetStream
		Config struct {
			Interval time.Duration `json:"sync_interval"`
			Always   bool          `json:"sync_always"`
		} `json:"config"`
	} `json:"data"`
}

// statusOf decodes a status. That of a reply which is none is empty.
func statusOf(reply []byte) (s serverStatus) {
	if json.Unmarshal(reply, &s) != nil {
		return serverStatus{}
	}
	return s
}

// versions asks all servers for their versions, with system credentials or as every
// account may. It returns when the servers that keep the stream have answered, or when
// no other server answers in time.
func (e *environment) versions() (map[string]string, error) {
	versions := map[string]string{e.nc.ConnectedServerName(): e.nc.ConnectedServerVersion()}
	if v := e.info.Config.Metadata[wire.VersionKey]; v != "" && e.info.Cluster.Leader != "" {
		versions[e.info.Cluster.Leader] = v
	}
	asks, done, err := e.asSystem()
	if err != nil {
		return versions, err
	}
	defer done()
	m := askVersions()
	if e.system != nil {
		m = &nats.Msg{Subject: "$SYS.REQ.SERVER.PING"}
	}
	missing := func(name string) bool { return versions[name] == "" }
	err = asks.poll(m, func(reply []byte) bool {
		if got := statusOf(reply).Server; got.Name != "" {
			versions[got.Name] = got.Version
		}
		return !slices.ContainsFunc(e.streamServers(), missing)
	})
	return versions, err
}

// asSystem returns the environment with a connection that has system credentials, if they are
// known. done closes that connection.
func (e *environment) asSystem() (asks *environment, done func(), err error) {
	if e.system == nil {
		return e, func() {}, nil
	}
	nc, err := e.system()
	if err != nil {
		return nil, nil, err
	}
	return &environment{nc: nc, wait: e.wait}, nc.Close, nil
}

// noJetStream reports whether no server answers for JetStream.
func (e *environment) noJetStream() bool {
	return errors.Is(e.infoErr, nats.ErrNoResponders) || errors.Is(e.infoErr, jetstream.ErrJetStreamNotEnabled) ||
		errors.Is(e.infoErr, jetstream.ErrJetStreamNotEnabledForAccount)
}

// defaultSync is how often a server syncs to disk by default (nats-server,
// filestore.go, defaultSyncInterval).
const defaultSync = 2 * time.Minute

// checkSync asks the servers of the stream for their sync interval, which they report
// to the system account only.
func checkSync(_ context.Context, e *environment) []finding {
	if e.info.Config.Storage == jetstream.MemoryStorage {
		return []finding{fine("there is no disk to sync to: the storage is memory")}
	}
	names := e.streamServers()
	asks, done, err := e.asSystem()
	if err != nil {
		return []finding{unanswered("sync_interval: %v", err)}
	}
	defer done()
	intervals, err := asks.syncIntervals(names)
	switch {
	case e.system == nil && len(intervals) == 0:
		return []finding{unread("sync_interval is told to system credentials only").
			advise("name a context that has them with --system-context")}
	case len(intervals) == 0:
		return []finding{unanswered("sync_interval: nobody answers the context of --system-context, which may have no system credentials: %v", err)}
	}
	var found []finding
	slices.Sort(names)
	for _, name := range names {
		interval, known := intervals[name]
		switch {
		case !known:
			found = append(found, unread("sync_interval of %s: it has not answered", name))
		case interval > 0:
			found = append(found, e.judgeSync(name, interval))
		}
	}
	if len(found) == 0 {
		found = append(found, fine("every write is synced to disk before it is acknowledged"))
	}
	return found
}

func (e *environment) judgeSync(server string, interval time.Duration) finding {
	s, what := severityNote, "a power failure of several servers, or of one at a bad moment, can undo acknowledged writes"
	if e.info.Config.Replicas == 1 {
		s, what = severityWarning, "a power failure can undo acknowledged writes"
	}
	text := fmt.Sprintf("%s syncs to disk every %v", server, interval)
	if interval == defaultSync {
		text += ", the default"
	}
	return s.of("%s: %s", text, what).advise("set sync_interval: always in the server's jetstream block; it makes writes slower")
}

// syncIntervals asks all servers, and returns when those named have answered, or no
// other server answers in time. An interval of 0 means every write.
func (e *environment) syncIntervals(names []string) (map[string]time.Duration, error) {
	intervals := make(map[string]time.Duration)
	err := e.poll(&nats.Msg{Subject: "$SYS.REQ.SERVER.PING.JSZ"}, func(reply []byte) bool {
		got := statusOf(reply)
		if got.Data == nil || !slices.Contains(names, got.Server.Name) {
			return false
		}
		intervals[got.Server.Name] = got.Data.Config.Interval
		if got.Data.Config.Always {
			intervals[got.Server.Name] = 0
		}
		return len(intervals) == len(names)
	})
	return intervals, err
}

// full is the share of a limit from which doctor reports it.
const full = 0.9

// checkLimits checks the limits that make the server reject renewals when they are used
// up.
func checkLimits(_ context.Context, e *environment) []finding {
	var found []finding
	c, state := e.info.Config, e.info.State
	gauge := func(what string, used uint64, limit int64) {
		if limit <= 0 || float64(used) < full*float64(limit) {
			return
		}
		s := severityWarning
		if used >= uint64(limit) {
			s = severityCritical
		}
		found = append(found, s.of("%s: %d of %d in use; when it is full, renewals are refused and leaders fenced", what, used, limit).
			advise("raise the limit, or make room"))
	}
	// With discard old, the server evicts records instead: see protection.
	if c.Discard == jetstream.DiscardNew {
		gauge("MaxMsgs of the bucket", state.Msgs, c.MaxMsgs)
		gauge("MaxBytes of the bucket", state.Bytes, c.MaxBytes)
	}
	tier, err := e.accountTier()
	switch {
	case err != nil:
		found = append(found, unreadFor(err, "limits of the account: %s (candidates need not)", violation(err)))
	case c.Storage == jetstream.MemoryStorage:
		gauge("memory of the account, in bytes", tier.Memory, tier.Limits.MaxMemory)
	default:
		gauge("storage of the account, in bytes", tier.Store, tier.Limits.MaxStore)
	}
	if len(found) == 0 {
		found = append(found, fine("there is room in the bucket and in the account"))
	}
	return found
}

// accountTier returns the account's usage for streams like the bucket's.
func (e *environment) accountTier() (jetstream.Tier, error) {
	var account jetstream.AccountInfo
	if err := e.request(&nats.Msg{Subject: e.api + "INFO"}, &account); err != nil {
		return jetstream.Tier{}, err
	}
	if tier, ok := account.Tiers[fmt.Sprintf("R%d", e.info.Config.Replicas)]; ok {
		return tier, nil
	}
	return account.Tier, nil
}
