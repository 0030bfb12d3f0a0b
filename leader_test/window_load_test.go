package leader_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// trickle delivers only n replies to the client in each hundredth of a second, in their order, until
// the given time. A server without enough processor time does the same. Then all held replies arrive.
func (cl *client) trickle(n int, until time.Duration) {
	cl.treat(hold, func(f frame) bool { return f.dir == down && strings.HasPrefix(f.subject, "_INBOX.") })
	for cl.w.now() < until {
		cl.w.at(cl.w.now() + 10*time.Millisecond)
		cl.release(n)
	}
	cl.open()
}

// On one connection 300 leaders renew in each second, and the server answers 200 requests in a second.
// No leader is lost, because a request waits in the window of its stream and is sent only when the
// server is about to answer it. Without the window, or with many slots, each reply is older than the
// deadline of its renewal, and all leaders are lost within one lease.
func TestWindow_KeepsLeadersUnderLoad(t *testing.T) {
	const elections = 300
	inSealed(t, func(w *world) {
		cl := w.dial("many")
		bucket := cl.bucket(w.T)
		var cs candidates
		for i := range elections {
			cs = append(cs, check.Got(leader.Campaign(w.Context(), bucket, fmt.Sprint("e", i), leader.Config{ID: "a", LeaseDuration: lease}))(w))
		}
		w.at(2 * lease)
		n := cs.leading()
		check.Must(w, n == elections, "%d lead before the load", n)
		cl.trickle(2, 5*lease)
		fenced, _, _ := cs.stats()
		check.That(w, cs.leading() == elections && fenced == 0, "%d lead under load, and %d were fenced", cs.leading(), fenced)
		for _, c := range cs {
			w.ok(c.Stop())
		}
	})
}
