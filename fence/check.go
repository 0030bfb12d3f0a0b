package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/hazards"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// Check implements [backend.Guard]. It asks the stream's leader for the stream's settings, and
// for the servers that keep it. All of them have to be of nats-server 2.11.8 or later, as
// far as they report their versions. Check finds out whether the leading server heeds a
// condition on another subject: it sends a write of the guard with a condition that
// cannot hold. A guard that was never written gets a delete marker first, once.
func (s guardBackend) Check(ctx context.Context, reply func(error)) {
	go func() {
		_, err := jsapi.InTime(ctx, &s.api, func() (struct{}, error) { return struct{}{}, s.check(ctx) }, nil)
		reply(err)
	}()
}

func (s *guardedStream) check(ctx context.Context) error {
	info, err := s.settings(ctx)
	if err != nil {
		return err
	}
	if reason := s.hazard(info.Config); reason != "" {
		return fmt.Errorf("%w: %s %s", leader.ErrIncompatibleBucket, s.title, reason)
	}
	old := outdatedLeader(info)
	if old == "" {
		var others sync.WaitGroup
		others.Go(func() { old = s.outdatedReplica(ctx, info) })
		var heeds bool
		heeds, err = s.probe(ctx)
		others.Wait()
		if err == nil && !heeds {
			return fmt.Errorf("%w: %s does not heed a condition on another subject (%s) as nats-server %s and later do: server %s, which leads the stream, says that it is of version %s",
				leader.ErrIncompatibleBucket, s.title, jetstream.ExpectedLastSubjSeqSubjHeader, leastGuardServer, leads(info), info.Config.Metadata[wire.VersionKey])
		}
	}
	if old != "" {
		return fmt.Errorf("%w: %s needs nats-server %s or later on all servers that keep it, or else some writes of earlier terms are accepted: %s; update it",
			leader.ErrIncompatibleBucket, s.title, leastGuardServer, old)
	}
	return err
}

// settings reads the stream's settings and keeps those that writes depend on.
func (s *guardedStream) settings(ctx context.Context) (*jetstream.StreamInfo, error) {
	info, err := s.api.Info(ctx)
	if err == nil {
		s.keeps.Store(info.Config.AllowMsgTTL)
	}
	return info, err
}

// probe reports whether the server heeds a condition on another subject.
//
// It sends a write of the guard on the condition that another subject, which has no
// messages, has reached a sequence that nothing ever reaches. The rejection names the
// sequence that the server compared with the condition. That is 0, or the sequence of the
// guard if the server knows only the message's own subject. So the guard has to have a
// message. Should the write be accepted after all, it changes nothing.
//
// The header of the condition gets a second value, which does not count: the name of the
// other header. On a server that finds names anywhere (see leastGuardServer), the header
// that comes first hides the one that comes second, whichever that is. So the fault shows
// in either order. nats.go does not control the order.
func (s *guardedStream) probe(ctx context.Context) (heeds bool, err error) {
	var before uint64 // the guard's revision when the last answer proved nothing
	for tries := 1; ; tries++ {
		e, err := s.api.LastOf(ctx, s.guard)
		if err == nil && e.Revision == 0 {
			e.Revision, err = s.api.Store(ctx, s.marked(nil, 0))
		}
		switch {
		case errors.Is(err, backend.ErrRefused): // another client has written it: read again
			continue
		case err != nil:
			return false, err
		case e.Revision == before:
			return true, nil // the guard has not moved: the sequence that was named was not the guard's
		}
		m := s.marked(e.Value, math.MaxInt64)
		m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, s.guard+".probe")
		m.Header.Add(jetstream.ExpectedLastSubjSeqHeader, jetstream.ExpectedLastSubjSeqSubjHeader)
		_, err = s.api.Store(ctx, m)
		var refused *backend.RefusedError
		switch {
		case err == nil:
			return false, nil
		case !errors.As(err, &refused):
			return false, err
		case refused.Named && refused.Actual <= e.Revision:
			return refused.Actual < e.Revision, nil
		}
		// The guard has moved meanwhile, or the other subject has messages.
		if refused.Named {
			before = e.Revision
		}
		if err = pause(ctx, tries); err != nil {
			return false, fmt.Errorf("%w: %w", leader.ErrUnreachable, err)
		}
	}
}

// marked returns a write of the guard, which is a delete marker if there is no value.
func (s *guardedStream) marked(value []byte, revision uint64) *nats.Msg {
	m := s.guardMessage(value, revision)
	if len(value) == 0 {
		m.Header.Set(jsapi.KVOperation, "DEL")
	}
	return m
}

// hazard returns the reason why a stream with these settings does not keep its guard, cannot raise it or cannot heed it,
// or an empty string.
func (s *guardedStream) hazard(c jetstream.StreamConfig) string {
	return hazards.Stream{StreamConfig: c, Use: hazards.Guard, Whole: s.whole, Kept: s.guard}.Refusal()
}

// leastGuardServer is the least version of nats-server that guards trust.
//
// 2.10 supports no condition on another subject. 2.11.0 to 2.11.6 find a header by the
// first place at which its name occurs. They see no condition if
// Nats-Expected-Last-Subject-Sequence-Subject comes before
// Nats-Expected-Last-Subject-Sequence. nats.go writes headers in the order of a Go map,
// so these servers store about one message in eight whatever its condition.
const leastGuardServer = wire.LeastGuardServer

// versionWait is how long a check waits for the versions of servers that do not lead the
// stream.
const versionWait = 500 * time.Millisecond

// outdatedLeader describes the server that leads the stream if it is older than guards
// need.
func outdatedLeader(info *jetstream.StreamInfo) string {
	switch v := info.Config.Metadata[wire.VersionKey]; {
	case v == "":
		return fmt.Sprintf("server %s, which leads the stream, does not tell its version, as before 2.11", leads(info))
	case olderThan(v, leastGuardServer):
		return fmt.Sprintf("server %s, which leads the stream, is of version %s", leads(info), v)
	default:
		return ""
	}
}

func leads(info *jetstream.StreamInfo) string {
	if info.Cluster == nil {
		return ""
	}
	return info.Cluster.Leader
}

// outdatedReplica describes a server that may come to lead the stream and is older than
// guards need, among those that report their versions in time.
func (s *guardedStream) outdatedReplica(ctx context.Context, info *jetstream.StreamInfo) string {
	if info.Cluster == nil {
		return ""
	}
	var names []string
	for _, r := range info.Cluster.Replicas {
		names = append(names, r.Name)
	}
	for i, v := range s.serverVersions(ctx, info.Cluster.Name, names) {
		if olderThan(v, leastGuardServer) {
			return fmt.Sprintf("server %s, which may come to lead the stream, is of version %s", names[i], v)
		}
	}
	return ""
}

// serverVersions asks servers of a cluster for their versions, all at once. The version
// of a server that has not answered in time is empty. A connection that may not ask does
// so only once, because each denial is reported to the application.
func (s *guardedStream) serverVersions(ctx context.Context, cluster string, names []string) []string {
	ctx, cancel := deadline.Within(ctx, versionWait)
	defer cancel()
	versions := make([]string, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		if name == s.api.Conn.ConnectedServerName() && cluster == s.api.Conn.ConnectedClusterName() {
			versions[i] = s.api.Conn.ConnectedServerVersion()
			continue
		}
		if s.muted.Load() {
			continue
		}
		all.Go(func() {
			version, err := s.serverVersion(ctx, cluster, name)
			if errors.Is(err, leader.ErrPermission) {
				s.muted.Store(true)
			}
			versions[i] = version
		})
	}
	all.Wait()
	return versions
}

func (s *guardedStream) serverVersion(ctx context.Context, cluster, name string) (string, error) {
	// Without include_unused, servers that have no clients of the account are silent.
	req, err := json.Marshal(map[string]any{"cluster": cluster, "server_name": name, "include_unused": true})
	if err != nil {
		return "", err
	}
	resp, err := s.api.Request(ctx, &nats.Msg{Subject: wire.VersionSubject, Data: req})
	if err != nil {
		return "", err
	}
	var status struct {
		Server struct {
			Name    string `json:"name"`
			Version string `json:"ver"`
		} `json:"server"`
	}
	if err := json.Unmarshal(resp.Data, &status); err != nil || status.Server.Name != name {
		return "", err
	}
	return status.Server.Version, nil
}

// olderThan reports whether a version is less than another. A text that is no version is
// not: the probe decides then.
func olderThan(version, least string) bool {
	var v, l [3]int
	_, _ = fmt.Sscanf(least, "%d.%d.%d", &l[0], &l[1], &l[2])
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return n == len(v) && slices.Compare(v[:], l[:]) < 0
}
