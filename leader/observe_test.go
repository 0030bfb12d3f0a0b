package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/leader"
)

// Lookup on a store that does not answer returns after 5 s, or when its context ends, with the error of
// the context. It leaves no request.
func TestLookup_SilentStore(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, time.Second: time.Second, 0: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l := newLedger(map[string]answers{"Get": whenGivenUp})
			ctx, cancel := context.WithCancel(t.Context())
			if limit > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), limit)
			}
			defer cancel()
			from := time.Now()
			failed := make(chan error, 1)
			go func() {
				_, err := leader.Lookup(ctx, l, "e")
				failed <- err
			}()
			select {
			case err := <-failed:
				if got := time.Since(from); got != want || !errors.Is(err, leader.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v: returned %v after %v", limit, err, got)
				}
			case <-time.After(2 * time.Hour):
				t.Errorf("%v: does not return", limit)
			}
			l.answer("Get", atOnce)
			check.Is(t, check.Err(leader.Lookup(context.Background(), l, "e")), nil)
			l.settled(t)
		})
	}
}

// An observer reports a holder once, to a slow reader the newest, and closes its channel when the context
// ends.
func TestObserve_ReportsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		holders := check.Got(leader.Observe(ctx, l, "e"))(t)
		synctest.Wait() // it has seen that nobody leads, which no reader has taken
		c := newLedgerOn(l.plainStore, nil).stand(t.Context(), t, leader.Config{})
		time.Sleep(10 * time.Second)
		var got []string
		next := func() {
			t.Helper()
			select {
			case h, open := <-holders:
				got = append(got, map[bool]string{true: "holder " + h.ID, false: "closed"}[open])
			case <-time.After(time.Minute):
				got = append(got, "nothing")
			}
		}
		next()
		next()
		_ = c.Stop()
		next()
		cancel()
		next()
		want := []string{"holder a", "nothing", "holder ", "closed"}
		check.That(t, slices.Equal(got, want), "observed %q, want %q", got, want)
	})
}

// HolderOf shows the text of a foreign record if it could be a name.
func TestForeignRecord_ShowsName(t *testing.T) {
	for value, want := range map[string]string{
		"node1.example.net": "node1.example.net", "a name": "a name", "": "", "{}": "{}", "two\nlines": "", "é": "",
		strings.Repeat("x", 64): strings.Repeat("x", 64), strings.Repeat("x", 65): "",
	} {
		h := leader.HolderOf(natskv.KeyValue(backend.Entry{Revision: 7, Value: []byte(value)}, "e"))
		check.That(t, h.State == leader.HolderForeign && string(h.Value) == want && h.ID == "", "%q: %+v", value, h)
		said := "a foreign record at revision 7"
		if want != "" {
			said = fmt.Sprintf("the foreign record %q at revision 7", want)
		}
		check.That(t, h.String() == said, "%q: %v", value, h)
	}
}
