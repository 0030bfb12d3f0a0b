package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/webpage"
)

// The head of the page has what is known of the connection, and what is not known and why. A server in no cluster and no
// domain has none.
func TestUI_Connection(t *testing.T) {
	from := facts.Source{Server: "n2"}
	n2 := link{"n2", "2.12.0", "C", "10.0.0.2:4222", 0}
	alone := n2
	alone.cluster = ""
	for want, x := range map[string]reading{
		"[{server  there is no connection}]": {},
		"[{server n2 } {nats-server 2.12.0 } {at 10.0.0.2:4222 } {cluster C } {account  not read} {JetStream domain  not read}]":  {link: n2},
		"[{server n2 } {nats-server 2.12.0 } {at 10.0.0.2:4222 } {account  it is denied} {JetStream domain hub }]":                {link: alone, account: facts.Unknown[facts.Text](facts.Denied, "it is denied", from), domain: facts.Known("hub", from)},
		`[{server n2 } {nats-server 2.12.0 } {at 10.0.0.2:4222 } {cluster C } {account a\u202eb } {JetStream domain  no answer}]`: {link: n2, account: facts.Known[facts.Text]("a\u202eb", from), domain: facts.Unknown[string](facts.NoAnswer, "", from)},
	} {
		expect.Equal(t, fmt.Sprint(x.facts()), want, "the head has %s")
	}
}

// What was read of a stream through another connection, or before a look that has failed, is not known any more.
func TestUI_Forgets(t *testing.T) {
	u := State{State: webpage.NewState(), read: reading{link: link{name: "n1"}, account: facts.Known[facts.Text]("A", facts.Source{})}, replicas: []judge.Replica{{Name: "n1", Leads: true}, {Name: "n2", Fault: "offline"}}}
	u.Heading.Server = "n1"
	u.read.stream.Set(facts.Stream{Info: &jetstream.StreamInfo{}}, facts.Source{Server: "n1"})
	u.NoteTrouble(nil)
	text := expect.Got(json.Marshal(u.Heading))(t)
	expect.Equal(t, string(text), `{"server":"n1","lost":true,"facts":[{"name":"server","why":"there is no connection"}],"replicas":[{"name":"n1","unknown":true},{"name":"n2","unknown":true}],"checked":false}`, "%s")
}

// The findings that the head shows are those that are worse than ok, the worst first.
func TestUI_Findings(t *testing.T) {
	of := func(s judge.Severity, text, advice string) judge.Finding {
		return judge.Finding{Severity: s, Text: text, Advice: advice}
	}
	found := shownFindings([]judge.Finding{
		of(judge.OK, "a", ""), of(judge.Note, "b", ""),
		{Check: "i", Severity: judge.Note, Text: "c", Unchecked: true},
		of(judge.Critical, "d", "do"), of(judge.Warning, "e", ""), of(judge.Warning, "f", ""), of(judge.Unknown, "g", ""),
		{Check: "h1", Severity: judge.Unknown, Text: "h", Because: judge.NoSettings},
		{Check: "h2", Severity: judge.Unknown, Text: "h", Because: judge.NoSettings},
	})
	expect.Equal(t, fmt.Sprint(found), "[{critical d do} {unknown g } {unknown the settings of the bucket are not known: h1, h2 } {warning e } {warning f } {note b } {note i: c }]", "it shows %s")
}

// A row shows what is wrong with its election, since when, what to do, and where more stands. An election that is unknown
// has been so since the end of the lease. A leader has the host on which its ID was made.
func TestUI_Advice(t *testing.T) {
	w := troubled{}
	w.fill()
	gone := w.holds("z-gone", "leading", "web-9", time.Minute, time.Second)
	gone.Now.MayLead = thatMoment.Add(time.Minute)
	rows := make(map[string]webpage.Row)
	for _, failure := range []error{nil, errors.New("lost")} {
		for name, x := range w {
			now := thatMoment
			if failure != nil {
				now, name = now.Add(time.Minute), name+" later"
			}
			row := rowOf(x, view.Around(now, failure))
			rows[name] = row
			troubled := row.Trouble < int(judge.TroublePending)
			expect.That(t, troubled == (row.Why != "") && troubled == (row.Do != "") && troubled == strings.HasPrefix(row.Link, "https://"), "%s: %+v", name, row)
		}
	}
	for name, want := range map[string]string{
		"d-expired":    "pod-7c9f5b6d4-x2x9q has not renewed its lease: it has died, hangs, or cannot write to the bucket",
		"z-gone":       "the key is gone, and a leader may lead until 2026-11-23 09:03:11 UTC",
		"a-led later":  "the lease of worker-1 is over by what was read last, and the bucket does not answer",
		"z-gone later": "the key is gone, and a leader may lead until 2026-11-23 09:03:11 UTC",
		"a-led":        "",
		"g-led later":  "the lease of 請求 is over by what was read last, and the bucket does not answer",
	} {
		expect.Equal(t, rows[name].Why, want, name+" is in trouble because %q")
	}
	over := rowOf(w["i-deleted"], view.Around(thatMoment, inspect.NoBucketError("gone")))
	expect.Equal(t, over.Why+": "+over.Do, "the bucket is gone, and every lease in it is over: make the bucket again", "a key that is gone with its bucket: %q")
	for id, want := range map[string]string{"node-3_41_x9z": "node-3", "node-3_41": "", "a_1_2_b": "a_1", "_1_a": "", "node-3": ""} {
		host := rowOf(w.holds("k", "leading", id, 0, 0), view.Around(thatMoment, nil)).Host
		expect.Equal(t, host, want, id+" is on %q")
	}
	end := thatMoment.Add(14 * time.Second).UnixMilli()
	expect.That(t, rows["a-led later"].Since == end && rows["z-gone"].Since == end, "%+v", rows["a-led later"])
}

// thatMoment is when elections are in trouble.
var thatMoment = time.Date(2026, 11, 23, 9, 2, 11, 0, time.UTC)

// troubled are elections in all sorts of trouble.
type troubled map[string]*view.Watched

func (t troubled) shows(s facts.ElectionStatus) *view.Watched {
	t[s.Election] = &view.Watched{Now: s, Last: &s, As: s.At(thatMoment)}
	return t[s.Election]
}

// holds adds an election: its candidate leads for since, and its record is as old as written.
func (t troubled) holds(election, state, id string, since, written time.Duration) *view.Watched {
	value := fmt.Appendf(nil, `{"v":1,"state":%q,"id":%q,"session":"s","n":1,"lease":"15s","token":1,"since":%q}`,
		state, id, thatMoment.Add(-since).Format(time.RFC3339))
	if state == "" {
		value = []byte("hello")
	}
	return t.shows(facts.NewElectionStatus(election, backend.Entry{Revision: 7, Value: value, Created: thatMoment.Add(-written)}))
}

func (t troubled) fill() {
	t.holds("a-led", "leading", "worker-1", time.Minute, time.Second)
	t.holds("c-released", "released", "web-1", 0, time.Minute)
	t.holds("d-expired", "leading", "pod-7c9f5b6d4-x2x9q", time.Hour, time.Minute+15*time.Second)
	t.holds("e-pending", "pending", "b", 0, time.Second)
	t.holds("f-foreign", "", "", 0, time.Second)
	t.holds("g-led", "leading", "請求", time.Hour, time.Second)
	t.shows(facts.ElectionStatus{Election: "h-never"})
	t.shows(facts.NewElectionStatus("i-deleted", backend.Entry{Revision: 8, Marker: true, Created: thatMoment.Add(-time.Minute)}))
}
