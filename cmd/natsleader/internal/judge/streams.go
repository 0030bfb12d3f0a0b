package judge

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/hazards"
	"github.com/natsleader/natsleader/internal/wire"
)

// rosterName returns the name of the roster's bucket.
func (x *exam) rosterName() string {
	if x.info != nil && x.info.Config.Metadata[wire.RosterKey] != "" {
		return x.info.Config.Metadata[wire.RosterKey]
	}
	return wire.RosterName(x.Asked.Bucket)
}

// sideStream is the name of the stream of the roster or of the history.
func (x *exam) sideStream(what string) string {
	if what == "the roster" {
		return "KV_" + x.rosterName()
	}
	return facts.HistoryStream(x.Asked.Bucket)
}

// silent returns the finding on a stream of whose settings nothing is known.
func (x *exam) silent(s facts.Stream, what, without string) (f Finding, silent bool) {
	switch no := s.Refusal; {
	case no != nil && (no.Code == facts.CodeOffline || no.Code == facts.CodeNoMetaLeader):
		return x.noSideStream(facts.Gap{Why: facts.NoAnswer, Text: no.Text}, what, without), true
	case no != nil:
		return unanswered("%s, stream %s: %s", what, x.sideStream(what), no.Text), true
	case s.Info == nil:
		return unanswered("%s, stream %s: the answer is empty", what, x.sideStream(what)), true
	}
	return Finding{}, false
}

// roster judges the roster, if there ought to be one.
func (x *exam) roster() []Finding {
	kept := x.info.Config.Metadata[wire.RosterKey] != ""
	missing := func(text string) []Finding {
		if !kept && !x.Asked.Roster {
			return []Finding{fine("%s: whoever is first takes a free key", text)}
		}
		return []Finding{Warning.of("%s: nobody waits for a turn, and candidates are not listed", text).advise(x.adviseRoster())}
	}
	s, _ := x.Roster.Get()
	switch {
	case !kept && s.Info != nil:
		return []Finding{Warning.of("the bucket does not name its roster %s, which candidates use: it was made again without it", x.rosterName()).advise(x.adviseRoster())}
	case !kept:
		return missing("the bucket keeps no roster")
	case s.Refusal != nil && s.Refusal.Code == facts.CodeNotFound:
		return missing("the roster of the bucket is gone")
	}
	if f, silent := x.silent(s, "the roster", "nobody sees who waits"); silent {
		return []Finding{f}
	}
	wrong := x.wrongInRoster(s.Info.Config)
	if len(wrong) == 0 {
		return []Finding{fine("candidates announce themselves in %s", x.rosterName())}
	}
	return []Finding{Warning.of("the roster %s is not set as it ought to be: %s", x.rosterName(), strings.Join(wrong, "; ")).
		advise(x.adviseRoster())}
}

// adviseRoster is the advice to create the roster or bring it to its settings. Servers that do
// not know message TTLs ignore those settings.
func (x *exam) adviseRoster() string {
	add := x.addLine("--roster")
	if old := x.tooOld(); len(old) > 0 {
		where := ""
		if x.clustered() {
			where = " (" + strings.Join(old, ", ") + ")"
		}
		return fmt.Sprintf("update the servers%s to nats-server %s or later, then: %s", where, leastVersion, add)
	}
	return add
}

// wrongInRoster names the settings with which a roster would not work, or would not
// show which candidates stand.
func (x *exam) wrongInRoster(c jetstream.StreamConfig) (wrong []string) {
	roster := hazards.Bucket(c, hazards.Roster, x.rosterName())
	for _, h := range append(roster.Of(hazards.Refused), roster.Of(hazards.Reported)...) {
		wrong = append(wrong, "it "+h.Text)
	}
	if least := wire.AnnouncementLeases * x.lease(); 0 < c.MaxAge && c.MaxAge < least {
		wrong = append(wrong, fmt.Sprintf("a TTL of %v, less than %d leases", c.MaxAge, wire.AnnouncementLeases))
	}
	if c.Replicas < x.info.Config.Replicas {
		wrong = append(wrong, fmt.Sprintf("%d replicas, where the bucket has %d", c.Replicas, x.info.Config.Replicas))
	}
	return wrong
}

// history judges the stream with the history, if the bucket was made with one.
func (x *exam) history() []Finding {
	name := facts.HistoryStream(x.Asked.Bucket)
	s, _ := x.History.Get()
	switch {
	case x.info.Config.Metadata[facts.HistoryKey] != name:
		return []Finding{fine("the bucket keeps no history")}
	case s.Refusal != nil && s.Refusal.Code == facts.CodeNotFound:
		return []Finding{Warning.of("the history of the bucket is lost: stream %s does not exist", name).advise(x.addLine("--history 30d"))}
	}
	if f, silent := x.silent(s, "the history", "no change in the bucket is recorded"); silent {
		return []Finding{f}
	}
	kept := hazards.Stream{StreamConfig: s.Info.Config, Use: hazards.History}.Of(hazards.Reported)
	if len(kept) == 0 {
		return []Finding{fine("the bucket keeps a history, in stream %s", name)}
	}
	return []Finding{Warning.of("the history, stream %s, %s", name, hazards.Join(kept)).advise(kept[0].Remedy)}
}
