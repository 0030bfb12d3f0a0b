package leader

import (
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/machine"
)

// stoppedFeed counts how often it is stopped.
type stoppedFeed struct{ stops int }

func (f *stoppedFeed) Stop() { f.stops++ }

// The answer to a part of an opening comes to the mailbox once, when it is there and the machine has asked. What the machine does not
// take ends, and so does a failure of which it has not asked.
func TestOpeningPart_ComesWhenAsked(t *testing.T) {
	for name, k := range map[string]struct {
		steps        string
		mails, stops int
		wanted       bool // the last want
		cancelled    bool
	}{
		"asked before":          {steps: "want come", mails: 1, wanted: true},
		"asked afterwards":      {steps: "come want", mails: 1, wanted: true},
		"asked twice":           {steps: "come want want", mails: 1},
		"dropped before":        {steps: "drop come want", stops: 1, cancelled: true},
		"dropped afterwards":    {steps: "come drop want", stops: 1, cancelled: true},
		"asked, dropped":        {steps: "want drop come", mails: 1, wanted: true},
		"taken, dropped":        {steps: "come want drop", mails: 1, wanted: true},
		"failed":                {steps: "fail want"},
		"asked, failed":         {steps: "want fail", mails: 1, wanted: true},
		"the candidate's end":   {steps: "want close come", stops: 1, wanted: true},
		"the end comes earlier": {steps: "come close want", stops: 1, wanted: true},
	} {
		var box mailbox
		box.bell = make(chan struct{}, 1)
		feed, cancelled := &stoppedFeed{}, false
		p := &openingPart{box: &box, cancel: func() { cancelled = true }}
		wanted := false
		for _, step := range strings.Fields(k.steps) {
			switch step {
			case "want":
				wanted = p.want()
			case "come":
				p.come(mail{in: machine.Input{Kind: machine.InFeed}, feed: feed})
			case "fail":
				p.come(mail{in: machine.Input{Kind: machine.InFeed, Err: backend.ErrUnreachable}})
			case "drop":
				p.drop()
			case "close":
				box.close()
			}
		}
		check.That(t, len(box.mails) == k.mails && feed.stops == k.stops && wanted == k.wanted && cancelled == k.cancelled,
			"%s: %d mails, stopped %d times, wanted: %v, cancelled: %v", name, len(box.mails), feed.stops, wanted, cancelled)
	}
}

// The machine gets no answer that is older than what it has heard before it asked for the key: neither a foreseen one, nor one that was
// asked for before. It would write on an entry that is replaced, and pause.
func TestOpening_NewsBeforeTheRead(t *testing.T) {
	for name, k := range map[string]struct {
		heard, answer uint64 // 0: none
		foretold      bool
		taken         bool
	}{
		"no news":                         {foretold: true, taken: true},
		"no news, and the answer":         {answer: 9, foretold: true, taken: true},
		"news, and no answer":             {heard: 9},
		"news, and an answer before them": {heard: 9, answer: 8},
		"news that the answer has":        {heard: 9, answer: 9, taken: true},
	} {
		c := new(Candidate)
		r := &requester{c: c, opening: &opening{foresight: &foresight{next: machine.ReqRead}}}
		r.opening.read.box = &c.box
		r.hear(k.heard)
		if k.answer > 0 {
			r.opening.read.come(mail{in: machine.Input{Kind: machine.InRead}, entry: backend.Entry{Revision: k.answer}})
		}
		check.Equal(t, r.foretell(machine.ReqRead, 0, nil), k.foretold, name+": foretold: %v")
		check.Equal(t, r.take(machine.ReqRead), k.taken, name+": taken: %v")
	}
}
