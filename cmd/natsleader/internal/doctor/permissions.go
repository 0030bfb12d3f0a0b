package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
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
func (e *Environment) readRights(context.Context) {
	trials := []permissionProbe{
		{facts.ForAnswers, e.Listen(e.Nc.NewInbox())},
		{facts.ForSettings, e.Send("STREAM.INFO.KV_"+e.Name, "")},
	}
	switch e.As {
	case facts.Operator:
		trials = append(trials, e.watchProbes()...)
		trials = append(trials, e.operatorProbes()...)
		if e.roster {
			trials = append(trials, e.rosterProbes()...)
		}
	case facts.Creator:
		trials = append(trials, e.watchProbes()...)
		trials = append(trials,
			permissionProbe{facts.ForMaking, e.Send("STREAM.CREATE.KV_"+e.Name, "")},
			permissionProbe{facts.ForChanging, e.Send("STREAM.UPDATE.KV_"+e.Name, "")},
			permissionProbe{facts.ForList, e.Send("STREAM.LIST", "")})
	default:
		trials = append(trials, e.candidateProbes()...)
	}
	if e.As != facts.Candidate {
		trials = append(trials, permissionProbe{facts.ForWriting, e.write(e.Election)})
	}
	rights := make([]facts.Right, len(trials))
	for i, t := range trials {
		r := &rights[i]
		r.For = t.what
		switch err := e.Try(t.do); {
		case err == nil:
			r.Tried.Set("", e.from())
		case errors.Is(err, nats.ErrPermissionViolation):
			r.Tried.Set(inspect.Violation(err), e.from())
		default:
			e.lose(&r.Tried, err)
		}
	}
	e.Rights.Set(rights, e.from())
	e.ReadWrite()
}

// watchProbes are the permissions of those who look at all elections.
func (e *Environment) watchProbes() []permissionProbe {
	return []permissionProbe{
		{facts.ForAll, e.CreateNothing(e.Name, "$KV."+e.Name+".>")},
		{facts.ForTidiness, e.Send("CONSUMER.DELETE.KV_"+e.Name+"."+inspect.NoConsumer, "")},
	}
}

// operatorProbes are the permissions of an operator besides watchProbes, and besides requests to the leaders.
func (e *Environment) operatorProbes() []permissionProbe {
	trials := []permissionProbe{
		{facts.ForSteering, e.get(e.Election)},
		{facts.ForNote, e.write(facts.NoteKey(e.Election))},
		{facts.ForCordon, e.write(wire.CordonKey)},
	}
	if e.republishes() {
		trials = append(trials, permissionProbe{facts.ForFollower, e.Listen(e.feed() + "." + e.Election)})
	}
	return trials
}

// get returns a request for the record of a key.
func (e *Environment) get(key string) func() error {
	key = "$KV." + e.Name + "." + key
	if e.Info != nil && !e.Info.Config.AllowDirect {
		return e.Send("STREAM.MSG.GET.KV_"+e.Name, `{"last_by_subj":"`+key+`"}`)
	}
	return e.Send("DIRECT.GET.KV_"+e.Name+"."+key, "")
}

// write returns a write of a key that the server cannot fulfil.
func (e *Environment) write(key string) func() error {
	return func() error { return e.Nc.PublishMsg(e.Impossible(e.Name, key)) }
}

// republishes reports whether the bucket has a feed, as far as is known.
func (e *Environment) republishes() bool {
	settings, known := e.Settings.Get()
	return !known || settings.FeedSubject != ""
}

// candidateProbes are the permissions of a candidate.
func (e *Environment) candidateProbes() []permissionProbe {
	key := "$KV." + e.Name + "." + e.Election
	trials := []permissionProbe{{facts.ForReading, e.get(e.Election)}, {facts.ForLease, e.write(e.Election)}}
	if e.republishes() {
		trials = append(trials, permissionProbe{facts.ForFeed, e.Listen(e.feed() + "." + e.Election)})
	} else {
		// The server can fulfil neither request.
		trials = append(trials,
			permissionProbe{facts.ForFeed, e.CreateNothing(e.Name, key)},
			permissionProbe{facts.ForTidiness, e.Send("CONSUMER.DELETE.KV_"+e.Name+"."+inspect.NoConsumer, "")})
	}
	trials = append(trials,
		permissionProbe{facts.ForRequests, e.Listen(e.askSubject())},
		permissionProbe{facts.ForCordons, e.get(wire.CordonKey)})
	if e.republishes() {
		trials = append(trials, permissionProbe{facts.ForCordonFeed, e.Listen(e.feed() + "." + wire.CordonKey)})
	}
	if e.roster {
		trials = append(trials, e.rosterProbes()...)
	}
	return trials
}

// ReadWrite asks for the reason for which the server rejects the impossible write of a candidate.
func (e *Environment) ReadWrite() {
	switch {
	case e.As != facts.Candidate:
		e.Write.Set(facts.Write{Skipped: true}, e.from())
		return
	case !e.Fit: // no stream takes it
		return
	}
	err := e.Request(e.Impossible(e.Name, e.Election), &struct{}{})
	if no := refusalOf(err); err == nil || no != nil && no.Code != facts.CodeNoResponders {
		e.Write.Set(facts.Write{Accepted: err == nil, Refusal: no}, e.from())
		return
	}
	e.lose(&e.Write, err)
}

// feed is the prefix of the subjects of the bucket's feeds.
func (e *Environment) feed() string {
	if settings, _ := e.Settings.Get(); settings.FeedSubject != "" {
		return settings.FeedSubject
	}
	return wire.FeedPrefix + e.Name
}

func (e *Environment) askSubject() string { return wire.AskPrefix + e.Name + "." + e.Election }

// readFeed tries whether this connection may publish to the feed.
func (e *Environment) readFeed(context.Context) {
	if settings, known := e.Settings.Get(); known && settings.FeedSubject == "" {
		e.Feed.Set(false, e.from())
		return
	}
	e.ruled(&e.Feed, e.Try(e.publish(e.feed()+"."+unusedElection())))
}

// readRequests tries whether this connection may ask leaders to hand over. It sends a request that no candidate
// receives, or that a leader does not take because it has no subject for the reply.
func (e *Environment) readRequests(context.Context) {
	subject := wire.AskPrefix + e.Name + "." + unusedElection()
	if e.As == facts.Operator && e.named {
		subject = e.askSubject()
	}
	e.ruled(&e.Requests, e.Try(e.publish(subject)))
}

func (e *Environment) publish(subject string) func() error {
	return func() error { return e.Nc.Publish(subject, nil) }
}

// MostTried is how many elections readBorder tries to write.
const MostTried = 20

// readBorder tries which elections of the bucket this connection may write. A group counts as one. Behind an import
// nothing can be tried.
func (e *Environment) readBorder(context.Context) {
	if e.Api != jetstream.DefaultAPIPrefix {
		e.Border.Set(facts.Border{}, e.from())
		return
	}
	pre := "$KV." + e.Name + "."
	var info jetstream.StreamInfo
	m := &nats.Msg{Subject: e.Api + "STREAM.INFO.KV_" + e.Name, Data: []byte(`{"subjects_filter":"` + pre + `>"}`)}
	if err := e.Request(m, &info); err != nil {
		e.lose(&e.Border, err)
		return
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(info.State.Subjects)), func(subject string) bool {
		name, _, _ := group.NameOf(subject)
		_, isGroup := info.State.Subjects[group.RegistryKey(name)]
		if strings.HasPrefix(subject, pre+facts.NotePrefix) || subject == pre+wire.CordonKey {
			return true
		}
		return isGroup && subject != group.RegistryKey(name) // one key of a group stands for all
	})
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], pre)
	}
	if e.named {
		names = append([]string{e.Election}, slices.DeleteFunc(names, func(n string) bool { return n == e.Election })...)
	}
	var b facts.Border
	for _, name := range names[:min(len(names), MostTried)] {
		err := e.Try(e.write(name))
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
