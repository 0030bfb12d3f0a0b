package page

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The health checks of the exporter: it is connected while its watcher has read all keys, hears of changes
// and works, and it lives while anything works. Without a connection it shows no election.
func TestExporter_Health(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElectionMetrics("elections", 9, front.NewLineLog(io.Discard, "", front.LogText))
		check := func(what string, live, connected bool, why string) {
			t.Helper()
			status := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}
			const page = `%d {"bucket":"elections",`
			want := fmt.Sprintf(page+`"live":%v}`+"\n"+page+`"connected":%v%s}`+"\n",
				status[live], live, status[connected], connected, why)
			got := ""
			for _, answers := range []http.HandlerFunc{e.live, e.connected} {
				w := httptest.NewRecorder()
				answers(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
				sent := w.Result().Header //nolint:bodyclose // a recorder's
				expect.Equal(t, sent.Get("Content-Type")+" "+sent.Get("Cache-Control"), "application/json no-store", "%s")
				got += fmt.Sprintln(w.Code, strings.TrimSpace(w.Body.String()))
			}
			expect.Equal(t, got, want, what+": %s")
		}
		shown := func(w *view.Watcher) {
			t.Helper()
			expect.OK(t, e.Shown(time.Time{}, w))
		}
		up := func() *view.Watcher { return &view.Watcher{Complete: true, Feed: &testworld.AFeed{}} }
		check("at first", true, false, "")
		shown(up())
		check("up", true, true, "")
		troubled := up()
		troubled.Troubled = true
		for what, w := range map[string]*view.Watcher{"not all keys": {Feed: &testworld.AFeed{}}, "no feed": {Complete: true}, "trouble": troubled} {
			shown(w)
			check(what, true, false, "")
			shown(up())
		}
		e.NoteTrouble(leader.ErrUnreachable)
		check("trouble", true, false, `,"error":"`+front.ErrorText(leader.ErrUnreachable)+`"`)
		e.NoteTrouble(nil) // the watcher reads the keys first
		check("no more trouble", true, false, "")
		e.NoteTrouble(leader.ErrUnreachable)
		shown(up())
		e.ticked()
		check("no connection", true, false, "")
		shown(up())
		time.Sleep(stuck - 1)
		check("for long", true, true, "")
		time.Sleep(time.Nanosecond)
		check("stuck", false, false, "")
		e.ticked()
		check("it works again", true, false, "")
	})
}
