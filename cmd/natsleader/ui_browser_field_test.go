//go:build field

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// uiProcess is a natsleader serve. The link has the secret, if there is one.
type uiProcess struct {
	address, link string
	cmd           *exec.Cmd
}

func startUI(tb testing.TB, url string, args ...string) uiProcess {
	tb.Helper()
	if !slices.Contains(args, "--page") {
		args = append(args, "--page", "127.0.0.1:0")
	}
	last := "serves the page at http://"
	if slices.Contains(args, "--allow-actions") {
		last = " is the link"
	}
	cmd := natsleader(tb, append([]string{"--server", url, "serve"}, args...)...)
	out := started(tb, cmd)
	tb.Cleanup(func() { _ = cmd.Wait() }) // the test's context has killed it, unless it was stopped
	testworld.Eventually(tb, "it serves", func() bool { return strings.Contains(out.text(), last) })
	words := append(strings.Fields(out.text()), "", "", "", "") // TIME LEVEL natsleader: serves the page at ADDRESS TIME LEVEL natsleader: LINK
	return uiProcess{words[7], words[11], cmd}
}

// kill ends the process without a warning.
func (u uiProcess) kill() {
	_ = u.cmd.Process.Kill()
	_ = u.cmd.Wait() // it was killed
}

// A browser shows a bar that moves, and one election with its roster; asks before an action, and shows the handover;
// and shows names and values as text. A group is one row that opens to its members. It connects again by itself, also to a new process, whose secret it does not
// know. `make pictures` takes the pictures of docs/cli.md here.
func TestUI_InBrowser(t *testing.T) {
	t.Parallel()
	port, store := testserver.FreePort(t), testserver.StoreDir(t)
	start := func() *server.Server {
		return startServer(t, func(o *server.Options) { o.Port, o.StoreDir = port, store })
	}
	first := start()
	url := first.ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	u := startUI(t, url, "--allow-actions")
	b := testworld.OpenBrowser(t, u.link, 1280, 860)
	b.Becomes(`document.querySelector('#empty pre').checkVisibility() + document.querySelector('#empty pre').textContent`,
		"truenatsleader run --bucket elections billing -- COMMAND")
	b.Accessible("an empty bucket")
	worker := func(i int) leader.Config {
		return leader.Config{ID: fmt.Sprintf("worker-%c", 'a'+i%3), Queue: &leader.Queue{AtOnce: true}, Value: fmt.Appendf(nil, "10.0.1.%d:8080", 1+i%3)}
	}
	for i, name := range []string{"billing", "invoices", "mail.outgoing", "reports.daily", "shards.1", "shards.2", "shards.3", "webhooks"} {
		campaigns(t, url, "elections", name, worker(i))
	}
	expect.OK(t, campaigns(t, url, "elections", "thumbnails", leader.Config{ID: "worker-b"}).Stop())
	_, js := connectTo(t, url)
	testworld.Put(t, js, "search.index", testworld.Record(t, js, "billing", "worker-c", 2*time.Second))
	campaigns(t, url, "elections", "z-import", leader.Config{ID: "worker-b", PendingPeriod: time.Second})
	second := stands(t, url, "billing", worker(1))
	inLine(t, url, "billing", "worker-b")
	third := stands(t, url, "billing", worker(2))
	inLine(t, url, "billing", "worker-b", "worker-c")
	b.Becomes(testworld.Listed, "11")
	b.Do(chromedp.Reload())
	b.Becomes(testworld.Listed, "11")
	before := b.Value(testworld.BarOf)
	testworld.Eventually(t, "the bar moves", func() bool { return b.Value(testworld.BarOf) != before })
	rows := func(such string) string {
		return `[...document.querySelectorAll('#rows .row')].filter((r) => ` + such + `).length`
	}
	b.Becomes(rows(`r.innerText.includes('expired')`), "1")
	b.Becomes(rows(`!r.innerText.includes('leading') && r.querySelector('.track').checkVisibility({visibilityProperty: true})`), "0")

	b.Becomes(`['in-trouble', 'led', 'idle'].map((id) => document.querySelector('#' + id + ' b').textContent).join()`, "1,9,1")
	b.Becomes(`document.querySelector('#in-trouble span').textContent.startsWith('for ') + document.title`, "true(1) Elections in bucket elections")
	b.Accessible("elections")
	for _, tile := range []struct{ id, rows string }{{"#in-trouble", "search.index"}, {"#idle", "thumbnails"}} {
		b.Click(tile.id)
		b.Becomes(`[...document.querySelectorAll('#rows .election')].map((e) => e.textContent).join()`, tile.rows)
	}
	b.Click("#idle")
	b.Becomes(testworld.Listed, "11")
	filter := func(text string) string {
		return `document.getElementById('filter').value = '` + text + `', document.getElementById('filter').dispatchEvent(new Event('input'))`
	}
	b.Value(filter("nosuch"))
	b.Becomes(`document.getElementById('none').textContent + (document.getElementById('none').offsetTop < 100)`, "No election passes the filter.true")
	b.Value(filter(""))
	b.Becomes(testworld.Listed, "11")
	why := "worker-c has not renewed its lease: it has died, hangs, or cannot write to the bucket. → start its candidates; if they run, see their logs, and whether the servers have room: one whose disk was full refuses writes until it is restarted. Runbook"
	b.Becomes(`document.querySelector('#rows .wrong .value').textContent`, why)
	b.Becomes(`document.querySelector('#doctor summary').textContent + document.querySelectorAll('#servers li').length`, "doctor: 1 warning1")
	b.Click("#doctor summary")
	b.Becomes(`document.getElementById('findings').innerText.startsWith('warning one replica, on the only server')`, "true")
	b.Accessible("what doctor has found")
	b.Do(chromedp.KeyEvent(kb.Escape))
	b.Becomes(`document.getElementById('doctor').open`, "false")

	b.Opens("search.index", "Nobody leads: expired")
	b.Becomes(`document.getElementById('detail-advice').textContent`, why)
	b.Becomes(`[...document.querySelectorAll('#detail-actions button')].every((x) => x.disabled)`, "true")
	b.Opens("billing", "worker-a leads")
	b.Becomes(`document.getElementById('record').textContent.includes('\n  "id": "worker-a",\n')`, "true")
	b.Click("#transfer")
	b.Becomes(`document.getElementById('confirm').open`, "true")
	b.Accessible("a question")
	b.Click("#confirm-yes")
	b.Becomes(testworld.OutcomeIs, "worker-a has handed over, and worker-b leads.")
	b.Opens("webhooks", "worker-b leads")
	b.Opens("billing", "worker-b leads")
	b.Click("#detail-name") // the mouse is over no row in the pictures
	b.Becomes(`document.querySelectorAll('#past rect.leads title').length`, "2")
	b.Becomes(`document.querySelectorAll('#changes li').length > 0`, "true")
	b.Becomes(`document.querySelectorAll('#roster li').length`, "2")
	for _, name := range []string{"light", "dark"} {
		b.Scheme(name)
		b.Picture("ui-" + name)
		b.Accessible(name)
	}

	const evil = `<img src=x onerror="document.title='run'">`
	campaigns(t, url, "elections", "evil", leader.Config{ID: evil, Queue: &leader.Queue{AtOnce: true}, Value: []byte(evil)})
	stands(t, url, "evil", leader.Config{ID: evil, Queue: &leader.Queue{AtOnce: true}})
	b.Becomes(testworld.Listed, "12")
	b.Opens("evil", evil+" leads")
	b.Becomes(testworld.RosterIs, evil)
	b.Becomes(`document.getElementById('detail-facts').innerText.includes('onerror')`, "true")
	expect.Equal(t, b.Value(`document.images.length + document.title`), "0(1) Elections in bucket elections",
		"a name or value was not shown as text: %s")

	grouped := expect.Got(leader.OpenBucket(js, "elections"))(t)
	summary := `document.getElementById('summary').textContent`
	testworld.Works(t, grouped, "tenants", shard.Config{ID: "worker-a", Shards: 8, Value: []byte(evil)})
	b.Becomes(summary, "12 elections, 1 group, 1 in trouble, 11 led, 1 idle")
	b.Becomes(testworld.Listed, "13")
	b.Becomes(rows(`r.innerText.startsWith('tenants\ngroup\nworker-a')`), "1")
	b.Opens("tenants", "8 shards, 1 member")
	shown := `[...document.querySelectorAll('#shards li')].map((li) => [...li.querySelectorAll('b, .more')].map((x) => x.textContent).join(' ')).join()`
	b.Becomes(shown, "worker-a 8 shards; 0-7; "+evil[:39]+"…")
	testworld.Works(t, grouped, "tenants", shard.Config{ID: "worker-b", Shards: 8})
	b.Becomes(shown, "worker-a 4 shards; 4-7; "+evil[:39]+"…"+",worker-b 4 shards; 0-3")
	b.Becomes(`[...document.querySelectorAll('#changes li')].slice(0, 2).map((x) => x.textContent.slice(8)).join()`, "worker-a → worker-b: 4 shards, 0-3,worker-b has joined")
	b.Accessible("a group")
	b.Click("#shards li:last-child button", "#confirm-yes")
	b.Becomes(testworld.OutcomeIs, "worker-b is asked: each of its shards moves as soon as the work on it has ended")
	b.Becomes(shown, "worker-a 8 shards; 0-7; "+evil[:39]+"…"+",worker-b drained 0 shards")
	b.Click("#shards li:last-child button", "#confirm-yes")
	b.Becomes(testworld.OutcomeIs, "worker-b may take shards")
	b.Becomes(`[document.querySelectorAll('#shards .drained').length, (`+shown+`).split(' 4 shards').length].join()`, "0,3")
	hasAddresses(b)
	b.Opens("evil", evil+" leads")

	b.Do(chromedp.EmulateViewport(400, 700, chromedp.EmulateMobile))
	b.Accessible("one election, narrow")
	b.Click("#detail-close")
	b.Accessible("narrow")
	b.Click("#doctor summary")
	b.Becomes(`((r) => r.left >= 0 && r.right <= innerWidth)(document.getElementById('findings').getBoundingClientRect())`, "true")
	b.Click("#doctor summary")
	expect.That(t, b.Value(`document.documentElement.scrollWidth <= 400`) == "true",
		"the page is wider than the screen")
	b.Do(chromedp.EmulateViewport(1280, 860))

	first.Shutdown()
	first.WaitForShutdown()
	b.Becomes(testworld.StaleIs, "Not up to date since then: the connection was lost")
	b.Accessible("without NATS")
	start()
	b.Becomes(testworld.StaleIs, "")
	u.kill()
	b.Becomes(testworld.StaleIs, "Not up to date since then: this page has lost contact with natsleader serve, and tries again")
	campaigns(t, url, "elections", "late", leader.Config{ID: "b"})
	expect.OK(t, errors.Join(third.Stop(), second.Stop()))
	startUI(t, url, "--allow-actions", "--page", strings.TrimPrefix(u.address, "http://"))
	b.Becomes(testworld.StaleIs, "")
	b.Becomes(testworld.Listed, "14")
	b.Opens("billing", "worker-a leads")
	b.Becomes(`[...document.querySelectorAll('#changes li')].slice(0, 2).map((x) => x.textContent.slice(8).replace(/until .*:/, 'until'))`, "worker-a leads,not known until the page had lost contact")
	b.Opens("late", "b leads")
	b.Click("#step-down", "#confirm-yes")
	b.Becomes(testworld.OutcomeIs, "Not done: open the link that natsleader serve printed when it was started last")
}

// hasAddresses fails the test unless a reload and the Back key keep what a page shows. The group tenants is open. A fragment that
// no view has shows the start view, and nothing of a fragment becomes part of the page but as text.
func hasAddresses(b testworld.Browser) {
	b.Helper()
	shows := func(what, want string) {
		b.Helper()
		b.Becomes(`[location.hash, document.getElementById('detail').hidden ? '' : document.getElementById('detail-name').textContent,
			...[...document.querySelectorAll('[aria-pressed="true"]')].filter((x) => x.checkVisibility()).map((x) => x.id || x.textContent),
			document.getElementById('by').value, document.getElementById('filter').value].join(' ').replace(/ +/g, ' ').trim()`, want)
		if b.Failed() {
			b.Logf("after %s", what)
		}
	}
	shows("the click", "#group=tenants Group tenants")
	b.Do(chromedp.Reload())
	shows("a reload", "#group=tenants Group tenants")
	b.Value(`document.getElementById('by').value = 'host', document.getElementById('by').dispatchEvent(new Event('change'))`)
	shows("by host", "#group=tenants&by=host Group tenants host")
	b.Becomes(`[...document.querySelectorAll('#rows .section')].filter((x) => x.innerText.includes('shards')).map((x) => x.innerText.replaceAll('\n', ' ').replace('Drain…', '').trim()).join()`,
		"worker-a leads 2 elections, assigns tenants, owns 4 of 8 shards of tenants,worker-b leads 5 elections, owns 4 of 8 shards of tenants")
	b.Opens("reports.daily", "worker-a leads")
	shows("another row", "#election=reports.daily&by=host reports.daily host")
	b.Click("#led")
	shows("a tile", "#election=reports.daily&by=host&show=led reports.daily led host")
	b.Click("#detail-close")
	shows("Close", "#by=host&show=led led host")
	for _, want := range []string{
		"#election=reports.daily&by=host&show=led reports.daily led host", "#election=reports.daily&by=host reports.daily host", "#group=tenants&by=host Group tenants host", "#group=tenants Group tenants",
	} {
		b.Value(`history.back()`)
		shows("Back", want)
	}
	for _, damaged := range []string{"by=nosuch", "election=nosuch", "group=billing", "nosuch=1&by=host", "by=host&constructor=x", "%ff=%ff", "filter=%ff", "election=%3Cimg src=x onerror=alert(1)%3E"} {
		b.Value(`location.hash = 'election=billing'`)
		shows("a link", "#election=billing billing")
		b.Value(`location.hash = '` + damaged + `'`)
		shows(damaged, "")
	}
	b.Value(`location.hash = 'filter=%3Cimg src=x onerror=alert(1)%3E'`)
	shows("a link", "#filter=%3Cimg+src%3Dx+onerror%3Dalert%281%29%3E <img src=x onerror=alert(1)>")
	expect.Equal(b, b.Value(`document.images.length`), "0", "%s pictures")
	b.Value(`location.hash = ''`)
	shows("an empty one", "")
	b.Becomes(testworld.Listed, "13") // all rows are there again
}

// A page that was opened without the secret is read-only, and says how to get the link. One that has the secret
// keeps it when it is loaded again. A browser opens six connections to one host, and each page with an election in
// detail has two. A page that is hidden has one, so that four pages work.
func TestUI_FourPages(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}})
	stands(t, url, "billing", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}})
	inLine(t, url, "billing", "b")
	u := startUI(t, url, "--allow-actions")
	first := testworld.OpenBrowser(t, u.address, 1200, 700)
	opens := func(b testworld.Browser) {
		b.Becomes(testworld.LeaderOf, "a")
		b.Click("#rows .row")
		b.Becomes(testworld.RosterIs, "b")
	}
	opens(first)
	note := `document.getElementById('read-only').checkVisibility() ? document.getElementById('read-only').textContent : ''`
	first.Becomes(note, "This page is read-only. To ask leaders to hand over, open the link that natsleader serve printed when it was started.")
	expect.That(t, first.Value(`document.getElementById('detail-actions').checkVisibility()`) == "false",
		"there are buttons")
	first.Accessible("read-only")
	first.Value(`location.href = '` + u.link + `'`) // in the same page
	first.Becomes(`location.href + (`+note+`)`, u.address+"/")
	first.Do(chromedp.Reload())
	visible := func(b testworld.Browser, so string) { // the driver's tabs are all visible
		b.Value(`Object.defineProperty(document, 'hidden', { value: !` + so + `, configurable: true }) && document.dispatchEvent(new Event('visibilitychange'))`)
	}
	pages := []testworld.Browser{first, {}, {}, {}}
	for i := range pages {
		if i > 0 {
			pages[i] = first.Tab(u.address)
		}
		opens(pages[i])
		visible(pages[i], "false")
	}
	visible(first, "true")
	first.Click("#transfer", "#confirm-yes")
	first.Becomes(testworld.OutcomeIs, "a has handed over, and b leads.")
	for _, b := range pages {
		b.Becomes(testworld.LeaderOf, "b") // also in the pages that are hidden
	}
}

// Ten thousand elections stay usable, with the keyboard alone: only the rows that can be seen are in the document.
// Without --allow-actions there are no buttons.
func TestUI_TenThousand(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	first := campaigns(t, url, "elections", "e00000", leader.Config{ID: "a"})
	const many = 10_000
	putMany(t, url, many)
	b := testworld.OpenBrowser(t, startUI(t, url).address, 1200, 700)
	b.Becomes(`document.getElementById('table').getAttribute('aria-rowcount')`, fmt.Sprint(many+1))
	loaded := b.Value(`Math.round(performance.now())`)
	if n := b.Value(testworld.Listed + " < 60"); n != "true" {
		t.Errorf("%s rows are in the document", b.Value(testworld.Listed))
	}
	b.Value(`document.getElementById('body').scrollTop = 1e9`)
	b.Becomes(`[...document.querySelectorAll('#rows .row')].at(-1).querySelector('.election').textContent`, fmt.Sprintf("e%05d", many-1))
	b.Value(`document.getElementById('body').scrollTop = 0`)
	for _, key := range []string{"?", kb.Escape, kb.ArrowDown, "j", "j", "k", kb.Enter} {
		b.Do(chromedp.KeyEvent(key))
		b.Becomes(`document.getElementById('help').open`, fmt.Sprint(key == "?"))
	}
	b.Becomes(`document.getElementById('detail-name').textContent`, "e00001")
	expect.That(t, b.Value(`document.getElementById('detail-actions').hidden`) == "true", "there are buttons")
	b.Do(chromedp.KeyEvent(kb.Escape))
	b.Becomes(`document.getElementById('detail').hidden + document.activeElement.id`, "truebody")
	b.Do(chromedp.KeyEvent("/"))
	b.Becomes(`document.activeElement.id`, "filter")
	b.Value(`document.activeElement.value = ''`) // the driver sends the character on its own
	b.Do(chromedp.SendKeys(chromedp.CSS("#filter"), "e00000"))
	b.Becomes(testworld.Listed+" + "+testworld.LeaderOf, "1a")
	b.Do(chromedp.KeyEvent(kb.Enter))
	b.Becomes(`document.activeElement.id`, "body")
	b.Do(chromedp.KeyEvent("j"))
	b.Becomes(`getComputedStyle(document.querySelector('#rows .selected')).boxShadow.includes('inset')`, "true")
	expect.OK(t, first.Stop())
	b.Becomes(testworld.LeaderOf, "nobody (was a)")
	b.Do(chromedp.KeyEvent("/"), chromedp.KeyEvent(kb.Escape))
	b.Becomes(`document.activeElement.id + document.getElementById('filter').value + (`+testworld.Listed+` > 9)`, "bodytrue")
	expect.Got(chromedp.Call(b.Ctx, performance.Enable, performance.EnableParams{}))(t)
	var heap string
	for _, m := range expect.Got(chromedp.Call(b.Ctx, performance.GetMetrics, cdp.Empty{}))(t).Metrics {
		if m.Name == "JSHeapUsedSize" || m.Name == "Nodes" {
			heap += fmt.Sprintf(" %s %.0f", m.Name, m.Value)
		}
	}
	t.Logf("%s ms after the page was opened all are there;%s", loaded, heap)
	expect.That(t, strings.Contains(heap, "JSHeapUsedSize"), "no figures")
}

// putMany gives the elections e00001 and so on a leader, with the value of that of e00000.
func putMany(tb testing.TB, url string, many int) {
	tb.Helper()
	_, js := connectTo(tb, url)
	value := []byte(testworld.Record(tb, js, "e00000", "b", time.Hour))
	storeMany(tb, js, many, func(i int) *nats.Msg {
		return &nats.Msg{Subject: fmt.Sprintf("$KV.elections.e%05d", i), Data: value}
	})
}

// storeMany stores a message for each number from 1 to many-1.
func storeMany(tb testing.TB, js jetstream.JetStream, many int, message func(i int) *nats.Msg) {
	tb.Helper()
	for i := 1; i < many; i++ {
		_, err := js.PublishMsgAsync(message(i))
		expect.OK(tb, err)
		if i%1000 == 0 || i == many-1 {
			<-js.PublishAsyncComplete()
		}
	}
}
