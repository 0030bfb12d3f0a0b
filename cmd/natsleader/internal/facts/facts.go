// Package facts has what was read of a bucket, and for what could not be read the reason. It decides nothing: package
// judge does. It has no connection and no clock.
//
// Of NATS it uses the configuration and the state of a stream, which are plain data: package hazards judges them, and a
// copy would have each new setting of the servers twice.
//
// Its files:
//
//	facts.go     a fact, known or not, and its JSON
//	bucket.go    the facts of a bucket
//	election.go  the newest revision of the key of an election
//	note.go      what operators have written about an election
//	state.go     the state of an election, of a member and of a replica, by what was read
//	file.go      facts in a file
package facts

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/natsleader/natsleader/internal/plain"
)

// Why is the reason why a fact is not known.
type Why int

// The reasons.
const (
	NotRead    Why = iota // it was not asked for. The zero Fact is this.
	Denied                // the permission is missing
	Refused               // the servers do not accept the credentials
	NoAnswer              // no answer came in time
	NoMajority            // a server answered that does not hear from a majority of the others
	Unreadable            // the answer cannot be understood
)

var whys = [...]string{"not read", "no permission", "the credentials are refused", "no answer", "no majority of the servers", "unreadable"}

func (w Why) String() string { return whys[w] }

// MarshalText is for JSON.
func (w Why) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText is for JSON.
func (w *Why) UnmarshalText(text []byte) error {
	for i, name := range whys {
		if name == string(text) {
			*w = Why(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no reason of a fact", text)
}

// Source is where and when a fact was read.
type Source struct {
	Server string    `json:"server,omitempty"`
	At     time.Time `json:"at,omitzero"` // by the server's clock, as far as it is known
}

// Fact is a value that was read, or the reason why it is not known. The zero Fact was not read.
type Fact[T any] struct {
	value T
	known bool
	why   Why
	text  string
	from  Source
}

// Known is a fact that was read.
func Known[T any](value T, from Source) Fact[T] {
	return Fact[T]{value: value, known: true, from: from}
}

// Unknown is a fact that is not known, with the words of the one that refused it, if there are any.
func Unknown[T any](why Why, text string, from Source) Fact[T] {
	return Fact[T]{why: why, text: text, from: from}
}

// Get returns the value if it is known, and otherwise the zero value.
func (f Fact[T]) Get() (value T, known bool) { return f.value, f.known }

// Words are why it is not known.
func (f Fact[T]) Words() string { return Gap{Why: f.why, Text: f.text}.Words() }

// From is where and when it was read.
func (f Fact[T]) From() Source { return f.from }

// Set makes it a fact that was read.
func (f *Fact[T]) Set(value T, from Source) { *f = Known(value, from) }

// Lose makes it a fact that is not known.
func (f *Fact[T]) Lose(why Why, text string, from Source) { *f = Unknown[T](why, text, from) }

// Slot is a fact that may become unknown, whatever its type.
type Slot interface {
	Lose(why Why, text string, from Source)
}

// factJSON is a fact in a file: with a value, or with a reason.
type factJSON struct {
	Value json.RawMessage `json:"value,omitempty"`
	Why   *Why            `json:"why,omitempty"`
	Text  string          `json:"text,omitempty"`
	From  Source          `json:"from,omitzero"`
}

// MarshalJSON is for files.
func (f Fact[T]) MarshalJSON() ([]byte, error) {
	j := factJSON{From: f.from, Text: f.text}
	if !f.known {
		j.Why = &f.why
		return json.Marshal(j)
	}
	var err error
	if j.Value, err = json.Marshal(f.value); err != nil {
		return nil, err
	}
	return json.Marshal(j)
}

// UnmarshalJSON is for files. A fact with neither a value nor a reason was not read.
func (f *Fact[T]) UnmarshalJSON(b []byte) error {
	var j factJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*f = Fact[T]{text: j.Text, from: j.From, known: j.Value != nil && j.Why == nil}
	if j.Why != nil {
		f.why = *j.Why
	}
	if !f.known {
		return nil
	}
	return json.Unmarshal(j.Value, &f.value)
}

// Gap is a fact that is not known.
type Gap struct {
	Fact string // the field of Bucket, and what is in it: Stream, Groups[0].View
	Why  Why
	Text string
	From Source
}

// Words are the words of the one that refused it, or the reason.
func (g Gap) Words() string {
	if g.Text == "" {
		return g.Why.String()
	}
	return g.Text
}

// look returns the gap of a fact that is not known, and the value of one that is.
func (f Fact[T]) look() (gap Gap, known bool, value any) {
	return Gap{Why: f.why, Text: f.text, From: f.from}, f.known, f.value
}

// Gaps lists all facts of a bucket that are not known, also those in other facts. A new field is in it by itself.
func (b *Bucket) Gaps() []Gap { return gapsIn(reflect.ValueOf(*b), "") }

func gapsIn(v reflect.Value, path string) (all []Gap) {
	if !v.CanInterface() {
		return nil
	}
	if f, ok := v.Interface().(interface{ look() (Gap, bool, any) }); ok {
		gap, known, value := f.look()
		if !known {
			gap.Fact = path
			return []Gap{gap}
		}
		return gapsIn(reflect.ValueOf(value), path)
	}
	switch v.Kind() { //nolint:exhaustive // no other kind has fields
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, gapsIn(v.Index(i), path+"["+strconv.Itoa(i)+"]")...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if path != "" {
				name = path + "." + name
			}
			all = append(all, gapsIn(v.Field(i), name)...)
		}
	}
	return all
}

// Text is a text of others: any client may choose the bytes of an ID, a key or a value.
type Text string

// String escapes what a terminal may obey or an eye not see. A text of blanks is quoted.
func (t Text) String() string {
	if strings.TrimSpace(string(t)) == "" {
		return strconv.Quote(string(t))
	}
	return plain.Text(string(t))
}

// MarshalJSON keeps the bytes: those of a text that is not UTF-8 in base64.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string][]byte{"base64": []byte(t)})
}

// UnmarshalJSON is for files.
func (t *Text) UnmarshalJSON(b []byte) error {
	var binary struct{ Base64 string }
	if json.Unmarshal(b, &binary) == nil && len(b) > 0 && b[0] == '{' {
		text, err := base64.StdEncoding.DecodeString(binary.Base64)
		*t = Text(text)
		return err
	}
	return json.Unmarshal(b, (*string)(t))
}
