package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/wire"
)

// addresses judges the addresses that the servers advertise. A client that loses its connection tries them before the
// URL that it was given.
func (x *exam) addresses() []Finding {
	a, _ := x.Addresses.Get()
	switch {
	case a.Ignored:
		return []Finding{fine("clients with --no-discovery use no address that the servers advertise")}
	case len(a.Tried) == 0:
		return []Finding{fine("the servers advertise no address that this client was not given")}
	}
	var silent, urls []string
	for _, t := range a.Tried {
		urls = append(urls, t.URL)
		if t.Silent != "" {
			silent = append(silent, fmt.Sprintf("%s (%s)", t.URL, t.Silent))
		}
	}
	var found []Finding
	if len(silent) > 0 {
		found = append(found, Warning.of("of %d addresses that the servers advertise, these do not answer from here: %s; "+
			"a client that loses its connection tries them before its own URL, 2 s each by default, and its lease may be over meanwhile",
			len(urls), strings.Join(silent, ", ")).
			advise("let the servers advertise what clients reach (client_advertise) or nothing (no_advertise in the block cluster), or ignore what they advertise: --no-discovery, in programs nats.IgnoreDiscoveredServers()"))
	} else {
		found = append(found, fine("the addresses that the servers advertise answer: %s", strings.Join(urls, ", ")))
	}
	if a.More > 0 {
		found = append(found, unread("%d more addresses that the servers advertise", a.More))
	}
	return found
}

// denied is how much it matters that a permission is missing. One that is not named here matters most.
var denied = map[string]Severity{
	facts.ForFeed:       Warning,
	facts.ForAnnouncing: Warning,
	facts.ForSeeing:     Warning,
	facts.ForRequests:   Note,
	facts.ForCordons:    Note,
	facts.ForCordonFeed: Note,
	facts.ForTidiness:   Note,
	facts.ForNote:       Note,
	facts.ForCordon:     Note,
	facts.ForFollower:   Note,
	facts.ForList:       Note,
	facts.ForRoster:     Note,
}

// permissions names the permissions of the role that are missing.
func (x *exam) permissions() []Finding {
	rights, _ := x.Rights.Get()
	if len(rights) == 0 {
		return []Finding{unanswered("no permission was tried")}
	}
	var found []Finding
	for i, r := range rights {
		refused, known := r.Tried.Get()
		switch {
		case r.For == facts.ForWriting:
			if known && refused == "" {
				found = append(found, Note.of("this connection may write elections, which %s need not", x.role()).
					advise("allow that to candidates only: `natsleader permissions "+x.Asked.Role+"` prints the least"))
			}
		case !known:
			found = append(found, unanswered("%s: %s", r.For, x.gaps[fmt.Sprintf("Rights[%d].Tried", i)].Words()))
		case refused != "":
			s, named := denied[r.For]
			if !named {
				s = Critical
			}
			advice := "allow it"
			if !x.Asked.Named && strings.Contains(refused, x.Asked.Election) {
				advice = "name the election that this connection is for with --election, or allow it"
			}
			found = append(found, s.of("%s (for %s)", refused, r.For).advise(advice))
		}
	}
	if !slices.ContainsFunc(found, func(f Finding) bool { return f.Severity > Note }) {
		found = append(found, x.write()...)
	}
	if len(found) == 0 {
		found = append(found, fine("this connection may do all that %s does", x.role()))
	}
	return found
}

// role returns the role with its article.
func (x *exam) role() string {
	if x.Asked.Role == facts.Operator {
		return "an " + x.Asked.Role
	}
	return "a " + x.Asked.Role
}

// write judges the reason for which the server rejects the impossible write. It ought to be the condition.
func (x *exam) write() []Finding {
	w, _ := x.Write.Get()
	f, missing := x.missing("Write", "permissions")
	switch {
	case missing && x.gaps["Write"].Why == facts.NotRead && !x.takesWrites():
		return nil
	case missing:
		return []Finding{f}
	case w.Skipped && x.Asked.Role != facts.Candidate:
		return nil
	case w.Skipped:
		return []Finding{unanswered("whether the bucket takes writes: none was tried")}
	case w.Accepted:
		return []Finding{Critical.of("the bucket accepts writes whose condition does not hold").advise("use another bucket")}
	case w.Refusal == nil:
		return []Finding{unanswered("the answer to a write is empty")}
	case w.Refusal.Code == wire.CodeWrongLastSequence || w.Refusal.Code == wire.CodeWrongLastConstant:
		return nil
	}
	return []Finding{Critical.of("writes of the bucket are refused: %s", w.Refusal.Text)}
}

// feedPublish judges whether this connection may publish to the feed, as only the server should.
func (x *exam) feedPublish() []Finding {
	may, _ := x.Feed.Get()
	switch feed := x.settings.FeedSubject; {
	case feed == "":
		return []Finding{fine("there is no feed to forge: the bucket does not republish")}
	case may:
		return []Finding{Warning.of("this connection may publish to %s.>, and make waiting candidates believe what never was", feed).
			advise("deny everybody to publish to " + feed + ".>; the server needs no permission")}
	default:
		return []Finding{fine("this connection may not publish to %s.>, as nobody should", feed)}
	}
}

// askPublish judges whether this connection may push leaders out.
func (x *exam) askPublish() []Finding {
	subject := wire.AskPrefix + x.Asked.Bucket
	may, _ := x.Requests.Get()
	operator, named := x.Asked.Role == facts.Operator, x.Asked.Named
	one := subject + "." + x.Asked.Election
	switch {
	case operator && named && may:
		return []Finding{fine("this connection may ask the leader of %s to hand over, as an operator does", x.Asked.Election)}
	case operator && named:
		return []Finding{Critical.of("this connection may not publish to %s (for step-down)", one).advise("allow it")}
	case operator && may:
		return []Finding{fine("this connection may ask leaders to hand over, as an operator does")}
	case operator:
		return []Finding{Critical.of("this connection may not publish to %s.> (for step-down)", subject).
			advise("name the election that this connection is for with --election, or allow it")}
	case may:
		return []Finding{Note.of("this connection may push leaders out: it may publish to %s.>", subject).
			advise("allow it to those who use natsleader step-down only")}
	}
	return []Finding{fine("this connection may not push leaders out")}
}

// border judges whether the elections of the bucket are separated by permissions alone:
// whether this connection may write some of them and not others. A group counts as one. Nothing shows which application
// an election belongs to. So connections that may write all elections see no border, and neither
// does one that reaches the bucket through an import.
func (x *exam) border() []Finding {
	if x.Asked.API != jetstream.DefaultAPIPrefix {
		return []Finding{unread("the bucket may be in another account, because the prefix of the JetStream API is %s", strings.TrimSuffix(x.Asked.API, "."))}
	}
	b, _ := x.Border.Get()
	switch {
	case len(b.MayNot) == 0:
		return []Finding{fine("no border within the account: this connection may write all elections that were tried, which are %d", len(b.May))}
	case len(b.May) == 0:
		return []Finding{unread("this connection may write none of the elections that were tried (%d)", len(b.MayNot))}
	}
	border := Warning
	if x.Asked.Role != facts.Candidate {
		border = Note // the least permissions of an operator name elections and groups
	}
	return []Finding{border.of("permissions within one account separate this connection, which may write %s, from %s", Some(b.May), Some(b.MayNot)).
		advise("they stop a client that makes a mistake; if an application must be safe from a hostile client of another, give each an account of its own: docs/permissions.md says how")}
}

// client names the settings that applications should use, which the server does not know.
func (x *exam) client() []Finding {
	c, _ := x.Client.Get()
	return []Finding{fine("this connection pings every %v, and a write that the network does not take fails after %v", c.Ping, c.Flush).
		advise("set nats.PingInterval(time.Second) and nats.FlusherTimeout(2*time.Second) in applications, too: their defaults are minutes, and doctor cannot see them")}
}
