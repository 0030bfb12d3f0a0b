// Package plain escapes text of other clients before it is printed. Any client may choose the bytes of IDs, values and names. A
// direction mark, a character without a width or a control character makes one look like another, or commands a terminal. Blanks
// look like nothing.
package plain

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

func odd(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// Text escapes what %q of package fmt does, but for quotes. It quotes a text of blanks alone.
func Text(s string) string {
	switch {
	case s != "" && strings.Trim(s, " ") == "":
		return strconv.Quote(s)
	case strings.IndexFunc(s, odd) < 0:
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// JSON escapes the same in JSON text, whose reader gets the text unchanged. Encoders escape control characters themselves.
func JSON(text []byte) []byte { return escape(text, `\u%04x`) }

// PageJSON does to the texts in compact JSON for a page what Text does, and the page shows the escapes and quotes.
func PageJSON(text []byte) []byte {
	return escape(blank.ReplaceAll(text, []byte(`$1"\"$2\""`)), `\\u%04x`)
}

var (
	blank   = regexp.MustCompile(`([:,[])"( +)"`) // within a text there is a backslash before a quote
	quoted  = regexp.MustCompile(`"\\"( +)\\""`)
	escaped = regexp.MustCompile(`\\\\u([0-9a-f]{4})`)
)

// FromPage undoes PageJSON in what a page sends back.
func FromPage(text []byte) []byte {
	return escaped.ReplaceAll(quoted.ReplaceAll(text, []byte(`"$1"`)), []byte(`\u$1`))
}

func escape(text []byte, unit string) []byte {
	isOdd := func(r rune) bool { return r > unicode.MaxASCII && !unicode.IsPrint(r) }
	if bytes.IndexFunc(text, isOdd) < 0 {
		return text
	}
	var safe bytes.Buffer
	for _, r := range string(text) {
		if !isOdd(r) {
			safe.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&safe, unit, u)
		}
	}
	return safe.Bytes()
}
