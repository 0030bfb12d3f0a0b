package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/wire"
)

// readServer asks which server the connection has, and for the versions of all servers of a cluster.
func (e *environment) readServer(context.Context) {
	me := facts.Version{Name: e.nc.ConnectedServerName(), Version: e.nc.ConnectedServerVersion(), Answered: true}
	got := facts.Server{Name: me.Name, Version: me.Version}
	if e.info != nil && e.info.Cluster != nil && e.info.Cluster.Name != "" {
		versions, err := e.versions(me)
		for _, name := range slices.Sorted(maps.Keys(versions)) {
			got.Others = append(got.Others, versions[name])
		}
		if errors.Is(err, nats.ErrPermissionViolation) {
			got.Refused = violation(err)
		}
	}
	e.Server.Set(got, e.from())
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
func (e *environment) versions(me facts.Version) (map[string]facts.Version, error) {
	versions := map[string]facts.Version{me.Name: me}
	if v := e.info.Config.Metadata[wire.VersionKey]; v != "" && e.info.Cluster.Leader != "" {
		versions[e.info.Cluster.Leader] = facts.Version{Name: e.info.Cluster.Leader, Version: v}
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
	missing := func(name string) bool { return versions[name].Version == "" }
	err = asks.poll(m, func(reply []byte) bool {
		if got := statusOf(reply).Server; got.Name != "" {
			versions[got.Name] = facts.Version{Name: got.Name, Version: got.Version, Answered: true}
		}
		return !slices.ContainsFunc(judge.StreamServers(e.info, me.Name), missing)
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

// readSync asks the servers of the stream for their sync interval, which they report
// to the system account only.
func (e *environment) readSync(context.Context) {
	if e.info.Config.Storage == jetstream.MemoryStorage {
		e.Sync.Set(nil, e.from())
		return
	}
	asks, done, err := e.asSystem()
	if err != nil {
		e.lose(&e.Sync, err)
		return
	}
	defer done()
	intervals, err := asks.syncIntervals(judge.StreamServers(e.info, e.nc.ConnectedServerName()))
	switch {
	case e.system == nil && len(intervals) == 0:
		e.Sync.Lose(facts.Denied, "", e.from())
	case len(intervals) == 0:
		e.lose(&e.Sync, fmt.Errorf("nobody answers the context of --system-context, which may have no system credentials: %w", err))
	default:
		e.Sync.Set(intervals, e.from())
	}
}

// syncIntervals asks all servers, and returns when those named have answered, or no
// other server answers in time. An interval of 0 means every write.
func (e *environment) syncIntervals(names []string) (intervals []facts.Sync, err error) {
	err = e.poll(&nats.Msg{Subject: "$SYS.REQ.SERVER.PING.JSZ"}, func(reply []byte) bool {
		got := statusOf(reply)
		if got.Data == nil || !slices.Contains(names, got.Server.Name) {
			return false
		}
		s := facts.Sync{Server: got.Server.Name, Interval: got.Data.Config.Interval}
		if got.Data.Config.Always {
			s.Interval = 0
		}
		intervals = append(intervals, s)
		return len(intervals) == len(names)
	})
	return intervals, err
}

// readAccount reads the account's usage for streams like the bucket's.
func (e *environment) readAccount(context.Context) {
	var account jetstream.AccountInfo
	if err := e.request(&nats.Msg{Subject: e.api + "INFO"}, &account); err != nil {
		e.lose(&e.Account, err)
		return
	}
	tier, ok := account.Tiers[fmt.Sprintf("R%d", e.info.Config.Replicas)]
	if !ok {
		tier = account.Tier
	}
	e.Account.Set(facts.Account{Memory: tier.Memory, MaxMemory: tier.Limits.MaxMemory, Store: tier.Store, MaxStore: tier.Limits.MaxStore}, e.from())
}
