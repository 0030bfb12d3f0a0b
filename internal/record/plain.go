package record

import (
	"slices"
	"strconv"
	"strings"
)

// decodePlain decodes a record as Encode writes it when no string needs escaping. It returns
// false for any other value, which is left to encoding/json. What it accepts, it decodes as
// encoding/json does.
func decodePlain(data []byte) (w wireRecord, ok bool) {
	p := plainReader{rest: string(data)}
	ok = p.skip(`{"v":1`)
	w.Format = Format
	w.State = p.text(`,"state":"`)
	w.ID = p.text(`,"id":"`)
	w.Session = p.text(`,"session":"`)
	w.Counter = p.unsigned(`,"n":`)
	w.Lease = p.text(`,"lease":"`)
	w.Seats = p.integer(`,"seats":`)
	w.Token = p.unsigned(`,"token":`)
	w.Least = p.unsigned(`,"least":`)
	if p.skip(`,"since":"`) {
		p.require(w.Since.UnmarshalText([]byte(p.text(""))) == nil)
	}
	w.Value = p.text(`,"value":"`)
	w.Priority = p.integer(`,"priority":`)
	if p.skip(`,"next":["`) {
		list, rest, found := strings.Cut(p.rest, `"]`)
		p.rest, w.Next = rest, strings.Split(list, `","`)
		p.require(found && !slices.ContainsFunc(w.Next, func(s string) bool { return !plain(s) }))
	}
	w.To = p.text(`,"to":"`)
	return w, ok && !p.failed && p.rest == "}"
}

// plainReader reads the fields of a record in the order in which they are written. A field that
// does not come next is zero.
type plainReader struct {
	rest   string
	failed bool
}

func (p *plainReader) require(ok bool) { p.failed = p.failed || !ok }

// skip reports whether the text comes next, and skips it.
func (p *plainReader) skip(text string) (ok bool) {
	p.rest, ok = strings.CutPrefix(p.rest, text)
	return ok
}

// text reads a string. The name includes the opening quote.
func (p *plainReader) text(name string) string {
	if !p.skip(name) {
		return ""
	}
	s, rest, found := strings.Cut(p.rest, `"`)
	p.rest = rest
	p.require(found && plain(s))
	return s
}

// digits reads an integer. JSON allows no leading zeros, which strconv would accept.
func (p *plainReader) digits(name string) string {
	if !p.skip(name) {
		return "0"
	}
	n := 0
	for n < len(p.rest) && (p.rest[n] == '-' || '0' <= p.rest[n] && p.rest[n] <= '9') {
		n++
	}
	s := p.rest[:n]
	p.rest = p.rest[n:]
	p.require(s == "0" || strings.TrimPrefix(s, "-") == strings.TrimLeft(s, "-0"))
	return s
}

func (p *plainReader) unsigned(name string) uint64 {
	n, err := strconv.ParseUint(p.digits(name), 10, 64)
	p.require(err == nil)
	return n
}

func (p *plainReader) integer(name string) int {
	n, err := strconv.Atoi(p.digits(name))
	p.require(err == nil)
	return n
}
