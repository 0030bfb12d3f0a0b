//go:build field

package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// A page whose program is started anew lists what has changed meanwhile, also if the browser connects again before the program
// has read the bucket, and has no row of an election that is gone.
func TestUI_ServedAnewInBrowser(t *testing.T) {
	t.Parallel()
	var handler atomic.Pointer[webpage.Page]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.Load().ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	begins := func() *webpage.State {
		state := webpage.NewState()
		handler.Store(expect.Got(webpage.New(t.Context(), state, webpage.Options{
			Bucket: "elections", Program: "natsleader serve", Address: server.Listener.Addr(),
			Roster: func(context.Context, string) (<-chan []roster.Entry, error) { return nil, leader.ErrNoRoster },
		}))(t))
		return state
	}
	leads := func(key, id string) webpage.Row {
		return webpage.Row{Key: key, State: "leading", Trouble: 5, ID: id, Token: 7, Since: time.Now().UnixMilli()}
	}
	first := begins()
	first.Show(leads("billing", "a"), nil)
	first.Show(leads("mail", "a"), nil)
	first.Complete(time.Now)
	b := testworld.OpenBrowser(t, server.URL, 1280, 720)
	b.Becomes(testworld.Listed, "2")
	b.Opens("billing", "a leads")
	second := begins()
	second.Head(webpage.Head{Facts: []webpage.Fact{{Name: "server", Text: "second"}}})
	server.CloseClientConnections()
	b.Becomes(`document.getElementById('connection').textContent`, "server second")
	second.Show(leads("billing", "b"), nil, webpage.Change{Key: "billing", At: time.Now().UnixMilli(), State: "leading", ID: "b", Token: 8, First: true})
	second.Complete(time.Now)
	b.Becomes(testworld.Listed, "1")
	b.Becomes(`[...document.querySelectorAll('#changes li')].map((x) => x.textContent.slice(8).replace(/until .*:/, 'until')).join()`, "b leads,not known until the page had lost contact")
}
