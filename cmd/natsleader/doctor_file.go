package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/jsapi"
)

// checkNew returns an error if the file of --save is there already: that is known before anything is read.
func checkNew(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return usagef("--save: there is a file %s", printable(path))
	}
	return nil
}

// save writes facts to the file of --save, if one is asked for.
func (g *globals) save(path string, b facts.Bucket) error {
	if path == "" {
		return nil
	}
	text, err := facts.Save(b, version().Version)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the user names it
	if err != nil {
		return usagef("--save: %w", err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return usagef("--save: %w", errors.Join(err, os.Remove(path)))
	}
	_, _ = fmt.Fprintf(g.errs(), "natsleader: %s has what was read of bucket %s: its settings and servers, names of elections, and values that candidates publish; no credentials\n",
		printable(path), b.Asked.Bucket)
	return nil
}

// doctorFrom reports on the facts in a file.
func (g *globals) doctorFrom(o doctorOptions) error {
	if other := (doctorOptions{from: o.from, json: o.json, as: facts.Candidate}); o != other {
		return usagef("--from takes no other flag than --json: what was asked for is in the file")
	}
	file, err := os.Open(o.from)
	if err != nil {
		return usagef("--from: %w", err)
	}
	defer file.Close() //nolint:errcheck // nothing is lost
	text, err := io.ReadAll(io.LimitReader(file, facts.MostFile+1))
	if err != nil {
		return usagef("--from: %w", err)
	}
	b, err := facts.Load(text)
	if err != nil {
		return usagef("--from %s: %w", printable(o.from), err)
	}
	return printReport(g.out(), judge.Of(b), o.json, g.width())
}

// unreached notes that no connection was made.
func (e *environment) unreached(err error) facts.Bucket {
	why := facts.NoAnswer
	if jsapi.ConnErrorOf(err).Kind == "auth" {
		why = facts.Refused
	}
	e.asks()
	e.Server.Lose(why, errorText(err), facts.Source{At: time.Now()})
	return e.Bucket
}
