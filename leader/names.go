package leader

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/wire"
)

// Limits of the names that callers choose, in bytes.
//
// A server accepts 4,096 bytes (max_control_line) for the subject, the reply subject
// and the sizes of one PUB or HPUB, and for the subject of one SUB. It closes the
// connection of a client that sends more, and nats.go does not reconnect then. The
// longest lines of this package are a write of a guarded key and the creation of the
// consumer that reads a roster:
//
//	<API prefix>$KV.<bucket>.<key> <inbox prefix>.<22>.<8> <sizes>
//	<API prefix>CONSUMER.CREATE.KV_<bucket>.<22>.$KV.<bucket>.<election>.* <inbox prefix>.<22>.<8> <sizes>
//
// With everything at its limit they have 3,400 and 3,200 bytes.
const (
	// maxElection is for the key of an election, with the suffix of its seat.
	maxElection = 512
	// maxSubject is for the subjects and keys of guarded writes and of guards, and for
	// the prefixes of the JetStream API, of inboxes and of feeds.
	maxSubject    = 1024
	maxBucketName = wire.MaxBucketName
	// maxIDLength keeps records small.
	maxIDLength = 256
)

// checkLength rejects a name that is too long.
func checkLength(what, name string, limit int) error {
	if len(name) > limit {
		return fmt.Errorf("%w: %s of %d bytes is more than %d", ErrInvalidConfig, what, len(name), limit)
	}
	return nil
}

// checkKey rejects a name that is not the key of an election or of one of its seats. It
// applies the rules of KV keys (nats-architecture-and-design, ADR-8).
func checkKey(election string) error {
	if err := checkLength("election", election, maxElection); err != nil {
		return err
	}
	if !validKey(election) {
		return fmt.Errorf("%w: election %q is not made of letters, digits and -/_=. or has an empty part", ErrInvalidConfig, election)
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
	return checkLength("the last seat of the election", SeatKey(name, seats), maxElection)
}

// checkID rejects an ID that a record or a request to the leader cannot carry unchanged,
// or that cannot be shown in one line.
func checkID(what, id string) error {
	if err := checkLength(what, id, maxIDLength); err != nil {
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

// checkJetStream rejects a connection through which names at their limits would exceed a
// control line.
func checkJetStream(js jetstream.JetStream) error {
	if js == nil || js.Conn() == nil {
		return fmt.Errorf("%w: js is nil or has no connection", ErrInvalidConfig)
	}
	if err := checkLength("the prefix of the JetStream API", apiPrefix(js.Options()), maxSubject); err != nil {
		return err
	}
	return checkLength("the prefix of inboxes", js.Conn().Opts.InboxPrefix, maxSubject)
}

// checkBucketName rejects a text that is not the name of a bucket.
func checkBucketName(name string) error {
	if err := checkLength("the name of the bucket", name, maxBucketName); err != nil {
		return err
	}
	if !validBucket(name) {
		return fmt.Errorf("%w: bucket %q is not made of letters, digits, '-' and '_'", ErrInvalidConfig, name)
	}
	return nil
}

// checkSubject rejects a text that is not a subject, or is too long.
func checkSubject(what, subject string) error {
	if err := checkLength(what, subject, maxSubject); err != nil {
		return err
	}
	if !literalSubject(subject) {
		return fmt.Errorf("%w: %s %q is not a subject without wildcards", ErrInvalidConfig, what, subject)
	}
	return nil
}

// literalSubject reports whether s is a subject without wildcards or mappings.
func literalSubject(s string) bool {
	for tok := range strings.SplitSeq(s, ".") {
		if tok == "" {
			return false
		}
	}
	return !strings.ContainsAny(s, "*>{} \t\r\n")
}

// validBucket applies the rule of jetstream/kv.go, validBucketRe.
func validBucket(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		return !alphanumeric(r) && r != '-' && r != '_'
	}) < 0
}

// validKey applies the rule of jetstream/kv.go, keyValid.
func validKey(key string) bool {
	if key == "" || key[0] == '.' || key[len(key)-1] == '.' {
		return false
	}
	for i, r := range key {
		if !alphanumeric(r) && r != '-' && r != '/' && r != '_' && r != '=' && (r != '.' || key[i-1] == '.') {
			return false
		}
	}
	return true
}

func alphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}
