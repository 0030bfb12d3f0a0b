package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/hazards"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// reshape is the advice to give the bucket the settings of a bucket for elections.
func (e *environment) reshape() string {
	return "while no candidate stands: " + e.addLine()
}

func (e *environment) addLine(flags ...string) string {
	return strings.Join(append([]string{"natsleader bucket add", e.name}, flags...), " ")
}

func checkBucket(_ context.Context, e *environment) []finding {
	switch {
	case e.noJetStream():
		return []finding{unanswered("JetStream does not answer")}
	case errors.Is(e.infoErr, nats.ErrPermissionViolation):
		return []finding{unread("the connection may not ask for it, see permissions")}
	case errors.Is(e.infoErr, errNoMajority):
		return []finding{unanswered("%s", errorText(e.infoErr)).advise("ask another server with -s; if none sees a majority, bring the servers back")}
	case errors.Is(e.infoErr, jetstream.ErrStreamNotFound):
		return []finding{severityCritical.of("bucket %s does not exist", e.name).advise(neverSeen(e.name))}
	case errors.Is(e.infoErr, nats.ErrTimeout):
		return []finding{severityCritical.of("nobody answers for bucket %s within %v: its stream, or JetStream as a whole, has no leader", e.name, e.wait).
			advise("if that lasts for more than some seconds, bring back a majority of the servers")}
	case refusedWith(e.infoErr, codeOffline):
		return []finding{severityCritical.of("all servers that keep bucket %s are away: nobody can lead", e.name).
			advise("bring back a majority of them; docs/regions.md says what to do if their region is lost")}
	case e.infoErr != nil:
		return []finding{severityCritical.of("bucket %s: %v", e.name, e.infoErr)}
	case errors.Is(e.unfit, leader.ErrIncompatibleBucket):
		return []finding{severityCritical.of("bucket %s: %v", e.name, errorText(e.unfit)).advise("use a bucket that was made by natsleader bucket add")}
	default:
		return []finding{fine("bucket %s exists", e.name)}
	}
}

// hazardsOf returns the hazards of the bucket with that effect.
func (e *environment) hazardsOf(effect hazards.Effect) []hazards.Hazard {
	return hazards.Bucket(e.info.Config, hazards.Elections, e.name).Of(effect)
}

// checkSettings names what the settings cost, where records stay and elections work.
func checkSettings(_ context.Context, e *environment) (found []finding) {
	for _, h := range e.hazardsOf(hazards.Reported) {
		found = append(found, severityWarning.of("the bucket %s", h.Text).advise(cmp.Or(h.Remedy, e.reshape())))
	}
	for _, h := range e.hazardsOf(hazards.Noted) {
		found = append(found, severityNote.of("the bucket %s", h.Text).advise(cmp.Or(h.Remedy, e.reshape())))
	}
	if len(found) == 0 {
		return []finding{fine("no setting of the bucket costs more than it needs")}
	}
	return found
}

// checkPurgeProtection names the settings by which a record can vanish.
func checkPurgeProtection(_ context.Context, e *environment) []finding {
	found := e.hazardsOf(hazards.Unprotected)
	if len(found) == 0 {
		return []finding{fine("the bucket is purge-protected: no record can vanish")}
	}
	advice := ""
	for _, h := range found {
		advice = cmp.Or(advice, h.Remedy)
	}
	return []finding{severityWarning.of("the bucket is not purge-protected, records can vanish: it %s", hazards.Join(found)).
		advise(cmp.Or(advice, e.reshape()))}
}

// checkHistory checks the stream with the history, if the bucket was made with one.
func checkHistory(_ context.Context, e *environment) []finding {
	name := historyStream(e.name)
	if e.info.Config.Metadata[historyKey] != name {
		return []finding{fine("the bucket keeps no history")}
	}
	var info jetstream.StreamInfo
	switch err := e.request(&nats.Msg{Subject: e.api + "STREAM.INFO." + name}, &info); {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return []finding{severityWarning.of("the history of the bucket is lost: stream %s does not exist", name).advise(e.addLine("--history 30d"))}
	case errors.Is(err, nats.ErrPermissionViolation):
		return []finding{unread("%s (for the settings of the history)", violation(err))}
	case errors.Is(err, nats.ErrTimeout), refusedWith(err, codeOffline):
		return []finding{severityWarning.of("the history, stream %s, does not answer: %s; while it has no leader no change in the bucket is recorded", name, errorText(err)).
			advise("if that lasts, bring back a majority of its servers")}
	case err != nil:
		return []finding{unanswered("the history, stream %s: %s", name, errorText(err))}
	}
	kept := hazards.Stream{StreamConfig: info.Config, Use: hazards.History}.Of(hazards.Reported)
	if len(kept) == 0 {
		return []finding{fine("the bucket keeps a history, in stream %s", name)}
	}
	return []finding{severityWarning.of("the history, stream %s, %s", name, hazards.Join(kept)).advise(kept[0].Remedy)}
}

func checkTTL(_ context.Context, e *environment) []finding {
	ttl, lease := e.info.Config.MaxAge, e.lease()
	switch {
	case ttl <= 0:
		return []finding{fine("records do not expire")}
	case lease > ttl:
		return []finding{severityCritical.of("the TTL of %v is shorter than leases of %v: candidates refuse to stand", ttl, lease).
			advise("use shorter leases, or a longer TTL")}
	case lease > ttl*2/3:
		return []finding{severityWarning.of("the TTL of %v is close to leases of %v: a server whose clock is ahead drops a leader's record", ttl, lease).
			advise("use leases of at most two thirds of the TTL")}
	case e.info.Config.SubjectDeleteMarkerTTL == 0:
		return []finding{severityNote.of("records expire after %v without a marker, so that nobody hears of it; an empty key is led one TTL later", ttl).
			advise(e.reshape() + " --ttl " + ttl.String())}
	default:
		return []finding{fine("records expire after %v, longer than leases of %v; an empty key is led one TTL later", ttl, lease)}
	}
}

func checkMaxLease(_ context.Context, e *environment) []finding {
	switch {
	case errors.Is(e.unfit, leader.ErrIncompatibleBucket): // the check bucket has found that
		return []finding{unread("MaxLease: %s", errorText(e.unfit))}
	case e.unfit != nil:
		return []finding{unreadFor(e.unfit, "MaxLease: %s", errorText(e.unfit))}
	case e.settings.MaxLease > 0:
		return []finding{fine("MaxLease is %v", e.settings.MaxLease)}
	}
	return []finding{severityWarning.of("the bucket has no MaxLease: candidates of an election that use different leases can lead at the same time").
		advise(e.reshape() + " --max-lease " + e.lease().String())}
}

func checkRepublish(_ context.Context, e *environment) []finding {
	if e.settings.FeedSubject != "" {
		return []finding{fine("changes are republished on %s.>", e.settings.FeedSubject)}
	}
	text := "the bucket does not republish"
	if r := e.info.Config.RePublish; r != nil {
		text = fmt.Sprintf("the bucket republishes %q to %q, which is no use to an election", r.Source, r.Destination)
	}
	return []finding{severityWarning.of("%s: each waiting candidate costs the server a consumer, and takes up to 20 s longer to notice when a server goes away", text).
		advise(e.reshape())}
}

// lossOfServer is how long a lease has to be to outlive the loss of one server out of
// three with certainty. The loss stops writes for 5 to 8 s.
const lossOfServer = 12 * time.Second

func checkLease(_ context.Context, e *environment) []finding {
	lease, most := e.lease(), e.settings.MaxLease
	if most > 0 && lease > most {
		return []finding{severityCritical.of("leases of %v are longer than the bucket's MaxLease %v: candidates refuse to stand", lease, most).
			advise("use shorter leases, or raise it: " + e.addLine("--max-lease", lease.String()))}
	}
	var found []finding
	if e.asked > 0 && most > 4*lease {
		found = append(found, severityNote.of("leases of %v are much shorter than MaxLease %v: after somebody deletes a leader's key, nobody leads for as long as MaxLease", lease, most).
			advise("lower it: "+e.addLine("--max-lease", lease.String())))
	}
	if lease < lossOfServer && e.info.Config.Replicas > 1 {
		found = append(found, severityNote.of("leases of %v cannot promise to outlive the loss of one server, which stops writes for 5 to 8 s", lease).
			advise("use leases of 12 s or more, if a change of leader costs more than a late one"))
	}
	if len(found) == 0 {
		found = append(found, fine("leases of %v", lease))
	}
	return found
}

// recordSize is the size of a record without its value, with some room.
const recordSize = 1024

func checkPayload(_ context.Context, e *environment) []finding {
	switch most := e.settings.MaxValue; {
	case most == 0 || most >= wire.MaxValue+recordSize:
		return []finding{fine("records of any size fit into a message")}
	case most < recordSize:
		return []finding{severityCritical.of("messages of at most %d bytes are too small for records", most).
			advise("raise max_payload of the server or the account, or MaxMsgSize of the bucket")}
	default:
		return []finding{severityNote.of("values of more than about %d bytes do not fit into a message", most-recordSize)}
	}
}
