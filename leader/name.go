package leader

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/natsleader/natsleader/internal/wire"
)

const (
	maxName  = 200 // leaves room for a prefix, see maxElection
	nameHash = 16  // hexadecimal digits
)

// Name returns the name of an election for any text, as an address or a user's name for a job: another one for each
// text. A text of 1 to 200 letters, digits and -_/= stays as it is. Of others each other byte becomes "_", and after at
// most 183 bytes follow "-" and the first 16 hexadecimal digits of the SHA-256 of the text. A text that ends so gets
// a second hash.
func Name(text string) string {
	name := []byte(text)
	for i := range name {
		if !wire.ValidKey(text[i : i+1]) { // nor is a dot valid alone
			name[i] = '_'
		}
	}
	if text != "" && string(name) == text && len(text) <= maxName && !endsInHash(text) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%.*s-%x", maxName-1-nameHash, name, sum[:nameHash/2])
}

// endsInHash reports whether Name may have returned the text for another text. A user could choose it to get the lock of that one.
func endsInHash(text string) bool {
	i := len(text) - 1 - nameHash
	return i >= 0 && text[i] == '-' && strings.Trim(text[i+1:], "0123456789abcdef") == ""
}
