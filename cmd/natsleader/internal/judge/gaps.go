package judge

import (
	"fmt"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
)

// missing returns the finding of a check whose fact is not known.
func (x *exam) missing(fact, check string) (f Finding, missing bool) {
	g, missing := x.gaps[fact]
	if !missing {
		if fact == "Stream" && x.info == nil && check != "bucket" { // the check bucket says why
			return because(NoSettings, unanswered), true
		}
		return Finding{}, false
	}
	return x.gap(g, check), true
}

func because(c Cause, say func(string, ...any) Finding) Finding {
	f := say("%s", c.Text())
	f.Because = c
	return f
}

// gap returns the finding on a fact that is not known.
func (x *exam) gap(g facts.Gap, check string) Finding {
	words, denied := g.Words(), g.Why == facts.Denied
	say, need := unanswered, ""
	if denied { // a right that candidates need not have is no fault
		say, need = unread, "; candidates need not"
	}
	if g.Text == facts.Lost {
		return because(LostMeantime, unanswered)
	}
	if s, none := x.gaps["Server"]; none && g.Why == facts.NotRead && s.Why != facts.NotRead && g.Fact != "Server" {
		return because(NoConnection, unanswered)
	}
	switch g.Fact {
	case "Server":
		if g.Why == facts.Refused {
			return Unknown.of("the servers refuse the credentials of this connection: %s", words).advise("give it the credentials of a user that they know, or restore its user")
		}
		return unanswered("no server takes the connection: %s", words)
	case "Stream":
		if check == "bucket" {
			return x.noStream(g)
		}
		return because(NoSettings, say)
	case "Settings":
		switch check {
		case "bucket":
			return say("bucket %s exists, and whether it is fit for elections is not known: %s", x.Asked.Bucket, words)
		case "max-lease":
			return say("MaxLease: %s", words)
		}
		return because(NoSettings, say)
	case "Domains":
		return say("other domains: %s%s", words, in(need))
	case "Sync":
		if denied {
			return unread("sync_interval is told to system credentials only").advise("name a context that has them with --system-context")
		}
		return unanswered("sync_interval: %s", words)
	case "Account":
		return say("limits of the account: %s%s", words, in(need))
	case "Store":
		if denied {
			return unread("%s (to store a message in a stream of its own%s)", words, need).advise("run doctor as a user who may create streams, too: only that finds a full disk")
		}
		return unanswered("whether a message can be stored: %s", words)
	case "Write":
		if x.leaderless() {
			return because(NoneLeads, unanswered)
		}
		if g.Why == facts.NoAnswer {
			return Critical.of("a write of the bucket is not answered: %s", words)
		}
		return unanswered("the answer to a write is not understood: %s", words)
	case "Answers":
		return say("to the leader of the stream and back: %s", words)
	case "Border":
		return say("the names of the elections: %s", words)
	case "Roster":
		return x.noSideStream(g, "the roster", "nobody sees who waits")
	case "History":
		return x.noSideStream(g, "the history", "no change in the bucket is recorded")
	case "Elections":
		if denied {
			return unread("%s (to read all elections%s)", words, need)
		}
		return unanswered("the elections cannot be read: %s", words)
	case "Cordon":
		return say("the cordon: %s", words)
	case "Pace":
		if g.Why == facts.NoMajority {
			return unanswered("%s: %s", MaybeOver.Text(), words)
		}
	}
	return say("%s", words)
}

// in puts what candidates need not into parentheses.
func in(need string) string {
	if need == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", need[len("; "):])
}

// noStream is the finding of the check bucket if its stream is not known.
func (x *exam) noStream(g facts.Gap) Finding {
	switch g.Why { //nolint:exhaustive // the others have words of their own
	case facts.Denied:
		return unread("the connection may not ask for it, see permissions")
	case facts.NoMajority:
		return unanswered("%s", g.Words()).advise("ask another server with -s; if none sees a majority, bring the servers back")
	case facts.NoAnswer:
		return unanswered("nobody answers for bucket %s within %v: its stream, or JetStream as a whole, has no leader", x.Asked.Bucket, x.Asked.Wait).
			advise("if that lasts for more than some seconds, bring back a majority of the servers")
	}
	return unanswered("bucket %s: %s", x.Asked.Bucket, g.Words())
}

// noSideStream is the finding on the stream of the roster or of the history: elections go on without it.
func (x *exam) noSideStream(g facts.Gap, what, without string) Finding {
	name := x.sideStream(what)
	if x.leaderless() && g.Why != facts.Denied {
		return because(NoneLeads, unanswered)
	}
	switch g.Why { //nolint:exhaustive // the others have words of their own
	case facts.Denied:
		return unread("%s (for the settings of %s)", g.Words(), what)
	case facts.NoAnswer:
		return Warning.of("%s, stream %s, does not answer: %s; while it has no leader %s", what, name, g.Words(), without).
			advise("if that lasts, bring back a majority of its servers")
	case facts.NoMajority:
		return Warning.of("%s has no majority of its servers: %s; while that lasts %s", what, g.Words(), without).
			advise("bring back a majority of its servers")
	}
	return unanswered("%s, stream %s: %s", what, name, g.Words())
}
