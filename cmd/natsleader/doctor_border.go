package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// mostTried is how many elections checkBorder tries to write.
const mostTried = 20

// checkBorder reports whether the elections of the bucket are separated by permissions alone:
// whether this connection may write some of them and not others. Nothing shows which application
// an election belongs to. So connections that may write all elections see no border, and neither
// does one that reaches the bucket through an import.
func checkBorder(_ context.Context, e *environment) []finding {
	if e.api != jetstream.DefaultAPIPrefix {
		return []finding{unknown("the bucket may be in another account, because the prefix of the JetStream API is %s", strings.TrimSuffix(e.api, "."))}
	}
	pre := "$KV." + e.name + "."
	var info jetstream.StreamInfo
	m := &nats.Msg{Subject: e.api + "STREAM.INFO.KV_" + e.name, Data: []byte(`{"subjects_filter":"` + pre + `>"}`)}
	if err := e.request(m, &info); err != nil {
		return []finding{unknown("the names of the elections: %v", err)}
	}
	names := slices.Sorted(maps.Keys(info.State.Subjects))
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], pre)
	}
	if e.named {
		names = append([]string{e.election}, slices.DeleteFunc(names, func(n string) bool { return n == e.election })...)
	}
	var may, mayNot []string
	for _, name := range names[:min(len(names), mostTried)] {
		switch err := e.try(func() error { return e.nc.PublishMsg(e.impossible(e.name, name)) }); {
		case err == nil:
			may = append(may, name)
		case errors.Is(err, nats.ErrPermissionViolation):
			mayNot = append(mayNot, name)
		default:
			return []finding{unknown("%v", err)}
		}
	}
	switch {
	case len(mayNot) == 0:
		return []finding{fine("no border within the account: this connection may write all elections that were tried, which are %d", len(may))}
	case len(may) == 0:
		return []finding{unknown("this connection may write none of the %d elections that were tried", len(mayNot))}
	}
	return []finding{severityWarning.of("permissions within one account separate this connection, which may write %s, from %s", some(may), some(mayNot)).
		advise("they stop a client that makes a mistake; if an application must be safe from a hostile client of another, give each an account of its own: docs/permissions.md says how")}
}
