// Package hazards is the list of what a stream's configuration can do to what this library keeps in the stream. All that
// judge a stream use it: buckets, candidates, guards, rosters and the command.
//
// Its files:
//
//	hazards.go  the uses of a stream, the effects, and the judgement
//	table.go    the table of hazards
//	subjects.go which subjects sources and transforms can reach
package hazards

import (
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Use is what the library keeps in a stream.
type Use int

// The uses.
const (
	Elections Use = iota // the records of a bucket, one for each election
	Guard                // the message that keeps the writers of an earlier term out
	Roster               // the announcements of the candidates of a bucket
	History              // all that was ever written to a bucket, to read
	uses
)

// Effect is what follows from a hazard. A greater one is worse.
type Effect int

// The effects.
const (
	None        Effect = iota
	Noted              // the command says so
	Reported           // the command warns
	Unprotected        // a record can vanish, so that the winner of an empty key waits (backend.Settings.PurgeProtected)
	Refused            // the stream is of no use, or unsafe: backend.ErrIncompatibleBucket
)

// Stream is what is judged.
type Stream struct {
	jetstream.StreamConfig
	Use   Use
	Whole string // a pattern of the subjects that the stream has to have
	Kept  string // a pattern of the subjects of what the library keeps
}

// Bucket is the stream of a bucket with that use.
func Bucket(c jetstream.StreamConfig, use Use, name string) Stream {
	return Stream{StreamConfig: c, Use: use, Whole: "$KV." + name + ".>", Kept: "$KV." + name + ".>"}
}

// Hazard is one that a stream has.
type Hazard struct {
	Effect Effect
	Text   string // continues "stream X": "is sealed, and takes no writes"
	Remedy string // what to do, perhaps empty
}

// Of returns the hazards of a stream with that effect, in the order of the table.
func (s Stream) Of(effect Effect) (found []Hazard) {
	for _, r := range table {
		if r.effects[s.Use] != effect {
			continue
		}
		if text := r.of(s); text != "" {
			found = append(found, Hazard{Effect: effect, Text: text, Remedy: r.remedy})
		}
	}
	return found
}

// Refusal returns the reason why the stream is of no use, with its remedy, or an empty string.
func (s Stream) Refusal() string {
	found := s.Of(Refused)
	if len(found) == 0 {
		return ""
	}
	if found[0].Remedy == "" {
		return found[0].Text
	}
	return found[0].Text + ": " + found[0].Remedy
}

// Protected reports whether only a delete marker can remove a message.
func (s Stream) Protected() bool {
	return len(s.Of(Refused)) == 0 && len(s.Of(Unprotected)) == 0
}

// Join makes one sentence of hazards, which continues "stream X".
func Join(found []Hazard) string {
	texts := make([]string, len(found))
	for i, h := range found {
		texts[i] = h.Text
	}
	return strings.Join(texts, "; it ")
}
