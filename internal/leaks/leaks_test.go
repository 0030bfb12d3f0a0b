package leaks_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/leaks"
)

type report struct{ lines []string }

func (*report) Helper() {}

func (r *report) Errorf(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

type keeper []jsapi.Left

func (k keeper) Left() []jsapi.Left { return k }

// Each thing that can be left behind is reported, and nothing else.
func TestCheck_ReportsEach(t *testing.T) {
	for name, tt := range map[string]struct {
		left   jsapi.Left
		limits int
		timers int
		want   []string
	}{
		"nothing":        {},
		"a subscription": {left: jsapi.Left{Subscriptions: 1}, want: []string{"left behind: {Subscriptions:1 Slots:0 Turns:0 Requests:0 Feeds:0}"}},
		"a slot":         {left: jsapi.Left{Slots: 1}, want: []string{"left behind: {Subscriptions:0 Slots:1 Turns:0 Requests:0 Feeds:0}"}},
		"a turn":         {left: jsapi.Left{Turns: 1}, want: []string{"left behind: {Subscriptions:0 Slots:0 Turns:1 Requests:0 Feeds:0}"}},
		"a request":      {left: jsapi.Left{Requests: 1}, want: []string{"left behind: {Subscriptions:0 Slots:0 Turns:0 Requests:1 Feeds:0}"}},
		"a feed":         {left: jsapi.Left{Feeds: 1}, want: []string{"left behind: {Subscriptions:0 Slots:0 Turns:0 Requests:0 Feeds:1}"}},
		"a limit":        {limits: 1, want: []string{"left behind: 1 limits of calls"}},
		"a timer":        {timers: 1, want: []string{"left behind: 1 timers"}},
	} {
		var got report
		l := leaks.Open()
		for range tt.limits {
			_, cancel := deadline.Within(context.Background(), time.Hour)
			defer cancel()
		}
		l.Check(&got, tt.timers, keeper{{}, tt.left})
		check.That(t, slices.Equal(got.lines, tt.want), "%s: %q", name, got.lines)
	}
}
