package record

import (
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// Any client of the bucket may write what candidates keep and repeat. A text at its limit is taken, and
// one that is longer by a byte is not.
func TestLimits_LongTexts(t *testing.T) {
	for name, k := range map[string]struct {
		letter string
		limit  int
		takes  func(text string) bool
	}{
		"session of a record": {"x", maxSession, func(text string) bool {
			_, err := Decode([]byte(`{"v":1,"state":"leading","session":"` + text + `","lease":"15s"}`))
			return err == nil
		}},
		"session in a line": {"x", maxSession, func(text string) bool {
			r, err := Decode([]byte(`{"v":1,"state":"leading","session":"S","lease":"15s","next":["` + text + `"]}`))
			return err == nil && r.Next.First() == text
		}},
		"foreign name": {"x", maxForeignName, func(text string) bool {
			return DecodeEntry(backend.Entry{Revision: 1, Value: []byte(text)}).Rec.Value == text
		}},
		"guard": {" ", maxGuardSize, func(text string) bool {
			value := Guard{ID: "a", Election: "e", Session: "S", Token: 1}.Encode()
			value = append(value, text[len(value):]...)
			return DecodeGuard(backend.Entry{Revision: 1, Value: value}).Kind == EntryRecord
		}},
	} {
		check.That(t, k.takes(strings.Repeat(k.letter, k.limit)), "%s: %d bytes are not taken", name, k.limit)
		check.That(t, !k.takes(strings.Repeat(k.letter, k.limit+1)), "%s: %d bytes are taken", name, k.limit+1)
	}
}
