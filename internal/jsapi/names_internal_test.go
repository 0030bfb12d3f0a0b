package jsapi

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
)

// A name is valid up to its longest length, and of the characters that the server takes.
func TestNames_Limits(t *testing.T) {
	of := func(n int) string { return strings.Repeat("a", n) }
	for name, tt := range map[string]struct {
		bucket, subject bool
		text            string
	}{
		"empty":              {false, false, ""},
		"letters":            {true, true, "azAZ09"},
		"dashes":             {true, true, "a-_b"},
		"below the letters":  {false, true, "`"},
		"beyond the letters": {false, false, "{"},
		"below the digits":   {false, true, "/"},
		"beyond the digits":  {false, true, ":"},
		"below the capitals": {false, true, "@"},
		"beyond them":        {false, true, "["},
		"two tokens":         {false, true, "a.b"},
		"an empty token":     {false, false, "a..b"},
		"a wildcard":         {false, false, "a.*"},
		"a tail":             {false, false, "a.>"},
		"a space":            {false, false, "a b"},
		"a tab":              {false, false, "a\tb"},
		"a line":             {false, false, "a\nb"},
		"a return":           {false, false, "a\rb"},
		"a mapping":          {false, false, "a}"},
		"the longest bucket": {true, true, of(wire.MaxBucketName)},
		"a long subject":     {false, true, of(wire.MaxBucketName + 1)},
		"the longest one":    {false, true, of(MaxSubject)},
		"too long":           {false, false, of(MaxSubject + 1)},
	} {
		for what, got := range map[string]struct {
			err error
			ok  bool
		}{"bucket": {CheckBucketName(tt.text), tt.bucket}, "subject": {CheckSubject("it", tt.text), tt.subject}} {
			check.That(t, (got.err == nil) == got.ok && (got.err == nil || errors.Is(got.err, backend.ErrInvalidConfig)),
				"%s, as a %s: %v", name, what, got.err)
		}
	}
}

// A pattern covers a subject, or another pattern, if it matches all that the other matches.
func TestNames_Covers(t *testing.T) {
	for _, tt := range []struct {
		pattern, sub string
		want         bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a", "a.b", false},
		{"a.b", "a", false},
		{"*", "a", true},
		{"*", "*", true},
		{"a", "*", false},
		{"*", ">", false},
		{"*", "a.b", false},
		{">", "a", true},
		{">", "a.b", true},
		{">", ">", true},
		{"a.>", "a", false},
		{"a.>", "a.b.c", true},
		{"a.>", "a.>", true},
		{"a.>", "a.*", true},
		{"a.*", "a.>", false},
		{"*.b", "a.b", true},
		{"*.b", "a.c", false},
		{"a.>", "b.a", false},
	} {
		got := Covers(tt.pattern, tt.sub)
		check.That(t, got == tt.want, "%q covers %q: %v", tt.pattern, tt.sub, got)
	}
}

// A connection is rejected if its prefixes are too long. The prefix of the API follows the
// options as in nats.go.
func TestNames_Prefixes(t *testing.T) {
	withWire(t, func(t *wired) {
		long := strings.Repeat("a", MaxSubject-1) // and a dot
		for name, tt := range map[string]struct {
			opts   jetstream.JetStreamOptions
			inbox  string
			prefix string
			put    string
			ok     bool
		}{
			"the default":    {prefix: "$JS.API.", put: "$KV.E.", ok: true},
			"a domain":       {opts: jetstream.JetStreamOptions{Domain: "d"}, prefix: "$JS.d.API.", put: "$JS.d.API.$KV.E.", ok: true},
			"a prefix":       {opts: jetstream.JetStreamOptions{APIPrefix: "p", Domain: "d"}, prefix: "p.", put: "p.$KV.E.", ok: true},
			"with a dot":     {opts: jetstream.JetStreamOptions{APIPrefix: "p.q."}, prefix: "p.q.", put: "p.q.$KV.E.", ok: true},
			"the longest":    {opts: jetstream.JetStreamOptions{APIPrefix: long}, inbox: long + "a", prefix: long + ".", put: long + ".$KV.E.", ok: true},
			"too long":       {opts: jetstream.JetStreamOptions{APIPrefix: long + "a"}, prefix: long + "a.", put: long + "a.$KV.E."},
			"too long inbox": {inbox: long + "aa", prefix: "$JS.API.", put: "$KV.E."},
		} {
			t.a.Conn.Opts.InboxPrefix = tt.inbox
			err := CheckJetStream(options{t.a.JS, tt.opts})
			a := Stream{Prefix: APIPrefix(tt.opts)}
			if put := a.PutPrefix("$KV.E."); a.Prefix != tt.prefix || put != tt.put || (err == nil) != tt.ok || err != nil && !errors.Is(err, backend.ErrInvalidConfig) {
				t.Errorf("%s: %q, %q, %v", name, a.Prefix, put, err)
			}
		}
		for _, js := range []jetstream.JetStream{nil, without{}} {
			check.Is(t, CheckJetStream(js), backend.ErrInvalidConfig)
		}
	})
}

// options has options of its own.
type options struct {
	jetstream.JetStream
	own jetstream.JetStreamOptions
}

func (o options) Options() jetstream.JetStreamOptions { return o.own }

// without has no connection.
type without struct{ jetstream.JetStream }

func (without) Conn() *nats.Conn { return nil }
