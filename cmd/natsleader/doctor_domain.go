package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/jsapi"
)

// mostDomains bounds the domains that are asked for the bucket.
const mostDomains = 16

// checkDomain names the JetStream domain of the bucket, if it is in one, and looks for a bucket of the same name in the other domains
// whose servers the account reaches.
func checkDomain(_ context.Context, e *environment) []finding {
	here := e.settings.Domain
	if here == "" {
		return nil
	}
	found := []finding{fine("the bucket is in the JetStream domain %s", here)}
	others, err := e.otherDomains(here)
	if errors.Is(err, nats.ErrPermissionViolation) {
		return append(found, unread("other domains: %s (candidates need not)", violation(err)))
	}
	if err != nil && !errors.Is(err, nats.ErrTimeout) { // which ends the wait for more answers
		return append(found, unanswered("other domains: %v", err))
	}
	var none []string
	for _, domain := range others[:min(len(others), mostDomains)] {
		if domain == "" {
			found = append(found, unread("servers in no domain have JetStream, too: whether they have the bucket can be seen only there"))
			continue
		}
		api := jsapi.APIPrefix(jetstream.JetStreamOptions{Domain: domain})
		err := e.request(&nats.Msg{Subject: api + "STREAM.INFO.KV_" + e.name}, &jetstream.StreamInfo{})
		switch {
		case err == nil:
			found = append(found, severityNote.of("the JetStream domain %s has a bucket of this name, too: the elections there have leaders of their own", domain).
				advise(fmt.Sprintf("if each election shall have one leader, let all candidates name one domain (jetstream.NewWithDomain, --js-domain), and remove the other bucket: natsleader bucket rm %s --js-domain %s", e.name, domain)))
		case errors.Is(err, jetstream.ErrStreamNotFound):
			none = append(none, domain)
		default:
			found = append(found, unreadFor(err, "the JetStream domain %s: %s", domain, violation(err)))
		}
	}
	if len(none) > 0 {
		found[0].Text += ", and not in " + strings.Join(none, ", ")
	}
	if more := len(others) - mostDomains; more > 0 {
		found = append(found, unread("%d more JetStream domains", more))
	}
	return found
}

// otherDomains returns the domains of other servers with JetStream that answer the account, the empty one among them.
func (e *environment) otherDomains(here string) ([]string, error) {
	asks := &environment{nc: e.nc, wait: min(e.wait, time.Second)} // the number of servers that answer is not known
	others := make(map[string]bool)
	err := asks.poll(askVersions(), func(reply []byte) bool {
		if got := statusOf(reply).Server; got.JetStream && got.Domain != here {
			others[got.Domain] = true
		}
		return false
	})
	return slices.Sorted(maps.Keys(others)), err
}
