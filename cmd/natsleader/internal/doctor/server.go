package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/wire"
)

// ReadServer asks which server the connection has, and for the versions of all servers of a cluster.
func (e *Environment) ReadServer(context.Context) {
	me := facts.Version{Name: e.Nc.ConnectedServerName(), Version: e.Nc.ConnectedServerVersion(), Answered: true}
	got := facts.Server{Name: me.Name, Version: me.Version}
	e.account = ""
	if e.Info != nil && e.Info.Cluster != nil && e.Info.Cluster.Name != "" {
		versions, err := e.versions(me)
		for _, name := range slices.Sorted(maps.Keys(versions)) {
			got.Others = append(got.Others, versions[name])
		}
		switch {
		case errors.Is(err, nats.ErrPermissionViolation):
			got.Refused = inspect.Violation(err)
		case err != nil:
			got.Unasked = front.ErrorText(err)
		}
	}
	got.Account, got.NoAccount = e.AccountName()
	e.Server.Set(got, e.from())
}

// AccountName returns the account of the connection, or why it is not known. A server that was asked for its version has
// said it.
func (e *Environment) AccountName() (name facts.Text, why string) {
	if e.account == "" {
		var reply []byte
		reply, err := e.Ask(&nats.Msg{Subject: "$SYS.REQ.USER.INFO"})
		if err != nil {
			return "", inspect.Violation(err)
		}
		e.account = inspect.StatusOf(reply).Account()
	}
	if e.account == "" {
		return "", "the server does not say it"
	}
	return e.account, ""
}

// versions asks all servers for their versions, with system credentials or as every
// account may. It returns when the servers that keep the stream have answered, or when
// the time to wait is over.
func (e *Environment) versions(me facts.Version) (map[string]facts.Version, error) {
	versions := map[string]facts.Version{me.Name: me}
	if v := e.Info.Config.Metadata[wire.VersionKey]; v != "" && e.Info.Cluster.Leader != "" {
		versions[e.Info.Cluster.Leader] = facts.Version{Name: e.Info.Cluster.Leader, Version: v}
	}
	asks, done, err := e.asSystem()
	if err != nil {
		return versions, err
	}
	defer done()
	m := inspect.AskVersions()
	if e.system != nil {
		m = &nats.Msg{Subject: "$SYS.REQ.SERVER.PING"}
	}
	missing := func(name string) bool { return versions[name].Version == "" }
	err = asks.Gather(m, func(reply []byte) bool {
		status := inspect.StatusOf(reply)
		if got := status.Server; got.Name != "" {
			versions[got.Name] = facts.Version{Name: got.Name, Version: got.Version, Answered: true, Without: !got.JetStream}
		}
		asks.account = cmp.Or(asks.account, status.Account())
		return !slices.ContainsFunc(judge.StreamServers(e.Info, me.Name), missing)
	})
	return versions, err
}

// asSystem returns the environment with a connection that has system credentials, if they are
// known. done closes that connection.
func (e *Environment) asSystem() (asks *Environment, done func(), err error) {
	if e.system == nil {
		return e, func() {}, nil
	}
	nc, err := e.system()
	if err != nil {
		return nil, nil, err
	}
	return &Environment{Asker: inspect.Asker{Nc: nc, Wait: e.Wait}}, nc.Close, nil
}

// ReadSync asks the servers of the stream for their sync interval, which they report
// to the system account only.
func (e *Environment) ReadSync(context.Context) {
	if e.Info.Config.Storage == jetstream.MemoryStorage {
		e.Sync.Set(nil, e.from())
		return
	}
	asks, done, err := e.asSystem()
	if err != nil {
		e.lose(&e.Sync, err)
		return
	}
	defer done()
	intervals, err := asks.syncIntervals(judge.StreamServers(e.Info, e.Nc.ConnectedServerName()))
	switch {
	case e.system == nil && len(intervals) == 0:
		e.Sync.Lose(facts.Denied, "", e.from())
	case len(intervals) == 0:
		e.lose(&e.Sync, fmt.Errorf("nobody answers the context of --system-context, which may have no system credentials: %w", cmp.Or(err, nats.ErrTimeout)))
	default:
		e.Sync.Set(intervals, e.from())
	}
}

// syncIntervals asks all servers, and returns when those named have answered, or the
// time to wait is over. An interval of 0 means every write.
func (e *Environment) syncIntervals(names []string) (intervals []facts.Sync, err error) {
	err = e.Gather(&nats.Msg{Subject: "$SYS.REQ.SERVER.PING.JSZ"}, func(reply []byte) bool {
		got := inspect.StatusOf(reply)
		known := func(s facts.Sync) bool { return s.Server == got.Server.Name }
		if got.Data == nil || !slices.Contains(names, got.Server.Name) || slices.ContainsFunc(intervals, known) {
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

// ReadAccount reads the account's usage for streams like the bucket's.
func (e *Environment) ReadAccount(context.Context) {
	var account jetstream.AccountInfo
	if err := e.Request(&nats.Msg{Subject: e.Api + "INFO"}, &account); err != nil {
		e.lose(&e.Account, err)
		return
	}
	tier, ok := account.Tiers[fmt.Sprintf("R%d", e.Info.Config.Replicas)]
	if !ok {
		tier = account.Tier
	}
	e.Account.Set(facts.Account{Memory: tier.Memory, MaxMemory: tier.Limits.MaxMemory, Store: tier.Store, MaxStore: tier.Limits.MaxStore}, e.from())
}
