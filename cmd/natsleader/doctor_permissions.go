package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/wire"
)

// permissionProbe is one permission of a role.
type permissionProbe struct {
	what    string // it is for
	missing severity
	do      func() error
}

// The roles of --as.
const (
	asCandidate = "candidate"
	asOperator  = "operator"
	asCreator   = "creator"
)

// checkPermissions tries each permission of the role of --as, and reports those that are
// missing. Only a refusal by the server counts; any other answer does not matter.
func checkPermissions(_ context.Context, e *environment) []finding {
	trials := []permissionProbe{
		{"every answer of the server", severityCritical, e.listen(e.nc.NewInbox())},
		{"the settings of the bucket", severityCritical, e.send("STREAM.INFO.KV_"+e.name, "")},
	}
	switch e.as {
	case asOperator:
		trials = append(trials, e.watchProbes()...)
		trials = append(trials, e.operatorProbes()...)
		if e.roster {
			trials = append(trials, e.rosterProbes()...)
		}
	case asCreator:
		trials = append(trials, e.watchProbes()...)
		trials = append(trials,
			permissionProbe{"making the bucket", severityCritical, e.send("STREAM.CREATE.KV_"+e.name, "")},
			permissionProbe{"changing the bucket", severityCritical, e.send("STREAM.UPDATE.KV_"+e.name, "")},
			permissionProbe{"bucket ls", severityNote, e.send("STREAM.LIST", "")})
	default:
		trials = append(trials, e.candidateProbes()...)
	}
	var found []finding
	for _, t := range trials {
		switch err := e.try(t.do); {
		case errors.Is(err, nats.ErrPermissionViolation):
			f := t.missing.of("%s (for %s)", violation(err), t.what)
			if !e.named && strings.Contains(violation(err), e.election) {
				f = f.advise("name the election that this connection is for with --election, or allow it")
			} else {
				f = f.advise("allow it")
			}
			found = append(found, f)
		case err != nil:
			found = append(found, unanswered("%s: %v", t.what, err))
		}
	}
	switch {
	case e.as == asOperator, e.as == asCreator:
		if e.try(e.write(e.election)) == nil {
			found = append(found, severityNote.of("this connection may write elections, which %s need not", e.role()).
				advise("allow that to candidates only: `natsleader permissions "+e.as+"` prints the least"))
		}
	case !slices.ContainsFunc(found, func(f finding) bool { return f.Severity > severityNote }) && e.info != nil && e.unfit == nil:
		found = append(found, e.checkWrite()...)
	}
	if len(found) == 0 {
		found = append(found, fine("this connection may do all that %s does", e.role()))
	}
	return found
}

// role returns the role of --as with its article.
func (e *environment) role() string {
	if e.as == asOperator {
		return "an " + e.as
	}
	return "a " + e.as
}

// watchProbes are the permissions of those who look at all elections.
func (e *environment) watchProbes() []permissionProbe {
	return []permissionProbe{
		{"reading all elections", severityCritical, e.createNothing(e.name, "$KV."+e.name+".>")},
		{"tidiness", severityNote, e.send("CONSUMER.DELETE.KV_"+e.name+"."+noConsumer, "")},
	}
}

// operatorProbes are the permissions of an operator besides watchProbes, and besides requests to the leaders.
func (e *environment) operatorProbes() []permissionProbe {
	trials := []permissionProbe{
		{"status and step-down of one election", severityCritical, e.get(e.election)},
		{"writing the note", severityNote, e.write(noteKey(e.election))},
		{"writing the cordon", severityNote, e.write(wire.CordonKey)},
	}
	if e.republishes() {
		trials = append(trials, permissionProbe{"hearing at once who follows", severityNote, e.listen(e.feed() + "." + e.election)})
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
func (e *environment) republishes() bool { return e.info == nil || e.settings.FeedSubject != "" }

// candidateProbes are the permissions of a candidate.
func (e *environment) candidateProbes() []permissionProbe {
	key := "$KV." + e.name + "." + e.election
	trials := []permissionProbe{{"reading the election", severityCritical, e.get(e.election)}, {"the lease", severityCritical, e.write(e.election)}}
	if e.republishes() {
		trials = append(trials, permissionProbe{"hearing of changes: without it candidates poll", severityWarning, e.listen(e.feed() + "." + e.election)})
	} else {
		// The server can fulfil neither request.
		trials = append(trials,
			permissionProbe{"hearing of changes: without it candidates poll", severityWarning, e.createNothing(e.name, key)},
			permissionProbe{"tidiness", severityNote, e.send("CONSUMER.DELETE.KV_"+e.name+"."+noConsumer, "")})
	}
	trials = append(trials,
		permissionProbe{"requests to step down: without it nobody can ask", severityNote, e.listen(e.askSubject())},
		permissionProbe{"heeding cordons", severityNote, e.get(wire.CordonKey)})
	if e.republishes() {
		trials = append(trials, permissionProbe{"heeding cordons at once", severityNote, e.listen(e.feed() + "." + wire.CordonKey)})
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

// checkWrite checks the reason for which the server rejects the impossible write. It
// ought to be the condition.
func (e *environment) checkWrite() []finding {
	reply, err := e.ask(e.impossible(e.name, e.election))
	if err != nil {
		return []finding{severityCritical.of("a write of the bucket is not answered: %v", err)}
	}
	var ack struct {
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(reply, &ack); {
	case err != nil:
		return []finding{unanswered("the answer to a write is not understood: %v", err)}
	case ack.Error == nil:
		return []finding{severityCritical.of("the bucket accepts writes whose condition does not hold").advise("use another bucket")}
	case ack.Error.ErrorCode == wire.CodeWrongLastSequence || ack.Error.ErrorCode == wire.CodeWrongLastConstant:
		return nil
	default:
		return []finding{severityCritical.of("writes of the bucket are refused: %v", ack.Error)}
	}
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
	if e.settings.FeedSubject != "" {
		return e.settings.FeedSubject
	}
	return wire.FeedPrefix + e.name
}

func (e *environment) askSubject() string { return wire.AskPrefix + e.name + "." + e.election }

// checkFeedPublish reports whether this connection may publish to the feed, as only the
// server should.
func checkFeedPublish(_ context.Context, e *environment) []finding {
	if e.settings.FeedSubject == "" {
		return []finding{fine("there is no feed to forge: the bucket does not republish")}
	}
	return e.tryToPublish(e.feed()+"."+unusedElection(),
		severityWarning.of("this connection may publish to %s.>, and make waiting candidates believe what never was", e.feed()).
			advise("deny everybody to publish to "+e.feed()+".>; the server needs no permission"),
		fine("this connection may not publish to %s.>, as nobody should", e.feed()))
}

// checkAskPublish reports whether this connection may push leaders out. It sends a
// request that no candidate receives.
func checkAskPublish(_ context.Context, e *environment) []finding {
	subject := wire.AskPrefix + e.name
	switch {
	case e.as == asOperator && e.named: // a leader takes no request without a subject for the reply
		return e.tryToPublish(e.askSubject(), fine("this connection may ask the leader of %s to hand over, as an operator does", e.election),
			severityCritical.of("this connection may not publish to %s (for step-down)", e.askSubject()).advise("allow it"))
	case e.as == asOperator:
		return e.tryToPublish(subject+"."+unusedElection(), fine("this connection may ask leaders to hand over, as an operator does"),
			severityCritical.of("this connection may not publish to %s.> (for step-down)", subject).
				advise("name the election that this connection is for with --election, or allow it"))
	}
	return e.tryToPublish(subject+"."+unusedElection(),
		severityNote.of("this connection may push leaders out: it may publish to %s.>", subject).
			advise("allow it to those who use natsleader step-down only"),
		fine("this connection may not push leaders out"))
}

// tryToPublish publishes to a subject, and returns the finding for the outcome.
func (e *environment) tryToPublish(subject string, may, mayNot finding) []finding {
	switch err := e.try(func() error { return e.nc.Publish(subject, nil) }); {
	case err == nil:
		return []finding{may}
	case errors.Is(err, nats.ErrPermissionViolation):
		return []finding{mayNot}
	default:
		return []finding{unanswered("%v", err)}
	}
}

// mostTried is how many elections checkBorder tries to write.
const mostTried = 20

// checkBorder reports whether the elections of the bucket are separated by permissions alone:
// whether this connection may write some of them and not others. A group counts as one. Nothing shows which application
// an election belongs to. So connections that may write all elections see no border, and neither
// does one that reaches the bucket through an import.
func checkBorder(_ context.Context, e *environment) []finding {
	if e.api != jetstream.DefaultAPIPrefix {
		return []finding{unread("the bucket may be in another account, because the prefix of the JetStream API is %s", strings.TrimSuffix(e.api, "."))}
	}
	pre := "$KV." + e.name + "."
	var info jetstream.StreamInfo
	m := &nats.Msg{Subject: e.api + "STREAM.INFO.KV_" + e.name, Data: []byte(`{"subjects_filter":"` + pre + `>"}`)}
	if err := e.request(m, &info); err != nil {
		return []finding{unreadFor(err, "the names of the elections: %v", err)}
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
	var may, mayNot []string
	for _, name := range names[:min(len(names), mostTried)] {
		err := e.try(e.write(name))
		if of, _, _ := group.NameOf(name); name == group.RegistryKey(of) {
			name = "group " + of
		}
		switch {
		case err == nil:
			may = append(may, name)
		case errors.Is(err, nats.ErrPermissionViolation):
			mayNot = append(mayNot, name)
		default:
			return []finding{unanswered("%v", err)}
		}
	}
	switch {
	case len(mayNot) == 0:
		return []finding{fine("no border within the account: this connection may write all elections that were tried, which are %d", len(may))}
	case len(may) == 0:
		return []finding{unread("this connection may write none of the elections that were tried (%d)", len(mayNot))}
	}
	border := severityWarning
	if e.as != asCandidate {
		border = severityNote // the least permissions of an operator name elections and groups
	}
	return []finding{border.of("permissions within one account separate this connection, which may write %s, from %s", some(may), some(mayNot)).
		advise("they stop a client that makes a mistake; if an application must be safe from a hostile client of another, give each an account of its own: docs/permissions.md says how")}
}
