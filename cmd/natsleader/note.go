package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go/jetstream"
)

const noteHelp = `A note says who owns an election, which page helps when nobody leads it, and whether it
is for a one-shot job, whose deleted key is no trouble. status, watch --json and the
page show it. It is a key of the bucket, natsleader.note.ELECTION, which no candidate reads or
writes. It lives as long as the bucket, and with a TTL no longer than that.

Without flags it shows the note, and without an election all notes. A flag that is not
given leaves its part as it is, and an empty text removes it.

The exit code is 1 if the election has no note, or another client has changed it meanwhile.

  natsleader note billing --owner team-pay --runbook https://wiki.example.com/billing
  natsleader note nightly --one-shot
  natsleader note billing --remove`

// notePrefix begins the key of a note. The election follows.
const notePrefix = "natsleader.note."

// electionNote is what operators have written about an election.
type electionNote struct {
	Owner   string `json:"owner,omitempty"`
	Runbook string `json:"runbook,omitempty"`
	OneShot bool   `json:"one_shot,omitempty"`
}

// mostNote is the length of a text in a note.
const mostNote = 500

// decodeNote returns what a key of a note holds. Other clients may write it, so only a link to a page is one.
func decodeNote(b []byte) (n electionNote) {
	if json.Unmarshal(b, &n) != nil || len(n.Owner) > mostNote {
		return electionNote{}
	}
	if checkRunbook(n.Runbook) != nil {
		n.Runbook = ""
	}
	return n
}

func checkRunbook(link string) error {
	u, err := url.Parse(link)
	switch {
	case link == "":
		return nil
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", len(link) > mostNote:
		return usagef("--runbook %q is no address of a page: it begins with https:// or http://, and has %d bytes at most", shorten(link, longValue), mostNote)
	}
	return nil
}

// withNotes returns the elections without the keys of notes, and each with its note.
func withNotes(all []electionStatus) []electionStatus {
	notes := map[string]electionNote{}
	all = slices.DeleteFunc(all, func(x electionStatus) bool {
		election, ok := strings.CutPrefix(x.election, notePrefix)
		if ok {
			notes[election] = decodeNote(x.entry.Value)
		}
		return ok
	})
	for i := range all {
		all[i].note = notes[all[i].election]
	}
	return all
}

// noteOf reads the note of one election. An observer may lack the permission, and then there is none.
func (s *inspector) noteOf(ctx context.Context, election string) electionNote {
	x, err := answer(ctx, s, func(ctx context.Context) (electionStatus, error) { return s.one(ctx, notePrefix+election) })
	if err != nil {
		return electionNote{}
	}
	return decodeNote(x.entry.Value)
}

// details are the lines of a note, for people.
func (n electionNote) details() (rows [][]string) {
	if n.Owner != "" {
		rows = append(rows, []string{"Owner:", printable(n.Owner)})
	}
	if n.Runbook != "" {
		rows = append(rows, []string{"Runbook:", printable(n.Runbook)})
	}
	if n.OneShot {
		rows = append(rows, []string{"Kind:", "one-shot job"})
	}
	return rows
}

// listedNote is a note in a list, for programs.
type listedNote struct {
	Election string `json:"election"`
	electionNote
}

type noteCommand struct {
	*globals
	election                  string
	set                       electionNote
	owned, linked, kind, gone bool // the flags that were given
	asJSON                    bool
}

func registerNote(app *fisk.Application, g *globals) {
	n := &noteCommand{globals: g}
	cmd := app.Command("note", "Note who owns an election and what helps, or show that").HelpLong(noteHelp)
	cmd.Arg("election", "Election of the note; all of the bucket by default").HintAction(g.electionNames).StringVar(&n.election)
	cmd.Flag("owner", "Who is asked about it").PlaceHolder("TEXT").IsSetByUser(&n.owned).StringVar(&n.set.Owner)
	cmd.Flag("runbook", "Page that says what to do").PlaceHolder("URL").IsSetByUser(&n.linked).StringVar(&n.set.Runbook)
	cmd.Flag("one-shot", "It is the election of a job that runs once in a while").IsSetByUser(&n.kind).BoolVar(&n.set.OneShot)
	cmd.Flag("remove", "Remove the note").UnNegatableBoolVar(&n.gone)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&n.asJSON)
	cmd.Action(func(*fisk.ParseContext) error {
		changes := n.owned || n.linked || n.kind
		switch {
		case n.election == "" && (changes || n.gone):
			return usagef("note takes an election with --owner, --runbook, --one-shot and --remove")
		case changes && n.gone:
			return usagef("--remove removes the whole note: it takes no --owner, --runbook and --one-shot")
		case len(n.set.Owner) > mostNote:
			return usagef("--owner has more than %d bytes", mostNote)
		}
		if n.election != "" {
			if err := errors.Join(checkElection(n.election), checkRunbook(n.set.Runbook)); err != nil {
				return err
			}
		}
		return g.inspectBucket(n.run)
	})
}

func (n *noteCommand) run(ctx context.Context, s *inspector) error {
	if n.election == "" {
		return n.list(ctx, s)
	}
	var is electionNote
	err := s.within(ctx, func(ctx context.Context) error {
		kv, err := s.js.KeyValue(ctx, s.name)
		if err != nil {
			return err
		}
		key, revision := notePrefix+n.election, uint64(0)
		switch e, absent := kv.Get(ctx, key); {
		case absent == nil:
			is, revision = decodeNote(e.Value()), e.Revision()
		case !errors.Is(absent, jetstream.ErrKeyNotFound):
			return absent
		}
		switch {
		case n.gone && revision > 0:
			is = electionNote{}
			return kv.Delete(ctx, key, jetstream.LastRevision(revision))
		case n.gone || !n.change(&is):
			return nil
		}
		value, err := json.Marshal(is)
		switch {
		case err != nil:
		case revision == 0:
			_, err = kv.Create(ctx, key, value)
		default:
			_, err = kv.Update(ctx, key, value, revision)
		}
		return err
	})
	if errors.Is(err, jetstream.ErrKeyExists) || refusedWith(err, jetstream.JSErrCodeStreamWrongLastSequence) {
		return exitf(exitFailed, "another client has changed the note of %s meanwhile: look at it, and try again", n.election)
	}
	if err != nil {
		return err
	}
	lines := columns(is.details())
	if is == (electionNote{}) {
		lines = []string{n.election + " has no note"}
	}
	return exitIf(is == (electionNote{}) && !n.gone && !n.owned && !n.linked && !n.kind, exitFailed,
		printResult(n.out(), n.asJSON, listedNote{n.election, is}, lines))
}

// change applies the flags that were given, and reports whether there are any.
func (n *noteCommand) change(is *electionNote) bool {
	if n.owned {
		is.Owner = n.set.Owner
	}
	if n.linked {
		is.Runbook = n.set.Runbook
	}
	if n.kind {
		is.OneShot = n.set.OneShot
	}
	return n.owned || n.linked || n.kind
}

// list prints all notes of the bucket.
func (n *noteCommand) list(ctx context.Context, s *inspector) error {
	all, err := answer(ctx, s, s.keys)
	if err != nil {
		return err
	}
	notes := []listedNote{}
	rows := [][]string{{"ELECTION", "OWNER", "KIND", "RUNBOOK"}}
	for _, x := range all {
		election, ok := strings.CutPrefix(x.election, notePrefix)
		its := decodeNote(x.entry.Value)
		if !ok || its == (electionNote{}) {
			continue
		}
		kind := "-"
		if its.OneShot {
			kind = "one-shot"
		}
		notes = append(notes, listedNote{election, its})
		rows = append(rows, []string{printable(election), cmp.Or(shorten(printable(its.Owner), longID), "-"), kind, cmp.Or(printable(its.Runbook), "-")})
	}
	lines := columns(rows)
	if len(notes) == 0 {
		lines = []string{fmt.Sprintf("no note in bucket %s", s.name)}
	}
	return printResult(n.out(), n.asJSON, notes, lines)
}
