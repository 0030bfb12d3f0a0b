package leader

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/machine"
)

// A fault is reported once, and again after the same kind of request has succeeded in between. An outage
// is one fault for all kinds of requests.
func TestFaultFilter_ReportsOnce(t *testing.T) {
	down := func(kind, text string) error {
		return fmt.Errorf("%w: %w", ErrUnreachable, backend.ConnError{Kind: kind, Text: text})
	}
	names := map[string]error{"refused": down("refused", "by a"), "again": down("refused", "by b"), "auth": down("auth", "violation"), "away": ErrUnreachable, "other": fmt.Errorf("%w: another text", ErrUnreachable), "denied": ErrPermission, "feed": ErrNoFeed}
	kinds := map[string]machine.InputKind{"read": machine.InRead, "write": machine.InWritten, "open": machine.InFeed, "lost": machine.InFeedLost, "settings": machine.InSettings}
	for script, want := range map[string]string{
		"read:denied read:denied":                                            "yes no",
		"read:denied write:denied":                                           "yes no",
		"read:denied write:ok read:denied":                                   "yes no",
		"read:denied read:ok read:denied":                                    "yes yes",
		"read:away write:other open:away read:other":                         "yes no no no",
		"read:away write:denied read:denied":                                 "yes yes no",
		"read:away write:ok read:other write:ok read:away read:ok read:away": "yes yes no yes",
		"read:away write:refused read:again read:auth write:again":           "yes yes no yes no",
		"read:refused write:away read:ok read:refused":                       "yes no yes",
		"lost:denied open:ok lost:denied":                                    "yes yes",
		"lost:denied read:ok lost:denied":                                    "yes no",
		"lost:feed lost:feed open:ok lost:feed":                              "yes no yes",
		"open:ok lost:away read:other":                                       "yes no",
	} {
		var f faultFilter
		var got []string
		for _, step := range strings.Fields(script) {
			kind, what, _ := strings.Cut(step, ":")
			switch err := names[what]; {
			case what == "ok":
				f.succeeded(kinds[kind])
			case f.isNews(&machine.Input{Kind: kinds[kind], Err: err}, err):
				got = append(got, "yes")
			default:
				got = append(got, "no")
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: news %s, want %s", script, got, want)
		}
	}
	var f faultFilter
	for i := range 1000 {
		err := fmt.Errorf("%w: %d", ErrPermission, i)
		check.Must(t, f.isNews(&machine.Input{Kind: machine.InRead, Err: err}, err) && len(f.reported) <= 16,
			"after %d faults: %d are remembered, or this one is no news", i, len(f.reported))
	}
}

// A difference of the bucket, and a misfit of settings that were received, are reported when they change.
func TestFaultFilter_ReportsChanges(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	var f faultFilter
	misfit := func(err error) bool {
		if err == nil {
			f.received(nil)
			return false
		}
		return f.isNews(&machine.Input{Kind: machine.InSettings}, err)
	}
	for name, isNews := range map[string]func(error) bool{"differs": f.isDifferent, "misfit": misfit} {
		for i, step := range []struct {
			err  error
			want bool
		}{{first, true}, {first, false}, {second, true}, {second, false}, {first, true}, {nil, false}, {first, true}} {
			got := isNews(step.err)
			check.That(t, got == step.want, "%s, step %d: news %v, want %v", name, i, got, step.want)
		}
	}
	for range 2 {
		check.That(t, misfit(ErrRegressed), "a bucket that has lost its memory again is no news")
	}
}

// The loss of a feed is reported again once a feed was open in between, and not before.
func TestFaultFilter_FeedIsBack(t *testing.T) {
	var f faultFilter
	lost := &machine.Input{Kind: machine.InFeedLost, Err: ErrUnreachable}
	for _, c := range []struct {
		success machine.InputKind
		news    bool
	}{{machine.InTick, true}, {machine.InRead, false}, {machine.InFeed, true}, {machine.InSettings, false}} {
		f.succeeded(c.success)
		news := f.isNews(lost, ErrNoFeed)
		check.That(t, news == c.news, "after a success of kind %d: news %v", c.success, news)
	}
}
