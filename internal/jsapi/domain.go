package jsapi

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/wire"
)

// A server has one JetStream domain, or none. A leaf node with a domain of its own keeps its streams
// apart from those of its hub: a stream of the same name is another stream there.

const (
	// maxDomain bounds the length of a domain that is believed.
	maxDomain = 255
	// siteWait bounds the requests of Site and Site.IsLeaf. The creation of the stream waits for them.
	siteWait = time.Second
)

// Domain returns the JetStream domain that the last reply to Info named, or an empty string if it
// named none. It returns false before the first reply.
func (a *Stream) Domain() (domain string, known bool) {
	if d := a.domain.Load(); d != nil {
		return *d, true
	}
	return "", false
}

// Site is where the server would create a stream.
type Site struct {
	Domain string // of JetStream; empty: none, or it is not known

	a       *Stream
	server  string // of the connection
	cluster string // of that server; a leaf node that is in no cluster gives its own name
	keeps   bool   // that server has JetStream
}

// Site finds out where the server would create the stream. It asks the server only if the JetStream
// context names a domain or a prefix, or if the connection tells that the server is a leaf node or has
// a domain. So most clients need no permission for it.
func (a *Stream) Site(ctx context.Context) Site {
	ctx, cancel := deadline.Within(ctx, siteWait)
	defer cancel()
	s, err := InTime(ctx, a, func() (Site, error) {
		keeps, _ := a.Conn.ConnectedServerJetStream()
		return Site{domainOf(a.Conn), a, a.Conn.ConnectedServerName(), a.Conn.ConnectedClusterName(), keeps}, nil
	}, nil)
	if err != nil || !a.named() && !s.alone() && s.Domain == "" {
		return s
	}
	var account struct {
		Domain string `json:"domain"`
	}
	switch err = a.ask(ctx, "INFO", nil, &account); {
	case err == nil:
		s.Domain = boundedDomain(account.Domain)
	case a.named():
		s.Domain = ""
	}
	return s
}

// IsLeaf reports whether the server is a leaf node with a domain of its own, and the JetStream context
// names neither a domain nor a prefix. A leaf node in a cluster is recognised by its connection to the
// hub, for which it needs that connection, and this client the permission to ask for it.
func (s Site) IsLeaf(ctx context.Context) bool {
	return s.Domain != "" && s.keeps && !s.a.named() && (s.alone() || s.belowHub(ctx))
}

// alone reports whether the server is a leaf node that is in no cluster: with the address of a hub in
// its configuration, it takes its own name for that of its cluster (nats-server, server.go, NewServer).
func (s Site) alone() bool { return s.server == s.cluster }

// belowHub asks the server whether it has a connection, made by itself, over which the JetStream API of
// a hub can be reached. The server knows the name and version of a server that has connected to it, and
// neither of a server that it has connected to.
func (s Site) belowHub(ctx context.Context) bool {
	req, err := json.Marshal(map[string]any{
		"server_name": s.server, "cluster": s.cluster, "exact_match": true,
		"filter_subject": jetstream.DefaultAPIPrefix + "STREAM.CREATE." + s.a.Name,
	})
	if err != nil {
		return false
	}
	ctx, cancel := deadline.Within(ctx, siteWait)
	defer cancel()
	resp, err := s.a.Request(ctx, &nats.Msg{Subject: wire.ConnectionsSubject, Data: req})
	if err != nil {
		return false
	}
	type connection struct{ Kind, Name, Version string }
	var status struct {
		Data struct {
			Connections []connection `json:"connections"`
		} `json:"data"`
	}
	return json.Unmarshal(resp.Data, &status) == nil && slices.ContainsFunc(status.Data.Connections, func(c connection) bool {
		return c.Kind == "Leafnode" && c.Name == "" && c.Version == ""
	})
}

// named reports whether the JetStream context names the JetStream that it means.
func (a *Stream) named() bool { return a.Prefix != jetstream.DefaultAPIPrefix }

// domainOf returns the domain of the server of the connection, or an empty string where nats.go does not
// report it (1.53).
func domainOf(nc *nats.Conn) string {
	if c, ok := any(nc).(interface{ ConnectedDomain() string }); ok {
		return boundedDomain(c.ConnectedDomain())
	}
	return ""
}

func boundedDomain(s string) string { return s[:min(len(s), maxDomain)] }
