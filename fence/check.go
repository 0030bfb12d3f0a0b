package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// guardRoom is the size that a message of a guard may need: its headers, and a record
// with the longest ID and the names of a bucket and an election.
const guardRoom = 1536

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

// hazard returns the reason why a stream with these settings does not keep its guard,
// cannot raise it or cannot heed it, or an empty string. Settings that hazard does not
// check are harmless: they evict no message that is the newest of its subject.
func (s *guardedStream) hazard(c jetstream.StreamConfig) string {
	if reason := s.closed(c); reason != "" {
		return reason
	}
	old := c.Discard == jetstream.DiscardOld
	switch {
	case c.Retention != jetstream.LimitsPolicy:
		return fmt.Sprintf("drops what consumers have read (Retention %v), and with it the guard", c.Retention)
	case c.MaxMsgs > 0 && old:
		return fmt.Sprintf("drops its oldest messages when it is full (MaxMsgs %d with discard old), and with them the guard", c.MaxMsgs)
	case c.MaxBytes > 0 && old:
		return fmt.Sprintf("drops its oldest messages when it is full (MaxBytes %d with discard old), and with them the guard", c.MaxBytes)
	case c.MaxAge > 0 && !c.AllowMsgTTL:
		return fmt.Sprintf("drops messages after %v (MaxAge without AllowMsgTTL), and with them the guard", c.MaxAge)
	case c.PersistMode == jetstream.AsyncPersistMode:
		return "acknowledges what a crash of the server can undo (PersistMode async), and so the guard"
	case c.SubjectTransform != nil && s.diverted(*c.SubjectTransform):
		return fmt.Sprintf("stores %q as %q (SubjectTransform), the guard's subject %s among them",
			c.SubjectTransform.Source, c.SubjectTransform.Destination, s.guard)
	}
	for _, src := range c.Sources {
		if s.overwrittenBy(src) {
			return fmt.Sprintf("takes what comes from stream %s without conditions (Sources), also on the guard's subject %s", src.Name, s.guard)
		}
	}
	return ""
}

// closed returns the reason why a stream takes no writes of its guard, or an empty
// string.
func (s *guardedStream) closed(c jetstream.StreamConfig) string {
	switch {
	case c.Mirror != nil:
		return fmt.Sprintf("is a mirror of stream %s, and takes no writes", c.Mirror.Name)
	case c.Sealed:
		return "is sealed, and takes no writes"
	case c.NoAck:
		return "acknowledges nothing (NoAck)"
	case !slices.ContainsFunc(c.Subjects, func(sub string) bool { return jsapi.Covers(sub, s.whole) }):
		return fmt.Sprintf("does not contain its guard: none of its subjects %q covers %s", c.Subjects, s.whole)
	case c.AllowMsgCounter:
		return "takes nothing but counters (AllowMsgCounter)"
	case c.DiscardNewPerSubject && c.MaxMsgsPerSubject > 0:
		return fmt.Sprintf("refuses more than %d messages of a subject (MaxMsgsPerSubject with DiscardNewPerSubject), and so to raise the guard", c.MaxMsgsPerSubject)
	case 0 < c.MaxMsgSize && c.MaxMsgSize < guardRoom:
		return fmt.Sprintf("takes messages of up to %d bytes (MaxMsgSize), less than the %d that a guard may need", c.MaxMsgSize, guardRoom)
	default:
		return ""
	}
}

// diverted reports whether a transform may store the guard elsewhere, or another message
// at the guard.
func (s *guardedStream) diverted(t jetstream.SubjectTransformConfig) bool {
	return t.Source == "" || jsapi.Covers(t.Source, s.guard) || mayYield(t.Destination, s.guard)
}

// overwrittenBy reports whether a message from that source may be stored at the
// guard.
func (s *guardedStream) overwrittenBy(src *jetstream.StreamSource) bool {
	if len(src.SubjectTransforms) == 0 {
		return src.FilterSubject == "" || jsapi.Covers(src.FilterSubject, s.guard)
	}
	return slices.ContainsFunc(src.SubjectTransforms, func(t jetstream.SubjectTransformConfig) bool {
		if t.Destination == "" { // it only filters
			return t.Source == "" || jsapi.Covers(t.Source, s.guard)
		}
		return mayYield(t.Destination, s.guard)
	})
}

// mayYield reports whether the destination of a transform may result in that subject.
func mayYield(destination, subject string) bool {
	want := strings.Split(subject, ".")
	got := strings.Split(destination, ".")
	for i, tok := range got {
		numbered := len(tok) > 1 && tok[0] == '$' && '0' <= tok[1] && tok[1] <= '9'
		switch {
		case numbered, strings.ContainsAny(tok, "*>{"): // the rest depends on the transformed subject
			return true
		case i >= len(want) || tok != want[i]:
			return false
		}
	}
	return len(got) == len(want)
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
