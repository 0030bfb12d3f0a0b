// Package doctor looks for what is unsafe or slow.
package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/choria-io/fisk"
	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/leader"
)

// fact is one that doctor reads.
type fact struct {
	name   string                         // of its field
	stream bool                           // it is about a stream that is there
	slot   func(*facts.Bucket) facts.Slot // the first of those that it reads
	read   func(*Environment, context.Context)
}

// readers read all facts, in that order. None touches the bucket, and only Store stores anything.
var readers = []fact{
	{"Stream", false, func(b *facts.Bucket) facts.Slot { return &b.Stream }, (*Environment).readStream},
	{"Settings", true, func(b *facts.Bucket) facts.Slot { return &b.Settings }, (*Environment).readSettings},
	{"Server", false, func(b *facts.Bucket) facts.Slot { return &b.Server }, (*Environment).ReadServer},
	{"Addresses", false, func(b *facts.Bucket) facts.Slot { return &b.Addresses }, (*Environment).readAddresses},
	{"Domains", true, func(b *facts.Bucket) facts.Slot { return &b.Domains }, (*Environment).readDomains},
	{"Sync", true, func(b *facts.Bucket) facts.Slot { return &b.Sync }, (*Environment).ReadSync},
	{"Account", true, func(b *facts.Bucket) facts.Slot { return &b.Account }, (*Environment).ReadAccount},
	{"Store", true, func(b *facts.Bucket) facts.Slot { return &b.Store }, (*Environment).ReadStore},
	{"Rights", false, func(b *facts.Bucket) facts.Slot { return &b.Rights }, (*Environment).readRights},
	{"Feed", true, func(b *facts.Bucket) facts.Slot { return &b.Feed }, (*Environment).readFeed},
	{"Requests", false, func(b *facts.Bucket) facts.Slot { return &b.Requests }, (*Environment).readRequests},
	{"Border", true, func(b *facts.Bucket) facts.Slot { return &b.Border }, (*Environment).readBorder},
	{"Clock", false, func(b *facts.Bucket) facts.Slot { return &b.Clock }, (*Environment).ReadClock},
	{"Pings", false, func(b *facts.Bucket) facts.Slot { return &b.Pings }, (*Environment).readPings},
	{"Client", false, func(b *facts.Bucket) facts.Slot { return &b.Client }, (*Environment).readClient},
	{"Roster", true, func(b *facts.Bucket) facts.Slot { return &b.Roster }, (*Environment).ReadRoster},
	{"History", true, func(b *facts.Bucket) facts.Slot { return &b.History }, (*Environment).ReadHistory},
	{"Elections", true, func(b *facts.Bucket) facts.Slot { return &b.Elections }, (*Environment).readElections},
	{"Pace", true, func(b *facts.Bucket) facts.Slot { return &b.Pace }, (*Environment).readPace},
}

// Environment holds the inputs of the readers, and what they have read.
type Environment struct {
	inspect.Asker

	Js        jetstream.JetStream
	OwnBucket *leader.Bucket
	Name      string // of the bucket

	Election string // of --election, or one that no candidate stands in
	named    bool   // it is that of --election
	As       string // the role whose permissions are tried
	roster   bool   // candidates have one
	readOnly bool   // nothing may be stored

	facts.Bucket
	Info   *jetstream.StreamInfo // of the stream, nil if it is not available
	infoAt time.Time             // in the middle of the time for that answer
	Fit    bool                  // elections can work with the bucket

	account  facts.Text                 // of the connection, as a server has said it
	system   func() (*nats.Conn, error) // connects with system credentials; nil: there are none
	HostSync func() (synced bool, err error)

	ended error // a signal ends doctor; nil: none has come
}

const doctorHelp = `It looks at the server, the account, the bucket and the connection, and says
what to do. It changes nothing in the bucket, and disturbs no election. To find a
full disk it stores a message in a stream of its own, natsleader_doctor_..., and
deletes that, if it may; --read-only leaves that out.
Use the credentials of the candidates, whose permissions are tried. With --as operator
or --as creator use those of such a user.

With --save it also writes what it has read to a file that only its owner may read, for
--from, which reports the same without a connection. The file has no credentials; it has
the names of servers and elections, and the values that candidates publish.

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
	save, from   string
}

// Register adds the command doctor.
func Register(app *fisk.Application, g *front.Globals) {
	var o doctorOptions
	cmd := app.Command("doctor", "Look for what is unsafe or slow").HelpLong(doctorHelp)
	cmd.Flag("lease", "Lease that candidates will use; the bucket's MaxLease by default").PlaceHolder("DURATION").DurationVar(&o.lease)
	cmd.Flag("election", "Election whose permissions to try; one that nobody stands in by default").PlaceHolder("NAME").HintAction(func() []string { return inspect.ElectionNames(g) }).StringVar(&o.election)
	cmd.Flag("as", "What the user of this connection is for: candidate, operator (status, watch, step-down) or creator (bucket add)").
		Default(facts.Candidate).EnumVar(&o.as, facts.Candidate, facts.Operator, facts.Creator)
	cmd.Flag("roster", "Try also the permissions of a candidate with a roster").UnNegatableBoolVar(&o.roster)
	cmd.Flag("read-only", "Store nothing, also not in a stream of its own").UnNegatableBoolVar(&o.readOnly)
	cmd.Flag("system-context", "NATS context with system credentials, which alone tell when servers sync to disk").PlaceHolder("NAME").HintAction(natscontext.KnownContexts).StringVar(&o.system)
	cmd.Flag("save", "Write what was read to a new file, too, for --from").PlaceHolder("FILE").StringVar(&o.save)
	cmd.Flag("from", "Report on what --save has written, and connect to nothing").PlaceHolder("FILE").StringVar(&o.from)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&o.json)
	cmd.Action(func(*fisk.ParseContext) error {
		if o.from != "" {
			return doctorFrom(g, o)
		}
		if o.lease < 0 {
			return front.Usagef("--lease %v is negative", o.lease)
		}
		if o.election != "" {
			if err := inspect.CheckElection(o.election); err != nil {
				return err
			}
		}
		return doctor(g, o)
	})
}

// doctor reads all facts, and prints what it finds.
func doctor(g *front.Globals, o doctorOptions) error {
	var system func() (*nats.Conn, error)
	if o.system != "" {
		sys := &front.Globals{Stdio: g.Stdio, Context: o.system, Timeout: g.Timeout, ConnectionName: g.ConnectionName}
		if _, err := sys.Load(); err != nil {
			return err
		}
		system = func() (*nats.Conn, error) { return sys.Connect() }
	}
	g.Fits(o.lease)
	err := checkNew(o.save)
	if err != nil {
		return err
	}
	e := &Environment{
		Name: g.Bucket, Asker: inspect.Asker{Wait: g.Timeout}, Election: o.election, named: o.election != "", As: o.as, roster: o.roster, readOnly: o.readOnly,
		system: system, HostSync: g.ClockSynced,
	}
	e.Asked.Lease = o.lease
	if !e.named {
		e.Election = unusedElection()
	}
	if e.Nc, e.Js, e.OwnBucket, err = g.Open(); err != nil {
		if front.CodeOf(err) == front.ExitUnreachable {
			return cmp.Or(save(g, o.save, e.Unreached(err)), err)
		}
		return err
	}
	defer e.Nc.Close()
	e.Api = jsapi.APIPrefix(e.Js.Options())
	if e.Read(context.Background()); e.ended != nil {
		return e.ended
	}
	failed := save(g, o.save, e.Bucket)
	err = cmp.Or(failed, printReport(g.Out(), judge.Of(e.Bucket), o.json, g.Width()))
	if failed == nil && !e.Nc.IsConnected() {
		return fmt.Errorf("%w: the connection was lost meanwhile", front.ErrUnreachable)
	}
	return err
}

// unusedElection returns an election that no candidate stands in.
func unusedElection() string { return "natsleader.doctor." + strings.ToLower(rand.Text()[:12]) }

// asks notes what is asked for.
func (e *Environment) asks() {
	e.Asked = facts.Asked{
		Bucket: e.Name, API: e.Api, Wait: e.Wait, Lease: e.Asked.Lease, Election: e.Election, Named: e.named, Role: e.As, Roster: e.roster,
	}
}

// Read reads some facts, or all.
func (e *Environment) Read(ctx context.Context, only ...string) {
	e.asks()
	for _, r := range readers {
		if e.ended != nil || len(only) > 0 && !slices.Contains(only, r.name) || r.stream && e.Info == nil {
			continue
		}
		if e.Nc.IsConnected() {
			r.read(e, ctx)
		}
		if !e.Nc.IsConnected() { // also what has just been read may be due to that
			r.slot(&e.Bucket).Lose(facts.NoAnswer, facts.Lost, e.from())
		}
	}
}

// from is the source of what has just been read.
func (e *Environment) from() facts.Source {
	at := time.Now()
	if e.Info != nil && !e.Info.TimeStamp.IsZero() {
		at = inspect.NewServerClock(e.Info.TimeStamp, time.Since(e.infoAt)).Now()
	}
	return facts.Source{Server: e.Nc.ConnectedServerName(), At: at}
}

// lose notes why a fact is not known.
func (e *Environment) lose(slot facts.Slot, err error) {
	why := facts.Unreadable
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		why = facts.Denied
	case errors.Is(err, inspect.ErrNoMajority):
		why = facts.NoMajority
	case front.CodeOf(err) == front.ExitUnreachable:
		why = facts.NoAnswer
	}
	text := inspect.Violation(err)
	if text == err.Error() {
		text = front.ErrorText(err)
	}
	slot.Lose(why, text, e.from())
}

// ruled sets a fact that only a permission decides, by the error of a try.
func (e *Environment) ruled(slot *facts.Fact[bool], err error) {
	switch {
	case err == nil:
		slot.Set(true, e.from())
	case errors.Is(err, nats.ErrPermissionViolation):
		slot.Set(false, e.from())
	default:
		e.lose(slot, err)
	}
}

// about asks for the state of a stream.
func (e *Environment) about(stream string) (facts.Stream, error) {
	var info jetstream.StreamInfo
	began := time.Now()
	err := e.Request(&nats.Msg{Subject: e.Api + "STREAM.INFO." + stream}, &info)
	took := time.Since(began)
	s := facts.Stream{At: began.Add(took / 2), Took: took, Refusal: refusalOf(err)}
	if s.Refusal != nil {
		return s, nil
	}
	s.Info = &info
	return s, err
}

// aboutBucket asks for the state of the bucket's stream. If a leader answers, a majority has to hear it.
func (e *Environment) aboutBucket() (facts.Stream, error) {
	s, err := e.about("KV_" + e.Name)
	if err == nil && s.Info != nil && s.Info.Cluster != nil && s.Info.Cluster.Leader != "" {
		err = e.majority(s.Info)
	}
	return s, err
}

// refusalOf returns the error that JetStream has answered with, or nil.
func refusalOf(err error) *facts.Refusal {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return &facts.Refusal{Code: int(api.ErrorCode), Text: front.ErrorText(api)}
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return &facts.Refusal{Code: facts.CodeNoResponders, Text: "no server takes the request"}
	}
	return nil
}

// readStream requests the state of the bucket's stream, which most facts are about.
func (e *Environment) readStream(ctx context.Context) {
	s, err := e.aboutBucket()
	if front.CodeOf(err) == front.ExitUnreachable && e.Nc != nil { // as after a reload that took JetStream from the account
		briefly := inspect.Asker{Nc: e.Nc, Wait: e.Wait / 16}
		if no := refusalOf(briefly.Request(&nats.Msg{Subject: e.Api + "INFO"}, &struct{}{})); no != nil && no.Code == facts.CodeNotForAccount {
			s, err = facts.Stream{At: time.Now(), Refusal: no}, nil
		}
	}
	if err != nil {
		e.lose(&e.Stream, err)
		return
	}
	if e.Info, e.infoAt = s.Info, s.At; e.Info != nil {
		s.Looks = e.lookAtReplicas(ctx)
	}
	e.Stream.Set(s, e.from())
}

// readSettings reads the settings as package leader does.
func (e *Environment) readSettings(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.Wait)
	defer cancel()
	b, err := e.OwnBucket.Info(ctx)
	s := facts.Settings{MaxLease: b.MaxLease, TTL: b.TTL, MaxValue: b.MaxValue, FeedSubject: b.FeedSubject, Domain: b.Domain}
	switch {
	case errors.Is(err, leader.ErrIncompatibleBucket):
		s.Unfit = front.ErrorText(err)
	case err != nil:
		e.lose(&e.Settings, err)
		return
	}
	e.Fit = err == nil
	e.Settings.Set(s, e.from())
}

// majority returns an error if an answer to STREAM.INFO does not show that the server of the connection hears from a
// majority. What a server without one answers may be long over.
func (e *Environment) majority(info *jetstream.StreamInfo) error {
	return (&inspect.Inspector{Nc: e.Nc, Name: e.Name}).Majority(info)
}

// printReport prints the report, and returns the exit code as an error.
func printReport(w io.Writer, r judge.Report, asJSON bool, width int) error {
	err := front.PrintResult(w, asJSON, map[string]any{"findings": r.Findings, "severity": r.Worst()}, Lines(r.Findings, width))
	return front.ExitIf(r.ExitCode() != 0, r.ExitCode(), err)
}

// Lines returns the report for people: each finding, the advice on it, and the sum. What has the same cause is one
// line.
func Lines(all []judge.Finding, width int) []string {
	indent := 0
	for _, name := range judge.Names() {
		indent = max(indent, len("critical  "+name+"  "))
	}
	var rows [][]string
	add := func(severity, check, text string) {
		for _, line := range wrapped(front.Printable(text), width-indent) {
			rows = append(rows, []string{severity, check, line})
			severity, check = "", ""
		}
	}
	counts := make(map[judge.Severity]int)
	unchecked := 0
	for _, f := range all {
		if f.Unchecked {
			unchecked++
		} else {
			counts[f.Severity]++
		}
	}
	for _, f := range judge.Shown(all) {
		add(f.Severity.String(), f.Check, f.Text)
		if f.Advice != "" {
			add("", "", "-> "+f.Advice)
		}
	}
	var sum []string
	for s := judge.Critical; s >= judge.OK; s-- {
		plural := ""
		if counts[s] > 1 && (s == judge.Note || s == judge.Warning) {
			plural = "s"
		}
		if counts[s] > 0 {
			sum = append(sum, fmt.Sprintf("%d %v%s", counts[s], s, plural))
		}
		if s == judge.Note && unchecked > 0 {
			sum = append(sum, fmt.Sprintf("%d not checked", unchecked))
		}
	}
	return append(front.Columns(rows), "", strings.Join(sum, ", "))
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
