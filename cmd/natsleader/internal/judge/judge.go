// Package judge judges the facts of a bucket: what is wrong, and what to do. It is pure: no connection, no clock, no
// layout. What is not known is never ok: a check whose fact is missing says so, and the report lists all facts that are
// missing.
//
// Its files:
//
//	judge.go      findings, the report, and the table of checks
//	gaps.go       the findings on facts that are not known
//	bucket.go     the bucket: its settings, limits and room
//	cluster.go    the servers that keep it
//	access.go     what the connection may do, and its way to the servers
//	host.go       clocks and round trips
//	trouble.go    one election or group: what is wrong, and what to do
//	elections.go  all elections, and schedules
//	groups.go     the keys of groups
//	streams.go    the streams of the roster and of the history
package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/wire"
)

// Severity is how much a finding matters. A greater one is worse.
type Severity int

// The severities.
const (
	Unjudged Severity = iota // of a check that says nothing, which is a fault of doctor
	OK
	Note
	Warning
	Unknown // what was asked for did not come, so all may be well or nothing
	Critical
)

func (s Severity) String() string {
	return [...]string{"unjudged", "ok", "note", "warning", "unknown", "critical"}[s]
}

// MarshalText is for JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one result of a check.
type Finding struct {
	Check     string    `json:"check,omitempty"`
	Code      Code      `json:"code,omitempty"` // of what is wrong with elections or a group
	Severity  Severity  `json:"severity"`
	Text      string    `json:"text"`
	Advice    string    `json:"advice,omitempty"`
	Since     time.Time `json:"since,omitzero"`    // of one election or group
	Runbook   string    `json:"runbook,omitempty"` // the address of a page
	Because   Cause     `json:"because,omitempty"` // what else has to be well before this can be judged
	Unchecked bool      `json:"-"`                 // the check could not be made
}

// Cause is why several checks could not be made: the check that says it, or the connection.
type Cause string

// The causes. Views show each once.
const (
	NoSettings   Cause = "bucket"
	NoConnection Cause = "server"
	LostMeantime Cause = "connection"
	MaybeOver    Cause = "pace"
	NoneLeads    Cause = "cluster"
)

// Text is what the findings with this cause have in common.
func (c Cause) Text() string {
	return map[Cause]string{
		NoSettings: "the settings of the bucket are not known", NoConnection: "there is no connection", LostMeantime: facts.Lost,
		MaybeOver: "what was read before may be over", NoneLeads: "this server sees no leader of the bucket's stream",
	}[c]
}

// Shown are findings as views show them: those with one cause are one, and come last.
func Shown(all []Finding) (shown []Finding) {
	var causes []Cause
	of := make(map[Cause][]string)
	first := make(map[Cause]Finding)
	for _, f := range all {
		switch {
		case f.Because == "":
			shown = append(shown, f)
			continue
		case of[f.Because] == nil:
			causes, first[f.Because] = append(causes, f.Because), f
		}
		of[f.Because] = append(of[f.Because], f.Check)
	}
	for _, c := range causes {
		f := first[c]
		f.Check, f.Text, f.Advice = "others", c.Text()+": "+strings.Join(of[c], ", "), ""
		if f.Unchecked {
			f.Text = "not checked: " + f.Text
		}
		shown = append(shown, f)
	}
	return shown
}

func (s Severity) of(format string, args ...any) Finding {
	return Finding{Severity: s, Text: fmt.Sprintf(format, args...)}
}

func fine(format string, args ...any) Finding { return OK.of(format, args...) }

// unread is the finding of a check that was not made: a right is missing that candidates need not have, or it would
// take too much.
func unread(format string, args ...any) Finding {
	f := Note.of("not checked: "+format, args...)
	f.Unchecked = true
	return f
}

// unanswered is the finding of a check whose request was not answered, or not by a majority, or by what is not
// understood.
func unanswered(format string, args ...any) Finding { return Unknown.of(format, args...) }

// advise adds advice to a finding.
func (f Finding) advise(what string) Finding {
	f.Advice = what
	return f
}

// Report is what doctor found.
type Report struct {
	Findings []Finding   // in the order of the checks
	Gaps     []facts.Gap // all that is not known
}

// Worst is the greatest severity. A report without findings has no verdict.
func (r Report) Worst() (worst Severity) {
	for _, f := range r.Findings {
		worst = max(worst, f.Severity)
	}
	return worst
}

// ExitCode is that of doctor.
func (r Report) ExitCode() int { return r.Worst().ExitCode() }

// ExitCode is that of doctor, and of status for a group, see docs/cli.md.
func (s Severity) ExitCode() int {
	return [...]int{Unjudged: 69, OK: 0, Note: 0, Warning: 1, Unknown: 69, Critical: 2}[s]
}

// check is one of doctor's checks.
type check struct {
	name  string
	needs []string // the facts without which it cannot be made
	uses  []string // facts that it reports on as well
	// judge returns no finding if the check does not apply to the bucket.
	judge func(*exam) []Finding
}

// checks are all checks, in the order of the report. docs/cli.md explains those whose findings do not say it all.
var checks = []check{
	{"server", []string{"Server"}, []string{"Stream"}, (*exam).server},
	{"addresses", []string{"Addresses"}, nil, (*exam).addresses},
	{"bucket", []string{"Stream"}, []string{"Settings"}, (*exam).bucket},
	{"domain", []string{"Stream", "Settings"}, []string{"Domains"}, (*exam).domain},
	{"cluster", []string{"Stream"}, []string{"Server"}, (*exam).cluster},
	{"replicas", []string{"Stream"}, nil, (*exam).replicas},
	{"settings", []string{"Stream"}, nil, (*exam).costs},
	{"sync", []string{"Stream"}, []string{"Sync"}, (*exam).sync},
	{"protection", []string{"Stream"}, nil, (*exam).protection},
	{"ttl", []string{"Stream", "Settings"}, nil, (*exam).ttl},
	{"max-lease", []string{"Stream", "Settings"}, nil, (*exam).maxLease},
	{"republish", []string{"Stream", "Settings"}, nil, (*exam).republish},
	{"lease", []string{"Stream", "Settings"}, nil, (*exam).leases},
	{"limits", []string{"Stream"}, []string{"Account"}, (*exam).limits},
	{"store", []string{"Stream", "Store"}, nil, (*exam).store},
	{"payload", []string{"Stream", "Settings"}, nil, (*exam).payload},
	{"permissions", []string{"Rights"}, []string{"Write"}, (*exam).permissions},
	{"feed-publish", []string{"Stream", "Settings", "Feed"}, nil, (*exam).feedPublish},
	{"ask-publish", []string{"Requests"}, nil, (*exam).askPublish},
	{"border", []string{"Stream", "Border"}, nil, (*exam).border},
	{"clock", []string{"Clock"}, []string{"Stream"}, (*exam).clock},
	{"round-trip", []string{"Pings"}, []string{"Answers"}, (*exam).roundTrip},
	{"client", []string{"Client"}, nil, (*exam).client},
	{"roster", []string{"Stream", "Settings", "Roster"}, nil, (*exam).roster},
	{"history", []string{"Stream", "History"}, nil, (*exam).history},
	{"elections", []string{"Stream", "Settings", "Elections"}, []string{"Cordon", "Groups"}, (*exam).elections},
	{"pace", []string{"Stream", "Settings", "Pace"}, nil, (*exam).pace},
}

// Names are the names of all checks.
func Names() []string {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = c.name
	}
	return names
}

// exam is a bucket while it is judged.
type exam struct {
	*facts.Bucket
	gaps     map[string]facts.Gap
	stream   facts.Stream
	info     *jetstream.StreamInfo // of the stream, nil if it is not known
	settings facts.Settings
}

// Of judges a bucket by some of the checks, or by all. Of the facts that the others need it takes no notice.
func Of(b facts.Bucket, only ...string) Report {
	x := exam{Bucket: &b, gaps: make(map[string]facts.Gap)}
	r := Report{Gaps: b.Gaps()} // before anything is judged
	for _, g := range r.Gaps {
		x.gaps[g.Fact] = g
	}
	x.stream, _ = b.Stream.Get()
	x.info = x.stream.Info
	x.settings, _ = b.Settings.Get()
	for _, c := range checks {
		if len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		for _, f := range x.make(c) {
			if f.Severity == Unjudged {
				f = unanswered("doctor has come to no verdict")
			}
			if f.Check = c.name; f.Severity == OK && c.needs[0] == "Stream" && (x.gaps["Pace"].Why == facts.NoMajority || x.leaderless()) {
				f.Severity, f.Text, f.Because = Unknown, f.Text+", by what was read last", MaybeOver
			}
			r.Findings = append(r.Findings, f)
		}
	}
	return r
}

// takesWrites reports whether the bucket is there and fit for elections, as far as is known: otherwise no write is
// tried.
func (x *exam) takesWrites() bool { return x.info != nil && x.settings.Unfit == "" }

// make makes a check.
func (x *exam) make(c check) []Finding {
	for _, need := range c.needs {
		if f, missing := x.missing(need, c.name); missing {
			return []Finding{f}
		}
	}
	return c.judge(x)
}

// lease returns the lease that candidates of the bucket use, as far as is known.
func (x *exam) lease() time.Duration {
	if x.Asked.Lease > 0 {
		return x.Asked.Lease
	}
	return wire.Lease(x.settings.MaxLease, x.settings.TTL)
}

// addLine is the command that changes the bucket.
func (x *exam) addLine(flags ...string) string {
	return strings.Join(append([]string{"natsleader bucket add", x.Asked.Bucket}, flags...), " ")
}

// reshape is the advice to give the bucket the settings of a bucket for elections.
func (x *exam) reshape() string { return "while no candidate stands: " + x.addLine() }

// mostNames is how many names a finding has.
const mostNames = 5

// Some joins names, but not too many of them.
func Some[T ~string](names []T) string {
	texts := make([]string, min(len(names), mostNames))
	for i := range texts {
		texts[i] = fmt.Sprint(names[i])
	}
	if len(names) <= mostNames {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts, ", "), len(names)-mostNames)
}

// roundish is a duration with about three digits.
func roundish(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit || unit >= 1e15 { // ten times that is more than a duration has
			return d.Round(unit)
		}
	}
}
