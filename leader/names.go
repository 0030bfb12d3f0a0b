package leader

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"

	"github.com/natsleader/natsleader/internal/record"
)

// Limits of the names that callers choose, in bytes, beside those in package jsapi.
const (
	// maxElection is for the key of an election, with the suffix of its seat. See
	// [jsapi.MaxSubject].
	maxElection = wire.MaxElection
)

// checkKey rejects a name that is not the key of an election or of one of its seats.
func checkKey(election string) error {
	if err := wire.CheckElection(election); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	return nil
}

// checkElection rejects a name under which a candidate with that many seats cannot
// campaign. The key of a seat is rejected, because the election would share that key with
// the seat.
func checkElection(name string, seats int) error {
	if err := checkKey(name); err != nil {
		return err
	}
	if n := seatOf(name); n > 1 {
		return fmt.Errorf("%w: election %q has the name of seat %d of election %q", ErrInvalidConfig, name, n, name[:strings.LastIndex(name, seatInfix)])
	}
	if suffix := SeatKey(name, seats)[len(name):]; len(name)+len(suffix) > maxElection {
		return fmt.Errorf("%w: election of %d bytes is more than %d, which leave room for %s of the last seat", ErrInvalidConfig, len(name), maxElection-len(suffix), suffix)
	}
	return nil
}

// checkID rejects an ID that a record or a request to the leader cannot carry unchanged,
// or that cannot be shown in one line.
func checkID(what, id string) error {
	if err := jsapi.CheckLength(what, id, record.MaxID); err != nil {
		return err
	}
	switch {
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: %s %q is not valid UTF-8", ErrInvalidConfig, what, id)
	case strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("%w: %s %q contains a control character", ErrInvalidConfig, what, id)
	}
	return nil
}
