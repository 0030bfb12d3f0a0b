package jsapi

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/wire"
)

// Limits of names, in bytes.
//
// A server accepts 4,096 bytes (max_control_line) for the subject, the reply subject
// and the sizes of one PUB or HPUB, and for the subject of one SUB. It closes the
// connection of a client that sends more, and nats.go does not reconnect then. The
// longest lines of this module are a write of a guarded key and the creation of the
// consumer that reads a roster:
//
//	<API prefix>$KV.<bucket>.<key> <inbox prefix>.<22>.<8> <sizes>
//	<API prefix>CONSUMER.CREATE.KV_<bucket>.<22>.$KV.<bucket>.<election>.* <inbox prefix>.<22>.<8> <sizes>
//
// With everything at its limit, and an election of 512 bytes, they have 3,400 and 3,200
// bytes.
const (
	// MaxSubject is for the subjects and keys of guarded writes and of guards, and for
	// the prefixes of the JetStream API, of inboxes and of feeds.
	MaxSubject = 1024
)

// CheckLength rejects a name that is too long.
func CheckLength(what, name string, limit int) error {
	if len(name) > limit {
		return fmt.Errorf("%w: %s of %d bytes is more than %d", backend.ErrInvalidConfig, what, len(name), limit)
	}
	return nil
}

// CheckJetStream rejects a connection through which names at their limits would exceed a
// control line.
func CheckJetStream(js jetstream.JetStream) error {
	if js == nil || js.Conn() == nil {
		return fmt.Errorf("%w: js is nil or has no connection", backend.ErrInvalidConfig)
	}
	if err := CheckLength("the prefix of the JetStream API", APIPrefix(js.Options()), MaxSubject); err != nil {
		return err
	}
	return CheckLength("the prefix of inboxes", js.Conn().Opts.InboxPrefix, MaxSubject)
}

// CheckBucketName rejects a text that is not the name of a bucket.
func CheckBucketName(name string) error {
	if err := CheckLength("the name of the bucket", name, wire.MaxBucketName); err != nil {
		return err
	}
	if !validBucket(name) {
		return fmt.Errorf("%w: bucket %q must be letters, digits, '-' and '_'", backend.ErrInvalidConfig, name)
	}
	return nil
}

// CheckSubject rejects a text that is not a subject, or is too long.
func CheckSubject(what, subject string) error {
	if err := CheckLength(what, subject, MaxSubject); err != nil {
		return err
	}
	if !LiteralSubject(subject) {
		return fmt.Errorf("%w: %s %q is not a subject without wildcards", backend.ErrInvalidConfig, what, subject)
	}
	return nil
}

// LiteralSubject reports whether s is a subject without wildcards or mappings.
func LiteralSubject(s string) bool {
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

func alphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// Covers reports whether every subject that matches sub also matches pattern.
func Covers(pattern, sub string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(sub, ".")
	for i, tok := range p {
		switch {
		case tok == ">":
			return i < len(s)
		case i >= len(s) || s[i] == ">":
			return false
		case tok != "*" && tok != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}
