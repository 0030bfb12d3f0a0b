package leadertest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/natsleader/natsleader/leader"
)

// Matcher decides whether an event is the one that a test expects. Its zero value
// matches nothing.
type Matcher struct {
	name  string
	match func(leader.Event) bool
}

// Match returns a matcher that calls match. The name appears in failures.
func Match(name string, match func(leader.Event) bool) Matcher {
	return Matcher{name: name, match: match}
}

// String returns the name of the matcher.
func (m Matcher) String() string { return m.name }

func (m Matcher) matches(e leader.Event) bool { return m.match != nil && m.match(e) }

// of matches the events of one type for which ok holds.
func of[E leader.Event](name string, ok func(E) bool) Matcher {
	return Match(name, func(e leader.Event) bool {
		it, is := e.(E)
		return is && ok(it)
	})
}

// Pending matches a [leader.Pending].
func Pending() Matcher { return of("Pending", func(leader.Pending) bool { return true }) }

// Elected matches a [leader.Elected].
func Elected() Matcher { return of("Elected", func(leader.Elected) bool { return true }) }

// Fenced matches a [leader.Fenced] with a Cause that is each of the errors, in the
// sense of [errors.Is]. Without errors it matches every Fenced.
func Fenced(causes ...error) Matcher {
	return of(call("Fenced", causes), func(e leader.Fenced) bool { return is(e.Cause, causes) })
}

// Deposed matches a [leader.Deposed] with a Cause that is each of the errors, in the
// sense of [errors.Is]. Without errors it matches every Deposed.
func Deposed(causes ...error) Matcher {
	return of(call("Deposed", causes), func(e leader.Deposed) bool { return is(e.Cause, causes) })
}

// Faulted matches a [leader.Faulted] with an Err that is each of the errors, in the
// sense of [errors.Is]. Without errors it matches every Faulted.
func Faulted(errs ...error) Matcher {
	return of(call("Faulted", errs), func(e leader.Faulted) bool { return is(e.Err, errs) })
}

// Observed matches a [leader.Observed] with a holder that has one of the IDs. The ID
// "" stands for no holder. Without IDs it matches every Observed.
func Observed(ids ...string) Matcher {
	return of(call("Observed", ids), func(e leader.Observed) bool {
		for _, id := range ids {
			if e.Holder.ID == id && e.Holder.State != leader.HolderForeign {
				return true
			}
		}
		return len(ids) == 0
	})
}

func is(err error, targets []error) bool {
	for _, target := range targets {
		if !errors.Is(err, target) {
			return false
		}
	}
	return true
}

// call formats a matcher as it was called.
func call[T any](name string, args []T) string {
	if len(args) == 0 {
		return name
	}
	texts := make([]string, len(args))
	for i, arg := range args {
		texts[i] = fmt.Sprintf("%q", fmt.Sprint(arg))
	}
	return name + "(" + strings.Join(texts, ", ") + ")"
}
