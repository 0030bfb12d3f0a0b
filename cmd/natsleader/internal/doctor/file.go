package doctor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/jsapi"
)

// checkNew returns an error if the file of --save is there already: that is known before anything is read.
func checkNew(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return front.Usagef("--save: there is a file %s", front.Printable(path))
	}
	return nil
}

// save writes facts to the file of --save, if one is asked for.
func save(g *front.Globals, path string, b facts.Bucket) error {
	if path == "" {
		return nil
	}
	text, err := facts.Save(b, g.Version)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the user names it
	if err != nil {
		return front.Usagef("--save: %w", err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return front.Usagef("--save: %w", errors.Join(err, os.Remove(path)))
	}
	_, _ = fmt.Fprintf(g.Errs(), "natsleader: %s has what was read of bucket %s: its settings and servers, names of elections, and values that candidates publish; no credentials\n",
		front.Printable(path), b.Asked.Bucket)
	return nil
}

// doctorFrom reports on the facts in a file.
func doctorFrom(g *front.Globals, o doctorOptions) error {
	if other := (doctorOptions{from: o.from, json: o.json, as: facts.Candidate}); o != other {
		return front.Usagef("--from takes no other flag than --json: what was asked for is in the file")
	}
	file, err := os.Open(o.from)
	if err != nil {
		return front.Usagef("--from: %w", err)
	}
	defer file.Close() //nolint:errcheck // nothing is lost
	text, err := io.ReadAll(io.LimitReader(file, facts.MostFile+1))
	if err != nil {
		return front.Usagef("--from: %w", err)
	}
	b, err := facts.Load(text)
	if err != nil {
		return front.Usagef("--from %s: %w", front.Printable(o.from), err)
	}
	if g.BucketNamed && g.Bucket != b.Asked.Bucket {
		return front.Usagef("--from %s was read of bucket %s, and not of %s", front.Printable(o.from), front.Printable(b.Asked.Bucket), front.Printable(g.Bucket))
	}
	_, _ = fmt.Fprintf(g.Errs(), "natsleader: %s was read of bucket %s%s\n", front.Printable(o.from), front.Printable(b.Asked.Bucket), readBy(b.Server.From()))
	return printReport(g.Out(), judge.Of(b), o.json, g.Width())
}

// readBy says when facts were read, and from which server.
func readBy(from facts.Source) (text string) {
	if !from.At.IsZero() {
		text = " at " + front.FormatZoned(from.At)
	}
	if from.Server != "" {
		text += " from " + front.Printable(from.Server)
	}
	return text
}

// Unreached notes that no connection was made.
func (e *Environment) Unreached(err error) facts.Bucket {
	why := facts.NoAnswer
	if jsapi.ConnErrorOf(err).Kind == "auth" {
		why = facts.Refused
	}
	e.asks()
	e.Server.Lose(why, front.ErrorText(err), facts.Source{At: time.Now()})
	return e.Bucket
}
