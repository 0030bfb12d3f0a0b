package front

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
)

// StorageName names a storage as the flag --storage does.
func StorageName(s jetstream.StorageType) string { return judge.Storage(s) }

// OrNone returns a duration, or what stands for none.
func OrNone(d time.Duration, none string) string {
	if d == 0 {
		return none
	}
	return d.String()
}

// neverSeen is the advice of a command that has never seen the bucket.
func neverSeen(bucket string) string { return judge.NeverSeen(bucket) }

// FormatPeriod formats a duration that was given in days or hours.
func FormatPeriod(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d > 0 && d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	}
	return OrNone(d, "for ever")
}

// Plural counts things.
func Plural(n int, what string) string { return judge.Plural(n, what) }

// SomeNames lists names.
func SomeNames(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = Printable(name)
	}
	return strings.Join(texts, ", ")
}

// Some joins names, but not too many of them.
func Some(names []string) string { return judge.Some(names) }

// Longer IDs and values are cut in tables and lines.
const (
	LongID    = 40
	LongValue = 40
)
