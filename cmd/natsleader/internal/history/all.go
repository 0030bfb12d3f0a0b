package history

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/leader"
)

// Bounds of what is read about all elections, besides their first and last records.
const (
	MostReading = 10 * time.Second
	AtOnce      = 128 // elections
	perRequest  = 500 // elections; a server answers at most 1024
)

// ReadAll reads what has changed in all elections from a moment on. It reads the newest changes first. What it leaves out
// is older than the begin of the result.
func (r *Reader) ReadAll(ctx context.Context, found pasts, from time.Time) (Changes, error) {
	all, err := r.firstAndLast(ctx, found, from)
	if err != nil {
		return Changes{}, err
	}
	open := slices.DeleteFunc(slices.Clone(all), (*past).isComplete)
	begun, c := time.Now(), Changes{From: from, All: []Changed{}}
	for len(open) > 0 {
		slices.SortFunc(open, func(a, b *past) int { return b.reached().Compare(a.reached()) })
		if time.Since(begun) >= MostReading {
			c.From = r.leaveOut(open[0])
			break
		}
		if err := r.back(ctx, open[:min(AtOnce, len(open))]); err != nil {
			return Changes{}, err
		}
		open = slices.DeleteFunc(open, (*past).isComplete)
	}
	for some := range slices.Chunk(all, AtOnce) {
		if time.Since(begun) >= MostReading {
			break
		}
		if err := forEach(some, func(p *past) error { return r.beyond(ctx, p) }); err != nil {
			return Changes{}, err
		}
	}
	for _, p := range all {
		for _, x := range r.Line(p, from).Changes(p.Newest.Note.OneShot) {
			if x.In(c.From) {
				c.All = append(c.All, x)
			}
		}
	}
	c.All = grouped(c.All)
	if first := r.begins(); c.From.Before(first) {
		c.From = first
	}
	c.From = c.From.UTC()
	return c, nil
}

func (p *past) isComplete() bool { return p.complete }

// reached returns when the oldest record that was read came after another: what is not read is not later.
func (p *past) reached() time.Time {
	x := p.read[len(p.read)-1]
	if x.Holder.State == leader.HolderLeading && !x.Holder.Since.IsZero() && x.Holder.Since.Before(x.Entry.Created) {
		return x.Holder.Since
	}
	return x.Entry.Created
}

// pasts are those of elections, by name.
type pasts map[string]*past

// shownAs returns the name by which an election is shown: that of an assigner is its group's.
func shownAs(election string) (name string, assigner bool) {
	if name, _, inGroup := group.NameOf(election); inGroup && election == group.AssignerKey(name) {
		return name, true
	}
	return election, false
}

// past returns the past of an election, and reports whether it is shown. Of the elections of a group, the one of its assigner
// is, and a pattern that does not match the group shows what it matches of them.
func (r *Reader) past(all pasts, election string) (*past, bool) {
	matches := func(name string) bool { return r.names == nil || r.names.MatchString(name) }
	name, isElection, inGroup := group.NameOf(election)
	_, assigner := shownAs(election)
	switch {
	case inspect.CheckElection(election) != nil:
		return nil, false
	case inGroup && matches(name):
		if !assigner {
			return nil, false
		}
	case inGroup && !isElection, !matches(election):
		return nil, false
	}
	if all[election] == nil {
		all[election] = &past{Election: election, complete: true}
	}
	return all[election], true
}

// OpenAll is open for all elections.
func (r *Reader) OpenAll(ctx context.Context) (pasts, error) {
	all := make(pasts)
	return all, r.open(ctx, func(ctx context.Context) error {
		newest, err := r.S.All(ctx)
		for _, x := range newest {
			if p, ok := r.past(all, x.Election); ok {
				p.Newest = x
			}
		}
		return err
	})
}

// firstAndLast reads the state of all elections at a moment and now.
func (r *Reader) firstAndLast(ctx context.Context, found pasts, from time.Time) ([]*past, error) {
	info, err := inspect.Answer(ctx, r.S, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		info, err := r.stream.Info(ctx, jetstream.WithSubjectFilter(r.subject(">")))
		return info, inspect.AboutOne(r.info.Config.Name, err)
	})
	if err != nil {
		return nil, err
	}
	var subjects []string
	for subject := range info.State.Subjects {
		if _, ok := r.past(found, strings.TrimPrefix(subject, r.subject(""))); ok {
			subjects = append(subjects, subject)
		}
	}
	slices.Sort(subjects)
	for some := range slices.Chunk(subjects, perRequest) {
		of := make([]*past, len(some))
		for i, subject := range some {
			of[i] = found[strings.TrimPrefix(subject, r.subject(""))]
		}
		if !from.IsZero() {
			_, err = r.each(ctx, LastRecords{Subjects: some, UpToTime: from.UTC()}, func(x copied) { found[x.Election].first = x })
		}
		if err == nil {
			err = r.last(ctx, some, of, func(x copied) { found[x.Election].begin(x) })
		}
		if err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *past) int { return strings.Compare(a.Election, b.Election) }), nil
}

// each reads the last record of each of some elections, and returns up to which message of the history. Without a record that
// is 0.
func (r *Reader) each(ctx context.Context, what LastRecords, take func(copied)) (upTo uint64, err error) {
	request, err := json.Marshal(what)
	if err != nil {
		return 0, err
	}
	type batch struct {
		read []copied
		upTo uint64
	}
	got, err := answer(ctx, r, inspect.OfMany, func(ctx context.Context) (b batch, err error) { // several may be read at once: see inspect.Again
		inbox := r.S.Nc.NewInbox()
		answers, err := r.S.Nc.SubscribeSync(inbox)
		if err != nil {
			return b, err
		}
		defer answers.Unsubscribe() //nolint:errcheck // it may have gone with the connection
		if err := r.S.Nc.PublishRequest(r.direct(), inbox, request); err != nil {
			return b, err
		}
		for {
			m, err := answers.NextMsgWithContext(ctx)
			if err != nil {
				return b, err
			}
			if m.Header.Get("Status") == "204" { // the end
				b.upTo, err = strconv.ParseUint(m.Header.Get("Nats-UpTo-Sequence"), 10, 64)
				return b, err
			}
			subject := jsapi.LastValue(m.Header, jetstream.SubjectHeader)
			x, err := r.copyOf(strings.TrimPrefix(subject, r.subject("")), m)
			if err != nil || x.message == 0 {
				return batch{}, err
			}
			b.read = append(b.read, x)
		}
	})
	if err != nil {
		return 0, err
	}
	for _, x := range got.read {
		take(x)
	}
	return got.upTo, nil
}
