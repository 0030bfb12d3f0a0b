package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/jsapi"
)

// mostDomains bounds the domains that are asked for the bucket.
const mostDomains = 16

// readDomains looks for a bucket of the same name in the other JetStream domains whose servers the account reaches.
func (e *Environment) readDomains(context.Context) {
	settings, _ := e.Settings.Get()
	if settings.Domain == "" {
		e.Domains.Set(facts.Domains{}, e.from())
		return
	}
	others, err := e.otherDomains(settings.Domain)
	if err != nil {
		e.lose(&e.Domains, err)
		return
	}
	found := facts.Domains{More: max(0, len(others)-mostDomains)}
	for _, name := range others[:min(len(others), mostDomains)] {
		d := facts.Domain{Name: name}
		if name != "" {
			api := jsapi.APIPrefix(jetstream.JetStreamOptions{Domain: name})
			err := e.Request(&nats.Msg{Subject: api + "STREAM.INFO.KV_" + e.Name}, &jetstream.StreamInfo{})
			switch {
			case err == nil, errors.Is(err, jetstream.ErrStreamNotFound):
				d.Has.Set(err == nil, e.from())
			default:
				e.lose(&d.Has, err)
			}
		}
		found.Others = append(found.Others, d)
	}
	e.Domains.Set(found, e.from())
}

// otherDomains returns the domains of other servers with JetStream that answer the account, the empty one among them.
func (e *Environment) otherDomains(here string) ([]string, error) {
	asks := &inspect.Asker{Nc: e.Nc, Wait: min(e.Wait, time.Second)} // the number of servers that answer is not known
	others := make(map[string]bool)
	err := asks.Gather(inspect.AskVersions(), func(reply []byte) bool {
		if got := inspect.StatusOf(reply).Server; got.JetStream && got.Domain != here {
			others[got.Domain] = true
		}
		return false
	})
	return slices.Sorted(maps.Keys(others)), err
}
