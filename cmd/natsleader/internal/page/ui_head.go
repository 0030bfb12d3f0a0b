package page

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/doctor"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/webpage"
)

// uiChecks are the checks of doctor by facts for which watch asks, too, and by the limits of the account. head.js says what
// they are about.
var uiChecks = []string{
	"bucket", "cluster", "replicas", "settings", "protection", "ttl", "max-lease", "republish", "lease", "limits", "payload",
}

// uiChecksEvery is the time from one run of these checks to the next, if no trouble comes or goes.
const uiChecksEvery = 10 * time.Second

// link is a connection to one server, as the client has it. The zero link: there is none.
type link struct {
	name, version, cluster, address string
	made                            uint64 // how often the connection was made again
}

func linkOf(s *inspect.Inspector) link {
	if s == nil || s.Nc == nil || !s.Nc.IsConnected() {
		return link{}
	}
	nc := s.Nc
	return link{nc.ConnectedServerName(), nc.ConnectedServerVersion(), nc.ConnectedClusterName(), nc.ConnectedAddr(), nc.Stats().Reconnects}
}

// reading is what was read through one link. What was read through another is not known.
type reading struct {
	link    link
	stream  facts.Fact[facts.Stream]
	domain  facts.Fact[string]
	account facts.Fact[facts.Text]
}

// notConnected is why a fact is not known.
const notConnected = "there is no connection"

// facts returns what the head shows of the connection. A server that is in no cluster or domain has no such fact.
func (r *reading) facts() (all []webpage.Fact) {
	if r.link == (link{}) {
		return []webpage.Fact{{Name: "server", Why: notConnected}}
	}
	add := func(name, text string) {
		if text != "" {
			all = append(all, webpage.Fact{Name: name, Text: facts.Text(text).String()})
		}
	}
	add("server", r.link.name)
	add("nats-server", r.link.version)
	add("at", r.link.address)
	add("cluster", r.link.cluster)
	account := webpage.Fact{Name: "account"}
	if name, known := r.account.Get(); known {
		account.Text = name.String()
	} else {
		account.Why = r.account.Words()
	}
	all = append(all, account)
	if domain, known := r.domain.Get(); known {
		add("JetStream domain", domain)
	} else {
		all = append(all, webpage.Fact{Name: "JetStream domain", Why: r.domain.Words()})
	}
	return all
}

// relink forgets what was read through another link than the one of now, and lets Examine read it. The caller has the lock.
func (u *State) relink() {
	if now := linkOf(u.S); now != u.read.link {
		u.read, u.Heading.Checked, u.Heading.Findings = reading{link: now}, false, nil
		u.turn()
	}
}

// turn lets Examine look at once.
func (u *State) turn() {
	select {
	case u.turned <- struct{}{}:
	default:
	}
}

// showHead shows the head. The caller has the lock.
func (u *State) showHead() {
	u.relink()
	u.Heading.Lost = u.read.link == (link{})
	if !u.Heading.Lost {
		u.Heading.Server = u.read.link.name
	}
	u.Heading.Facts = u.read.facts()
	u.replicas = judge.Replicas(u.read.stream, u.replicas)
	u.Heading.Replicas = nil
	for _, r := range u.replicas {
		u.Heading.Replicas = append(u.Heading.Replicas, webpage.Replica(r))
	}
	u.Head(u.Heading)
}

// Examine makes the checks until ctx ends. Each link is asked once for the name of the account, and for its limits until it
// denies that: a server logs a request that it denies.
func (u *State) Examine(ctx context.Context, s *inspect.Inspector) {
	var asked reading
	var limits facts.Fact[facts.Account]
	denied := false
	for {
		through := linkOf(s)
		e := &doctor.Environment{Asker: inspect.Asker{Nc: s.Nc, Api: jsapi.APIPrefix(s.Js.Options()), Wait: s.Limit}, Js: s.Js, OwnBucket: s.Bucket, Name: s.Name}
		e.Read(ctx, "Stream", "Settings")
		if through != asked.link && through != (link{}) {
			asked, denied = reading{link: through}, false
			if name, why := e.AccountName(); why == "" {
				asked.account.Set(name, facts.Source{Server: through.name})
			} else {
				asked.account.Lose(facts.Unreadable, why, facts.Source{Server: through.name})
			}
		}
		if !denied {
			e.Read(ctx, "Account")
			limits = e.Account
			denied = slices.ContainsFunc(e.Gaps(), func(g facts.Gap) bool { return g.Fact == "Account" && g.Why == facts.Denied })
		}
		e.Account = limits
		u.Mu.Lock()
		if ctx.Err() == nil { // otherwise there may be another connection
			if u.relink(); u.read.link == through {
				u.read.account, u.read.domain = asked.account, domainOf(e.Settings)
			}
			u.Heading.Checked, u.Heading.Findings = true, shownFindings(judge.Of(e.Bucket, uiChecks...).Findings)
			u.showHead()
		}
		u.Mu.Unlock()
		select {
		case <-time.After(uiChecksEvery):
		case <-u.turned:
		case <-ctx.Done():
			return
		}
	}
}

// domainOf returns the JetStream domain that is in the settings of the bucket.
func domainOf(settings facts.Fact[facts.Settings]) (domain facts.Fact[string]) {
	if s, known := settings.Get(); known {
		domain.Set(s.Domain, settings.From())
	} else {
		domain.Lose(facts.NotRead, settings.Words(), settings.From())
	}
	return domain
}

// shownFindings returns what is wrong or not known, the worst first.
func shownFindings(all []judge.Finding) []webpage.Finding {
	said := func(c judge.Cause) bool { // the check that is the cause says it itself
		return slices.ContainsFunc(all, func(f judge.Finding) bool { return f.Check == string(c) && f.Severity > judge.OK && f.Because == "" })
	}
	all = slices.DeleteFunc(slices.Clone(all), func(f judge.Finding) bool { return f.Severity == judge.OK || f.Because != "" && said(f.Because) })
	all = judge.Shown(all)
	slices.SortStableFunc(all, func(a, b judge.Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	shown := make([]webpage.Finding, len(all))
	for i, f := range all {
		shown[i] = webpage.Finding{Severity: f.Severity.String(), Text: f.Text, Advice: f.Advice}
		if f.Unchecked {
			shown[i].Text = f.Check + ": " + f.Text
		}
	}
	return shown
}

// sees takes the newest state of the stream, which a look that has failed does not have, and the cordon.
func (u *State) sees(w *view.Watcher) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if u.info == w.Info && slices.Equal(u.Heading.Cordoned, w.Cordoned) {
		return
	}
	u.info, u.Heading.Cordoned = w.Info, w.Cordoned
	u.relink()
	if u.read.stream = (facts.Fact[facts.Stream]{}); w.Info != nil {
		u.read.stream.Set(facts.Stream{Info: w.Info}, facts.Source{Server: u.read.link.name, At: w.Info.TimeStamp})
	}
	u.showHead()
}
