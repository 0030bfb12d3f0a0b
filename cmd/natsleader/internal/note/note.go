// Package note keeps what people need to know about an election.
package note

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
)

const noteHelp = `A note says who owns an election, which page helps when nobody leads it, and whether it
is for a one-shot job, whose deleted key is no trouble. status, watch --json and the
page show it. It is a key of the bucket, natsleader.note.ELECTION, which no candidate reads or
writes. It lives as long as the bucket, and with a TTL no longer than that.

Without flags it shows the note, and without an election all notes. A flag that is not
given leaves its part as it is, and an empty text removes it.

The exit code is 1 if the election has no note, its key holds something else, or another client has changed it meanwhile.

  natsleader note billing --owner team-pay --runbook https://wiki.example.com/billing
  natsleader note nightly --one-shot
  natsleader note billing --remove`

// listedNote is a note in a list, for programs.
type listedNote struct {
	Election string `json:"election"`
	facts.Note
}

type noteCommand struct {
	*front.Globals
	election                  string
	set                       facts.Note
	owned, linked, kind, gone bool // the flags that were given
	asJSON                    bool
}

// Register adds the command note.
func Register(app *fisk.Application, g *front.Globals) {
	n := &noteCommand{Globals: g}
	cmd := app.Command("note", "Note who owns an election and what helps, or show that").HelpLong(noteHelp)
	cmd.Arg("election", "Election of the note; all of the bucket by default").HintAction(func() []string { return inspect.ElectionNames(g) }).StringVar(&n.election)
	cmd.Flag("owner", "Who is asked about it").PlaceHolder("TEXT").IsSetByUser(&n.owned).StringVar(&n.set.Owner)
	cmd.Flag("runbook", "Page that says what to do").PlaceHolder("URL").IsSetByUser(&n.linked).StringVar(&n.set.Runbook)
	cmd.Flag("one-shot", "It is the election of a job that runs once in a while").IsSetByUser(&n.kind).BoolVar(&n.set.OneShot)
	cmd.Flag("remove", "Remove the note").UnNegatableBoolVar(&n.gone)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&n.asJSON)
	cmd.Action(func(*fisk.ParseContext) error {
		changes := n.owned || n.linked || n.kind
		switch {
		case n.election == "" && (changes || n.gone):
			return front.Usagef("note takes an election with --owner, --runbook, --one-shot and --remove")
		case changes && n.gone:
			return front.Usagef("--remove removes the whole note: it takes no --owner, --runbook and --one-shot")
		case len(n.set.Owner) > facts.MostNote:
			return front.Usagef("--owner has more than %d bytes", facts.MostNote)
		}
		if n.election != "" {
			if err := inspect.CheckElection(n.election); err != nil {
				return err
			}
			if link := n.set.Runbook; link != "" && !facts.IsPage(link) {
				return front.Usagef("--runbook %q is no address of a page: it begins with https:// or http://, and has %d bytes at most", front.Shorten(link, front.LongValue), facts.MostNote)
			}
		}
		return inspect.DoExisting(g, n.run)
	})
}

func (n *noteCommand) run(ctx context.Context, s *inspect.Inspector) error {
	if n.election == "" {
		return n.list(ctx, s)
	}
	var is facts.Note
	err := s.Within(ctx, func(ctx context.Context) error {
		kv, err := s.Js.KeyValue(ctx, s.Name)
		if err != nil {
			return err
		}
		key, revision := facts.NotePrefix+n.election, uint64(0)
		switch e, absent := kv.Get(ctx, key); {
		case absent == nil:
			is, revision = facts.DecodeNote(e.Value()), e.Revision()
		case !errors.Is(absent, jetstream.ErrKeyNotFound):
			return absent
		}
		switch {
		case n.gone && revision > 0:
			is = facts.Note{}
			return kv.Delete(ctx, key, jetstream.LastRevision(revision))
		case n.gone || !n.change(&is):
			return nil
		}
		is.Unread = "" // what the key held is replaced
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
	if errors.Is(err, jetstream.ErrKeyExists) || front.RefusedWith(err, jetstream.JSErrCodeStreamWrongLastSequence) {
		return front.Exitf(front.ExitFailed, "another client has changed the note of %s meanwhile: look at it, and try again", n.election)
	}
	if err != nil {
		return err
	}
	lines := front.Columns(inspect.NoteDetails(is))
	if is == (facts.Note{}) {
		lines = []string{n.election + " has no note"}
	}
	return front.ExitIf((is == (facts.Note{}) || is.Unread != "") && !n.gone && !n.owned && !n.linked && !n.kind, front.ExitFailed,
		front.PrintResult(n.Out(), n.asJSON, listedNote{n.election, is}, lines))
}

// change applies the flags that were given, and reports whether there are any.
func (n *noteCommand) change(is *facts.Note) bool {
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
func (n *noteCommand) list(ctx context.Context, s *inspect.Inspector) error {
	all, err := inspect.Answer(ctx, s, s.Keys)
	if err != nil {
		return err
	}
	notes := []listedNote{}
	rows := [][]string{{"ELECTION", "OWNER", "KIND", "RUNBOOK"}}
	for _, x := range all {
		election, ok := strings.CutPrefix(x.Election, facts.NotePrefix)
		its := facts.DecodeNote(x.Entry.Value)
		if !ok || its == (facts.Note{}) {
			continue
		}
		kind := "-"
		switch {
		case its.Unread != "":
			kind = "damaged"
		case its.OneShot:
			kind = "one-shot"
		}
		notes = append(notes, listedNote{election, its})
		rows = append(rows, []string{front.Printable(election), cmp.Or(front.Shorten(front.Printable(its.Owner), front.LongID), "-"), kind, cmp.Or(front.Printable(its.Runbook), "-")})
	}
	lines := front.Columns(rows)
	if len(notes) == 0 {
		lines = []string{fmt.Sprintf("no note in bucket %s", s.Name)}
	}
	return front.PrintResult(n.Out(), n.asJSON, notes, lines)
}
