package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

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
