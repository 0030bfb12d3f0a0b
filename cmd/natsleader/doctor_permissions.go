package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/wire"
)

// permissionProbe is one permission of a role.
type permissionProbe struct {
	what string // it is for
	do   func() error
}

// readRights tries each permission of the role of --as. Only a refusal by the server counts; any other answer does not
// matter, but for that to a write of a candidate.
func (e *environment) readRights(context.Context) {
	trials := []permissionProbe{
		{facts.ForAnswers, e.listen(e.nc.NewInbox())},
		{facts.ForSettings, e.send("STREAM.INFO.KV_"+e.name, "")},
	}
	switch e.as {
	case facts.Operator:
		trials = append(trials, e.watchProbes()...)
		trials = append(trials, e.operatorProbes()...)
		if e.roster {
			trials = append(trials, e.rosterProbes()...)
		}
	case facts.Creator:
		trials = append(trials, e.watchProbes()...)
		trials = append(trials,
			permissionProbe{facts.ForMaking, e.send("STREAM.CREATE.KV_"+e.name, "")},
			permissionProbe{facts.ForChanging, e.send("STREAM.UPDATE.KV_"+e.name, "")},
			permissionProbe{facts.ForList, e.send("STREAM.LIST", "")})
	default:
		trials = append(trials, e.candidateProbes()...)
	}
	if e.as != facts.Candidate {
		trials = append(trials, permissionProbe{facts.ForWriting, e.write(e.election)})
	}
	rights := make([]facts.Right, len(trials))
	for i, t := range trials {
		r := &rights[i]
		r.For = t.what
		switch err := e.try(t.do); {
		case err == nil:
			r.Tried.Set("", e.from())
		case errors.Is(err, nats.ErrPermissionViolation):
			r.Tried.Set(violation(err), e.from())
		default:
			e.lose(&r.Tried, err)
		}
	}
	e.Rights.Set(rights, e.from())
	e.readWrite()
}

// watchProbes are the permissions of those who look at all elections.
func (e *environment) watchProbes() []permissionProbe {
	return []permissionProbe{
		{facts.ForAll, e.createNothing(e.name, "$KV."+e.name+".>")},
		{facts.ForTidiness, e.send("CONSUMER.DELETE.KV_"+e.name+"."+noConsumer, "")},
	}
}

// operatorProbes are the permissions of an operator besides watchProbes, and besides requests to the leaders.
func (e *environment) operatorProbes() []permissionProbe {
	trials := []permissionProbe{
		{facts.ForSteering, e.get(e.election)},
		{facts.ForNote, e.write(noteKey(e.election))},
		{facts.ForCordon, e.write(wire.CordonKey)},
	}
	if e.republishes() {
		trials = append(trials, permissionProbe{facts.ForFollower, e.listen(e.feed() + "." + e.election)})
	}
	return trials
}

// get returns a request for the record of a key.
func (e *environment) get(key string) func() error {
	key = "$KV." + e.name + "." + key
	if e.info != nil && !e.info.Config.AllowDirect {
		return e.send("STREAM.MSG.GET.KV_"+e.name, `{"last_by_subj":"`+key+`"}`)
	}
	return e.send("DIRECT.GET.KV_"+e.name+"."+key, "")
}

// write returns a write of a key that the server cannot fulfil.
func (e *environment) write(key string) func() error {
	return func() error { return e.nc.PublishMsg(e.impossible(e.name, key)) }
}

// republishes reports whether the bucket has a feed, as far as is known.
func (e *environment) republishes() bool {
	settings, known := e.Settings.Get()
	return !known || settings.FeedSubject != ""
}

// candidateProbes are the permissions of a candidate.
func (e *environment) candidateProbes() []permissionProbe {
	key := "$KV." + e.name + "." + e.election
	trials := []permissionProbe{{facts.ForReading, e.get(e.election)}, {facts.ForLease, e.write(e.election)}}
	if e.republishes() {
		trials = append(trials, permissionProbe{facts.ForFeed, e.listen(e.feed() + "." + e.election)})
	} else {
		// The server can fulfil neither request.
		trials = append(trials,
			permissionProbe{facts.ForFeed, e.createNothing(e.name, key)},
			permissionProbe{facts.ForTidiness, e.send("CONSUMER.DELETE.KV_"+e.name+"."+noConsumer, "")})
	}
	trials = append(trials,
		permissionProbe{facts.ForRequests, e.listen(e.askSubject())},
		permissionProbe{facts.ForCordons, e.get(wire.CordonKey)})
	if e.republishes() {
		trials = append(trials, permissionProbe{facts.ForCordonFeed, e.listen(e.feed() + "." + wire.CordonKey)})
	}
	if e.roster {
		trials = append(trials, e.rosterProbes()...)
	}
	return trials
}

// noConsumer is a name that no consumer has.
const noConsumer = "natsleader-doctor"

// send returns a request to the JetStream API whose answer does not matter.
func (e *environment) send(subject, body string) func() error {
	return func() error { return e.nc.PublishRequest(e.api+subject, e.nc.NewInbox(), []byte(body)) }
}

// createNothing returns a request for a consumer of a subject in a bucket. The request is
// invalid, so the server makes no consumer even if it permits the request.
func (e *environment) createNothing(bucket, subject string) func() error {
	return e.send("CONSUMER.CREATE.KV_"+bucket+"."+noConsumer+"."+subject, "")
}

// violation names the missing permission, if the error is about one.
func violation(err error) string {
	var subject string
	text := err.Error()
	for _, kind := range []struct{ format, verb string }{
		{"nats: permissions violation: Permissions Violation for Publish to %q", "publish to"},
		{"nats: permissions violation: Permissions Violation for Subscription to %q", "subscribe to"},
	} {
		if _, scan := fmt.Sscanf(text, kind.format, &subject); scan == nil {
			return "this connection may not " + kind.verb + " " + subject
		}
	}
	return text
}

// impossible returns a write of a key that no bucket accepts, because no bucket reaches
// the revision that the write is conditioned on.
func (e *environment) impossible(bucket, key string) *nats.Msg {
	put := "$KV." + bucket + "."
	if e.api != jetstream.DefaultAPIPrefix {
		put = e.api + put // as nats.go does: jetstream/kv.go, useJSPfx
	}
	return &nats.Msg{
		Subject: put + key,
		Reply:   e.nc.NewInbox(),
		Header:  nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatInt(math.MaxInt64, 10)}},
		Data:    []byte("natsleader doctor"),
	}
}

// readWrite asks for the reason for which the server rejects the impossible write of a candidate.
func (e *environment) readWrite() {
	switch {
	case e.as != facts.Candidate:
		e.Write.Set(facts.Write{Skipped: true}, e.from())
		return
	case !e.fit: // no stream takes it
		return
	}
	err := e.request(e.impossible(e.name, e.election), &struct{}{})
	if no := refusalOf(err); err == nil || no != nil && no.Code != facts.CodeNoResponders {
		e.Write.Set(facts.Write{Accepted: err == nil, Refusal: no}, e.from())
		return
	}
	e.lose(&e.Write, err)
}

// listen subscribes, and unsubscribes when the server has answered.
func (e *environment) listen(subject string) func() error {
	return func() error {
		sub, err := e.nc.SubscribeSync(subject)
		if err != nil {
			return err
		}
		flushed := e.nc.FlushTimeout(e.wait)
		// A subscription that was refused is gone already.
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrBadSubscription) {
			return err
		}
		return flushed
	}
}

// feed is the prefix of the subjects of the bucket's feeds.
func (e *environment) feed() string {
	if settings, _ := e.Settings.Get(); settings.FeedSubject != "" {
		return settings.FeedSubject
	}
	return wire.FeedPrefix + e.name
}

func (e *environment) askSubject() string { return wire.AskPrefix + e.name + "." + e.election }

// readFeed tries whether this connection may publish to the feed.
func (e *environment) readFeed(context.Context) {
	if settings, known := e.Settings.Get(); known && settings.FeedSubject == "" {
		e.Feed.Set(false, e.from())
		return
	}
	e.ruled(&e.Feed, e.try(e.publish(e.feed()+"."+unusedElection())))
}

// readRequests tries whether this connection may ask leaders to hand over. It sends a request that no candidate
// receives, or that a leader does not take because it has no subject for the reply.
func (e *environment) readRequests(context.Context) {
	subject := wire.AskPrefix + e.name + "." + unusedElection()
	if e.as == facts.Operator && e.named {
		subject = e.askSubject()
	}
	e.ruled(&e.Requests, e.try(e.publish(subject)))
}

func (e *environment) publish(subject string) func() error {
	return func() error { return e.nc.Publish(subject, nil) }
}

// mostTried is how many elections readBorder tries to write.
const mostTried = 20

// readBorder tries which elections of the bucket this connection may write. A group counts as one. Behind an import
// nothing can be tried.
func (e *environment) readBorder(context.Context) {
	if e.api != jetstream.DefaultAPIPrefix {
		e.Border.Set(facts.Border{}, e.from())
		return
	}
	pre := "$KV." + e.name + "."
	var info jetstream.StreamInfo
	m := &nats.Msg{Subject: e.api + "STREAM.INFO.KV_" + e.name, Data: []byte(`{"subjects_filter":"` + pre + `>"}`)}
	if err := e.request(m, &info); err != nil {
		e.lose(&e.Border, err)
		return
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(info.State.Subjects)), func(subject string) bool {
		name, _, _ := group.NameOf(subject)
		_, isGroup := info.State.Subjects[group.RegistryKey(name)]
		if strings.HasPrefix(subject, pre+notePrefix) || subject == pre+wire.CordonKey {
			return true
		}
		return isGroup && subject != group.RegistryKey(name) // one key of a group stands for all
	})
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], pre)
	}
	if e.named {
		names = append([]string{e.election}, slices.DeleteFunc(names, func(n string) bool { return n == e.election })...)
	}
	var b facts.Border
	for _, name := range names[:min(len(names), mostTried)] {
		err := e.try(e.write(name))
		if of, _, _ := group.NameOf(name); name == group.RegistryKey(of) {
			name = "group " + of
		}
		switch {
		case err == nil:
			b.May = append(b.May, facts.Text(name))
		case errors.Is(err, nats.ErrPermissionViolation):
			b.MayNot = append(b.MayNot, facts.Text(name))
		default:
			e.lose(&e.Border, err)
			return
		}
	}
	e.Border.Set(b, e.from())
}
