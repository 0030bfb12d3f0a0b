package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/choria-io/fisk"
	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// severity is how much a finding matters. A greater one is worse.
type severity int

const (
	severityUnjudged severity = iota // of a check that says nothing, which is a fault of doctor
	severityOK
	severityNote
	severityWarning
	severityUnknown // what was asked for did not come, so all may be well or nothing
	severityCritical
)

func (s severity) String() string {
	return [...]string{"unjudged", "ok", "note", "warning", "unknown", "critical"}[s]
}

// MarshalText is for JSON.
func (s severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil } //nolint:unparam // it is a TextMarshaler

// exitCode is the exit code of doctor if no finding is worse.
func (s severity) exitCode() int {
	return [...]int{exitFailed, 0, 0, exitFailed, exitUnreachable, exitCritical}[s]
}

// finding is one result of a check.
type finding struct {
	Check    string   `json:"check"`
	Severity severity `json:"severity"`
	Text     string   `json:"text"`
	Advice   string   `json:"advice,omitempty"`

	unchecked bool // the check could not be made
}

func fine(format string, args ...any) finding {
	return finding{Severity: severityOK, Text: fmt.Sprintf(format, args...)}
}

// unread is the finding of a check that was not made: a right is missing that candidates need not have, or it would take
// too much.
func unread(format string, args ...any) finding {
	return finding{Severity: severityNote, Text: "not checked: " + fmt.Sprintf(format, args...), unchecked: true}
}

// unanswered is the finding of a check whose request was not answered, or not by a majority, or by what is not understood.
func unanswered(format string, args ...any) finding { return severityUnknown.of(format, args...) }

// unreadFor is unread if a right is missing, and otherwise unanswered.
func unreadFor(err error, format string, args ...any) finding {
	if errors.Is(err, nats.ErrPermissionViolation) {
		return unread(format, args...)
	}
	return unanswered(format, args...)
}

func (s severity) of(format string, args ...any) finding {
	return finding{Severity: s, Text: fmt.Sprintf(format, args...)}
}

// advise adds advice to a finding.
func (f finding) advise(what string) finding {
	f.Advice = what
	return f
}

// check is one of doctor's checks.
type check struct {
	name   string
	stream bool // it needs the settings of the bucket's stream
	// look returns no finding if the check does not apply to the bucket.
	look func(context.Context, *environment) []finding
}

// checks are all checks of doctor, in the order of its report. None touches the bucket, and
// only store stores anything. docs/cli.md explains those whose findings do not say it all.
var checks = []check{
	{"server", false, checkServer},
	{"addresses", false, checkAddresses},
	{"bucket", false, checkBucket},
	{"domain", true, checkDomain},
	{"cluster", true, checkCluster},
	{"replicas", true, checkReplicas},
	{"settings", true, checkSettings},
	{"sync", true, checkSync},
	{"protection", true, checkPurgeProtection},
	{"ttl", true, checkTTL},
	{"max-lease", true, checkMaxLease},
	{"republish", true, checkRepublish},
	{"lease", true, checkLease},
	{"limits", true, checkLimits},
	{"store", true, checkStore},
	{"payload", true, checkPayload},
	{"permissions", false, checkPermissions},
	{"feed-publish", true, checkFeedPublish},
	{"ask-publish", false, checkAskPublish},
	{"border", true, checkBorder},
	{"clock", false, checkClock},
	{"round-trip", false, checkRoundTrip},
	{"client", false, checkClient},
	{"roster", true, checkRoster},
	{"history", true, checkHistory},
	{"elections", true, checkElections},
	{"pace", true, checkPace},
}

// environment holds the inputs of the checks.
type environment struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	bucket *leader.Bucket
	name   string // of the bucket
	api    string // prefix of the JetStream API, with the dot
	wait   time.Duration

	election string        // of --election, or one that no candidate stands in
	named    bool          // it is that of --election
	asked    time.Duration // --lease, or 0
	as       string        // the role whose permissions are tried
	roster   bool          // candidates have one
	readOnly bool          // nothing may be stored

	info     *jetstream.StreamInfo // of the stream, nil if it is not available
	infoErr  error                 // why
	infoTook time.Duration         // how long the answer took
	infoAt   time.Time             // in the middle of that time
	looks    replicaLooks          // at the servers of the stream
	known    map[string]string     // versions of servers by name, after the check server
	settings leader.BucketInfo     // as package leader reads them
	unfit    error                 // why no election can work with it

	system   func() (*nats.Conn, error) // connects with system credentials; nil: there are none
	hostSync func() (synced bool, err error)

	ended error // a signal ends doctor; nil: none has come
}

const doctorHelp = `It looks at the server, the account, the bucket and the connection, and says
what to do. It changes nothing in the bucket, and disturbs no election. To find a
full disk it stores a message in a stream of its own, natsleader_doctor_..., and
deletes that, if it may; --read-only leaves that out.
Use the credentials of the candidates, whose permissions are tried. With --as operator
or --as creator use those of such a user.

Exit codes: 0 if there is nothing worse than notes, 1 for warnings, 69 if anything
is unknown because no server answers or none sees a majority of the others, 2 if
anything is critical, 64 for wrong usage. The last of them that holds counts.`

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	lease        time.Duration
	election     string
	system       string
	as           string
	roster, json bool
	readOnly     bool
}

func registerDoctor(app *fisk.Application, g *globals) {
	var o doctorOptions
	cmd := app.Command("doctor", "Look for what is unsafe or slow").HelpLong(doctorHelp)
	cmd.Flag("lease", "Lease that candidates will use; the bucket's MaxLease by default").PlaceHolder("DURATION").DurationVar(&o.lease)
	cmd.Flag("election", "Election whose permissions to try; one that nobody stands in by default").PlaceHolder("NAME").HintAction(g.electionNames).StringVar(&o.election)
	cmd.Flag("as", "What the user of this connection is for: candidate, operator (status, watch, step-down) or creator (bucket add)").
		Default(asCandidate).EnumVar(&o.as, asCandidate, asOperator, asCreator)
	cmd.Flag("roster", "Try also the permissions of a candidate with a roster").UnNegatableBoolVar(&o.roster)
	cmd.Flag("read-only", "Store nothing, also not in a stream of its own").UnNegatableBoolVar(&o.readOnly)
	cmd.Flag("system-context", "NATS context with system credentials, which alone tell when servers sync to disk").PlaceHolder("NAME").HintAction(natscontext.KnownContexts).StringVar(&o.system)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&o.json)
	cmd.Action(func(*fisk.ParseContext) error {
		if o.lease < 0 {
			return usagef("--lease %v is negative", o.lease)
		}
		if o.election != "" {
			if err := checkElection(o.election); err != nil {
				return err
			}
		}
		return g.doctor(o)
	})
}

// doctor makes all checks and prints the findings.
func (g *globals) doctor(o doctorOptions) error {
	var system func() (*nats.Conn, error)
	if o.system != "" {
		sys := &globals{stdio: g.stdio, context: o.system, timeout: g.timeout, connectionName: g.connectionName}
		if _, err := sys.load(); err != nil {
			return err
		}
		system = func() (*nats.Conn, error) { return sys.connect() }
	}
	g.fits(o.lease)
	nc, js, bucket, err := g.open()
	if err != nil {
		return err
	}
	defer nc.Close()
	e := &environment{
		nc: nc, js: js, bucket: bucket, name: g.bucket, api: jsapi.APIPrefix(js.Options()), wait: g.timeout,
		election: o.election, named: o.election != "", asked: o.lease, as: o.as, roster: o.roster, readOnly: o.readOnly, system: system, hostSync: g.clockSynced,
	}
	if !e.named {
		e.election = unusedElection()
	}
	found := e.runChecks(context.Background(), checks)
	if e.ended != nil {
		return e.ended
	}
	err = printFindings(g.out(), found, o.json, g.width())
	if !nc.IsConnected() {
		return fmt.Errorf("%w: the connection was lost meanwhile", errUnreachable)
	}
	return err
}

// unusedElection returns an election that no candidate stands in.
func unusedElection() string { return "natsleader.doctor." + strings.ToLower(rand.Text()[:12]) }

// noSettings is the text of checks that need settings which are not available. The check bucket says why.
const noSettings = "the settings of the bucket are not known"

// runChecks makes checks.
func (e *environment) runChecks(ctx context.Context, checks []check) []finding {
	e.begin(ctx)
	var all []finding
	for _, c := range checks {
		found := []finding{unreadFor(e.infoErr, noSettings)}
		switch {
		case e.ended != nil:
			return all
		case e.nc.IsConnected() && (!c.stream || e.info != nil):
			found = c.look(ctx, e)
		}
		if !e.nc.IsConnected() { // also what has just been found may be due to that
			found = []finding{unanswered("the connection is lost")}
		}
		for _, f := range found {
			if f.Severity == severityUnjudged {
				f = unanswered("doctor has come to no verdict")
			}
			f.Check = c.name
			all = append(all, f)
		}
	}
	return all
}

// begin requests the data that most checks look at.
func (e *environment) begin(ctx context.Context) {
	var info jetstream.StreamInfo
	began := time.Now()
	e.infoErr = e.request(&nats.Msg{Subject: e.api + "STREAM.INFO.KV_" + e.name}, &info)
	e.infoTook = time.Since(began)
	e.infoAt = began.Add(e.infoTook / 2)
	if c := info.Cluster; e.infoErr == nil && c != nil && c.Leader != "" {
		e.infoErr = e.majority(&info)
	}
	if e.infoErr != nil {
		return
	}
	e.info = &info
	e.lookAtReplicas(ctx)
	ctx, cancel := context.WithTimeout(ctx, e.wait)
	defer cancel()
	e.settings, e.unfit = e.bucket.Info(ctx)
}

// majority returns an error if an answer to STREAM.INFO does not show that the server of the connection hears from a majority.
// What a server without one answers may be long over.
func (e *environment) majority(info *jetstream.StreamInfo) error {
	return (&inspector{nc: e.nc, name: e.name}).majority(info)
}

// request sends a request to JetStream, and decodes the reply. The error may be the one
// that is in the reply.
func (e *environment) request(m *nats.Msg, result any) error {
	reply, err := e.ask(m)
	if err != nil {
		return err
	}
	var failure struct {
		Error *jetstream.APIError `json:"error"`
	}
	switch err = json.Unmarshal(reply, &failure); {
	case err != nil:
		return err
	case failure.Error != nil:
		return failure.Error
	}
	return json.Unmarshal(reply, result)
}

// ask sends a request and returns the first reply.
func (e *environment) ask(m *nats.Msg) (reply []byte, err error) {
	err = e.poll(m, func(data []byte) bool {
		reply = data
		return true
	})
	return reply, err
}

// poll sends a request, and passes each reply to take, until take has enough or no other
// reply comes in time. The server answers a ping after it has refused a message, so a
// missing permission is reported at once.
func (e *environment) poll(m *nats.Msg, take func(reply []byte) (enough bool)) error {
	var sub *nats.Subscription
	refused := e.try(func() (err error) { // a refused inbox counts, too
		if sub, err = e.nc.SubscribeSync(e.nc.NewInbox()); err != nil {
			return err
		}
		m.Reply = sub.Subject
		return e.nc.PublishMsg(m)
	})
	defer sub.Unsubscribe() //nolint:errcheck // it may be gone with the connection; of nil, too
	if refused != nil {
		return refused
	}
	for end := time.Now().Add(e.wait); ; {
		reply, err := sub.NextMsg(time.Until(end))
		if err != nil {
			return err
		}
		if take(reply.Data) {
			return nil
		}
	}
}

// try runs do on the connection, and returns nil if the server has not refused it. A
// refusal appears as the connection's last error, which is one sticky slot.
func (e *environment) try(do func() error) error {
	before := e.nc.LastError()
	if err := do(); err != nil {
		return err
	}
	if err := e.nc.FlushTimeout(e.wait); err != nil {
		return err
	}
	last := e.nc.LastError()
	fresh := last != before //nolint:errorlint // the same value, not the same kind
	if fresh && errors.Is(last, nats.ErrPermissionViolation) {
		return last
	}
	return nil
}

// lease returns the lease that candidates of the bucket use, as far as is known.
func (e *environment) lease() time.Duration {
	if e.asked > 0 {
		return e.asked
	}
	return wire.Lease(e.settings.MaxLease, e.settings.TTL)
}

// printFindings prints the findings and returns the exit code as an error.
func printFindings(w io.Writer, all []finding, asJSON bool, width int) error {
	worst := severityOK
	for _, f := range all {
		worst = max(worst, f.Severity)
	}
	err := printResult(w, asJSON, map[string]any{"findings": all, "severity": worst}, lines(all, width))
	return exitIf(worst > severityNote, worst.exitCode(), err)
}

// lines returns the report for people: each finding, the advice on it, and the sum.
func lines(all []finding, width int) []string {
	indent := 0
	for _, c := range checks {
		indent = max(indent, len("critical  "+c.name+"  "))
	}
	var rows [][]string
	add := func(severity, check, text string) {
		for _, line := range wrapped(printable(text), width-indent) {
			rows = append(rows, []string{severity, check, line})
			severity, check = "", ""
		}
	}
	counts := make(map[severity]int)
	unchecked := 0
	var not []string
	var notKnown finding
	for _, f := range all {
		if f.unchecked {
			unchecked++
		} else {
			counts[f.Severity]++
		}
		if strings.HasSuffix(f.Text, noSettings) {
			not, notKnown = append(not, f.Check), f
			continue
		}
		add(f.Severity.String(), f.Check, f.Text)
		if f.Advice != "" {
			add("", "", "-> "+f.Advice)
		}
	}
	if len(not) > 0 {
		add(notKnown.Severity.String(), "others", notKnown.Text+": "+strings.Join(not, ", "))
	}
	var sum []string
	for s := severityCritical; s >= severityOK; s-- {
		plural := ""
		if counts[s] > 1 && (s == severityNote || s == severityWarning) {
			plural = "s"
		}
		if counts[s] > 0 {
			sum = append(sum, fmt.Sprintf("%d %v%s", counts[s], s, plural))
		}
		if s == severityNote && unchecked > 0 {
			sum = append(sum, fmt.Sprintf("%d not checked", unchecked))
		}
	}
	return append(columns(rows), "", strings.Join(sum, ", "))
}

// wrapped breaks a text into lines between words. A width that is too small to
// be of use means one line.
func wrapped(text string, width int) []string {
	const least = 30
	if width < least {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
