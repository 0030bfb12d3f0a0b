//go:build field

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/nats-io/nats-server/v2/server"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

const (
	leaderOf  = `(document.querySelector('#rows .leader') || {}).textContent`
	barOf     = `getComputedStyle(document.querySelector('#rows .bar')).transform`
	listed    = `document.querySelectorAll('#rows .row').length`
	troubleIs = `document.getElementById('trouble').hidden ? '' : document.getElementById('trouble').textContent`
)

// A browser shows a handover, a bar that moves, and one election with its roster; asks before
// an action; shows names and values as text; and connects again by itself.
func TestUI_InBrowser(t *testing.T) {
	t.Parallel()
	port, store := testserver.FreePort(t), testserver.StoreDir(t)
	start := func() *server.Server {
		return startServer(t, func(o *server.Options) { o.Port, o.StoreDir = port, store })
	}
	nats := start()
	url := nats.ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true, MaxLease: 15 * time.Second})
	const evil = `<img src=x onerror="document.title='run'">`
	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Roster: true, Value: []byte(evil)})
	stands(t, url, "billing", leader.Config{ID: evil, Roster: true})
	inLine(t, url, "billing", evil)
	u := startUI(t, url, "--allow-actions")
	b := openBrowser(t, u.link, 1200, 700)
	b.becomes(leaderOf, "a")
	b.becomes(`location.href`, u.address+"/")
	before := b.value(barOf)
	eventually(t, "the bar moves", func() bool { return b.value(barOf) != before })

	b.do(chromedp.Click(chromedp.CSS("#rows .row")))
	b.becomes(`document.getElementById('detail-state').textContent`, "a leads")
	b.becomes(`document.getElementById('roster').innerText`, evil)
	b.becomes(`document.getElementById('record').textContent.includes('"id":"a"')`, "true")
	b.becomes(`document.getElementById('detail-facts').innerText.includes('onerror')`, "true")
	for _, name := range []string{"light", "dark"} {
		b.scheme(name)
		b.picture("ui-" + name)
		b.accessible(name)
	}

	b.do(chromedp.Click(chromedp.CSS("#transfer")))
	b.becomes(`document.getElementById('confirm').open`, "true")
	b.picture("ui-confirm")
	b.accessible("a question")
	b.do(chromedp.Click(chromedp.CSS("#confirm-yes")))
	b.becomes(leaderOf, evil)
	b.becomes(`document.getElementById('outcome').textContent`, "a has handed over, and "+evil+" leads.")
	b.becomes(`document.querySelectorAll('#timeline .led').length`, "2")
	b.becomes(`document.querySelectorAll('#changes li').length > 0`, "true")
	expect.Equal(t, b.value(`document.images.length + document.title`), "0Elections in bucket elections",
		"a name or value was not shown as text: %s")
	expect.That(t, !a.IsLeader(), "a leads")

	b.do(chromedp.EmulateViewport(400, 700, chromedp.EmulateMobile))
	b.picture("ui-narrow-detail")
	b.accessible("one election, narrow")
	b.do(chromedp.Click(chromedp.CSS("#detail-close")))
	b.picture("ui-narrow")
	b.accessible("narrow")
	expect.That(t, b.value(`document.documentElement.scrollWidth <= 400`) == "true",
		"the page is wider than the screen")

	nats.Shutdown()
	nats.WaitForShutdown()
	b.becomes(troubleIs, "Not up to date: the connection was lost")
	b.picture("ui-lost")
	b.accessible("without NATS")
	start()
	b.becomes(troubleIs, "")
	u.cmd.Process.Kill() //nolint:errcheck // it runs
	b.becomes(troubleIs, "This page has lost contact with natsleader ui, and tries again.")
}

// Without --allow-actions there are no buttons, and the page works with the keyboard alone.
func TestUI_KeyboardReadOnly(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	for _, name := range []string{"x", "y", "z"} {
		campaigns(t, url, "elections", name, leader.Config{ID: "a"})
	}
	b := openBrowser(t, startUI(t, url).address, 1000, 600)
	b.becomes(listed, "3")
	b.do(chromedp.Focus(chromedp.CSS("#body")))
	for range 2 {
		b.do(chromedp.KeyEvent(kb.ArrowDown))
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.becomes(`document.getElementById('detail-name').textContent`, "y")
	expect.That(t, b.value(`document.getElementById('detail-actions').hidden`) == "true", "there are buttons")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.becomes(`document.getElementById('detail').hidden + document.activeElement.id`, "truebody")
	b.do(chromedp.KeyEvent("/"))
	b.becomes(`document.activeElement.id`, "filter")
	b.value(`document.activeElement.value = ''`) // the driver sends the character on its own
	b.do(chromedp.KeyEvent("z"))
	b.becomes(listed+` + (document.querySelector('#rows .election') || {}).textContent`, "1z")
}

// The program is started again, and the page connects to it again. It does not know the secret of the new
// process, and says so when something is asked for.
func TestUI_StartedAgain(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	u := startUI(t, url, "--allow-actions")
	b := openBrowser(t, u.link, 1200, 700)
	b.becomes(leaderOf, "a")
	u.cmd.Process.Kill() //nolint:errcheck // it runs
	b.becomes(troubleIs+` !== ''`, "true")
	_ = u.cmd.Wait() // it was killed
	campaigns(t, url, "elections", "a-first", leader.Config{ID: "b"})
	expect.OK(t, a.Stop(t.Context()))
	campaigns(t, url, "elections", "billing", leader.Config{ID: "c"})
	startUIAt(t, url, strings.TrimPrefix(u.address, "http://"), "--allow-actions")
	b.becomes(troubleIs, "")
	b.becomes(listed, "2")
	b.do(chromedp.Click(chromedp.CSS("#rows .row:nth-child(2)")))
	b.becomes(`document.getElementById('detail-state').textContent`, "c leads")
	last := func(of string) string { return `[...document.querySelectorAll('#timeline span')].at(-1).` + of }
	b.becomes(last("title")+`.startsWith('led by c')`, "true") // no message reported this change
	b.do(chromedp.Click(chromedp.CSS("#rows .row")))
	b.becomes(`document.getElementById('detail-state').textContent`, "b leads")
	b.do(chromedp.Click(chromedp.CSS("#step-down")))
	b.do(chromedp.Click(chromedp.CSS("#confirm-yes")))
	b.becomes(`document.getElementById('outcome').textContent`, "Not done: open the link that natsleader ui printed when it was started last")
}

// A page that was opened without the secret is read-only, and says how to get the link. One that has the secret
// keeps it when it is loaded again.
func TestUI_Secret(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	u := startUI(t, url, "--allow-actions")
	b := openBrowser(t, u.address, 1200, 700)
	b.becomes(leaderOf, "a")
	b.do(chromedp.Click(chromedp.CSS("#rows .row")))
	note := `document.getElementById('read-only').checkVisibility() ? document.getElementById('read-only').textContent : ''`
	b.becomes(note, "This page is read-only. To ask leaders to hand over, open the link that natsleader ui printed when it was started.")
	expect.That(t, b.value(`document.getElementById('detail-actions').checkVisibility()`) == "false",
		"there are buttons")
	b.picture("ui-read-only")
	b.accessible("read-only")
	b.value(`location.href = '` + u.link + `'`) // in the same page
	b.becomes(`location.href + (`+note+`)`, u.address+"/")
	b.do(chromedp.Reload())
	b.becomes(leaderOf, "a")
	b.do(chromedp.Click(chromedp.CSS("#rows .row")))
	b.do(chromedp.Click(chromedp.CSS("#step-down")))
	b.do(chromedp.Click(chromedp.CSS("#confirm-yes")))
	b.becomes(leaderOf, "nobody (was a)")
	expect.That(t, !a.IsLeader(), "a leads")
}

// A browser opens six connections to one host, and each page with an election in detail has two. A
// page that nobody sees has one, so that four pages work.
func TestUI_ManyPages(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Roster: true})
	stands(t, url, "billing", leader.Config{ID: "b", Roster: true})
	inLine(t, url, "billing", "b")
	u := startUI(t, url, "--allow-actions")
	first := openBrowser(t, u.link, 1200, 700)
	roster := `document.getElementById('roster').innerText`
	visible := func(b browser, so string) { // the driver's tabs are all visible
		b.value(`Object.defineProperty(document, 'hidden', { value: !` + so + `, configurable: true }) && document.dispatchEvent(new Event('visibilitychange'))`)
	}
	pages := []browser{first}
	for i := range 4 {
		b := pages[i]
		b.becomes(leaderOf, "a")
		b.do(chromedp.Click(chromedp.CSS("#rows .row")))
		b.becomes(roster, "b")
		visible(b, "false")
		if i < 3 {
			pages = append(pages, b.tab(u.address))
		}
	}
	b := first
	visible(b, "true")
	b.do(chromedp.Click(chromedp.CSS("#transfer")))
	b.do(chromedp.Click(chromedp.CSS("#confirm-yes")))
	b.becomes(`document.getElementById('outcome').textContent`, "a has handed over, and b leads.")
	for _, b := range pages {
		b.becomes(leaderOf, "b") // also in the pages that nobody sees
	}
}

// Ten thousand elections stay usable: only the rows that can be seen are in the document.
func TestUI_TenThousand(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	first := campaigns(t, url, "elections", "e00000", leader.Config{ID: "a"})
	_, js := connectTo(t, url)
	value := record(t, js, "e00000", "b", time.Hour)
	const many = 10_000
	for i := 1; i < many; i++ {
		_, err := js.PublishAsync(fmt.Sprintf("$KV.elections.e%05d", i), []byte(value))
		expect.Must(t, err == nil, "%v", err)
		if i%1000 == 0 || i == many-1 {
			<-js.PublishAsyncComplete()
		}
	}
	b := openBrowser(t, startUI(t, url).address, 1200, 700)
	b.becomes(`document.getElementById('table').getAttribute('aria-rowcount')`, fmt.Sprint(many+1))
	loaded := b.value(`Math.round(performance.now())`)
	if n := b.value(listed + " < 60"); n != "true" {
		t.Errorf("%s rows are in the document", b.value(listed))
	}
	b.value(`document.getElementById('body').scrollTop = 1e9`)
	b.becomes(`[...document.querySelectorAll('#rows .row')].at(-1).querySelector('.election').textContent`, fmt.Sprintf("e%05d", many-1))
	b.picture("ui-ten-thousand")
	b.do(chromedp.SendKeys(chromedp.CSS("#filter"), "e00000"))
	b.becomes(listed+" + "+leaderOf, "1a")
	expect.OK(t, first.Stop(t.Context()))
	b.becomes(leaderOf, "nobody (was a)")
	if _, err := chromedp.Call(b.ctx, performance.Enable, performance.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	all, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	expect.OK(t, err)
	var heap string
	for _, m := range all.Metrics {
		if m.Name == "JSHeapUsedSize" || m.Name == "Nodes" {
			heap += fmt.Sprintf(" %s %.0f", m.Name, m.Value)
		}
	}
	t.Logf("%s ms after the page was opened all are there;%s", loaded, heap)
	expect.That(t, strings.Contains(heap, "JSHeapUsedSize"), "no figures")
}

// The pictures of docs/cli.md, which `make pictures` writes.
func TestUI_Pictures(t *testing.T) {
	if os.Getenv("NATSLEADER_PICTURES") == "" {
		proof.Skip(t, "make pictures runs it")
	}
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	stop := func(c *leader.Candidate) {
		expect.OK(t, c.Stop(t.Context()))
	}
	for i, name := range []string{"billing", "invoices", "mail.outgoing", "reports.daily", "shards.1", "shards.2", "shards.3", "webhooks"} {
		id := fmt.Sprintf("worker-%c", 'a'+i%3)
		campaigns(t, url, "elections", name, leader.Config{ID: id, Roster: true, Value: fmt.Appendf(nil, "10.0.1.%d:8080", 1+i%3)})
	}
	stop(campaigns(t, url, "elections", "thumbnails", leader.Config{ID: "worker-b"}))
	_, js := connectTo(t, url)
	put(t, js, "search.index", record(t, js, "billing", "worker-c", 2*time.Second))
	campaigns(t, url, "elections", "z-import", leader.Config{ID: "worker-b", PendingPeriod: time.Second})
	u := startUI(t, url, "--allow-actions")
	b := openBrowser(t, u.link, 1280, 560)
	b.becomes(listed, "11")
	ids := []string{"worker-b", "worker-c"}
	for i, id := range ids {
		stands(t, url, "billing", leader.Config{ID: id, Roster: true, Value: fmt.Appendf(nil, "10.0.1.%d:8080", 2+i)})
		inLine(t, url, "billing", ids[:i+1]...)
	}
	_, err := leader.Transfer(t.Context(), openedBucket(t, url), "billing", "worker-b", "")
	expect.Must(t, err == nil, "%v", err)
	b.becomes(`[...document.querySelectorAll('#rows .row')].filter((r) => r.innerText.includes('expired')).length`, "1")
	b.value(`[...document.querySelectorAll('#rows .row')].find((r) => r.innerText.startsWith('billing')).click()`)
	b.becomes(`document.querySelectorAll('#timeline .led').length`, "2")
	b.becomes(`document.querySelectorAll('#roster li').length`, "2")
	b.becomes(`[...document.querySelectorAll('#rows .row')].filter((r) => !r.innerText.includes('leading') && r.querySelector('.track').checkVisibility({visibilityProperty: true})).length`, "0")
	for _, name := range []string{"light", "dark"} {
		b.scheme(name)
		b.picture("ui-" + name)
	}
}

func openedBucket(t *testing.T, url string) *leader.Bucket {
	t.Helper()
	_, js := connectTo(t, url)
	b, err := leader.OpenBucket(js, "elections")
	expect.OK(t, err)
	return b
}
