package page

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// changeOf returns a change to a holder.
func changeOf(election string, s facts.State, h leader.Holder) view.Change {
	return view.ElectionChange{At: time.Unix(1e9, 0), State: s, Now: facts.ElectionStatus{Election: election, Entry: backend.Entry{Revision: 1}, Holder: h}}
}

// The exporter shows no more elections than it is allowed to, counts the others, and shows
// no name or ID that a client made up to spoil the page. It shows the assigner of a group, and not its members.
func TestExporter_IsBounded(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		e := newElectionMetrics("elections", 2, front.NewLineLog(io.Discard, "", front.LogText))
		e.up = true
		registry := expect.Got(front.MetricsRegistry(e))(w)
		shows := func(what string, changes ...view.Change) {
			w.Notef("# %s\n", what)
			expect.OK(w, e.Changed(changes...))
			page := httptest.NewRecorder()
			e.serve(page, httptest.NewRequest(http.MethodGet, "/metrics", nil), registry)
			w.NoteMetrics(page.Body.String())
			p := expfmt.NewTextParser(model.UTF8Validation)
			expect.Got(p.TextToMetricFamilies(page.Body))(w)
		}
		h := leader.Holder{ID: "\xff\"\n" + strings.Repeat("x", 200), Token: 7}
		const b = "b.shard.assigner"
		shows("five keys, one of which is the name of no election, and one that of a member", changeOf("\xff", facts.Leading, h),
			changeOf("b.shard.member.a", facts.Leading, h), changeOf("a", facts.Leading, h), changeOf(b, facts.Leading, h), changeOf("c", facts.Leading, h))
		shows("b was deleted, and its marker has expired", changeOf(b, facts.Never, leader.Holder{}))
		shows("c is still there, and a has another leader", changeOf("c", facts.Leading, h),
			changeOf("a", facts.Leading, h), changeOf("a", facts.Leading, leader.Holder{ID: "b", Token: 8}))
		gone := view.ElectionChange{State: facts.Deleted, Now: facts.ElectionStatus{Election: "a", Gone: time.Unix(1e9, 0)}}
		shows("the marker of a has expired, and only that of b is left", gone, changeOf("\xff", facts.Never, leader.Holder{}),
			changeOf(b, facts.Deleted, leader.Holder{}))
		e.NoteTrouble(errors.New("gone"))
		shows("the bucket is gone")
	})
}
