//go:build field && unix

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The head of the page shows the servers of a cluster, and one that has died. Elections stand below their hosts, and one
// host is drained. Without a majority the page says of which server it is not up to date. It works on a phone, and in
// both schemes.
func TestUI_Cockpit(t *testing.T) {
	t.Parallel()
	c := startTrio(t, "")
	js := c.makes(leader.BucketConfig{Name: "elections", Roster: true, MaxLease: time.Hour})
	url := c.servers[0].url
	drained := campaigns(t, url, "elections", "billing", leader.Config{ID: "node-10_41_x9z", Queue: &leader.Queue{AtOnce: true}})
	next := stands(t, url, "billing", leader.Config{ID: "node-1_17_k2a", Queue: &leader.Queue{AtOnce: true}})
	inLine(t, url, "billing", "node-1_17_k2a")
	for i, name := range []string{"invoices", "mail.outgoing", "reports.daily", "thumbnails", "webhooks"} {
		testworld.Put(t, js, name, testworld.Record(t, js, "billing", fmt.Sprintf("node-%d_%d_a7c", 1+i%2, 100+i%2), time.Hour))
	}
	testworld.Put(t, js, "search.index", testworld.Record(t, js, "billing", "search-6c9d8f7b54-x2x9k.eu-west-1.compute.internal_101_a7c", 2*time.Second))
	testworld.Put(t, js, "lock", "hello")
	testworld.Put(t, js, "nightly", testworld.Record(t, js, "billing", "node-2_101_a7c", time.Hour))
	expect.OK(t, expect.Got(js.KeyValue(t.Context(), "elections"))(t).Delete(t.Context(), "nightly"))
	expect.OK(t, campaigns(t, url, "elections", "import", leader.Config{ID: "job-7"}).Stop())
	u := startUI(t, url, "--allow-actions")
	b := testworld.OpenBrowser(t, u.link, 1280, 720)
	advice := `[...document.querySelectorAll('#rows .wrong')].filter((r) => {
		const below = r.clientHeight - r.lastElementChild.offsetTop - r.lastElementChild.offsetHeight;
		return below < 0 || below > 28; // one line
	}).map((r) => r.innerText).join('; ')`
	shows := func(what string) {
		t.Helper()
		for _, size := range []struct{ width, height int64 }{{1280, 720}, {390, 780}} {
			b.Do(chromedp.EmulateViewport(size.width, size.height))
			for _, scheme := range []string{"light", "dark"} {
				b.Scheme(scheme)
				name := fmt.Sprint(what, "-", size.width, "-", scheme)
				b.Picture(strings.ReplaceAll(name, " ", "-"))
				b.Accessible(name)
			}
			b.Becomes(advice, "") // no advice is cut, or has blank lines below it: the rows follow the size a moment later
			expect.That(t, b.Value(fmt.Sprintf("document.documentElement.scrollWidth <= %d", size.width)) == "true", "%s is wider than the screen", what)
		}
		b.Do(chromedp.EmulateViewport(1280, 720))
	}
	counts := `['in-trouble', 'led', 'idle'].map((id) => document.querySelector('#' + id + ' b').textContent).join()`
	b.Becomes(counts, "3,6,1")
	b.Run(`new Promise((drawn) => {
		const main = document.querySelector('main');
		main.style.display = 'none'; // the table has no width
		requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => { main.style.display = ''; drawn(''); })));
	})`)
	servers := `[...document.querySelectorAll('#servers li')].map((e) => e.textContent).sort().join()`
	names := map[bool]string{true: " leads the stream"}
	all := make([]string, 3)
	for i, s := range c.servers {
		all[i] = s.name + names[c.leads(js) == s]
	}
	b.Becomes(servers, strings.Join(all, ","))
	well := `document.getElementById('doctor').checkVisibility() && document.getElementById('doctor').innerText.includes('nothing found')`
	b.Becomes(well, "true")
	b.Becomes(`document.querySelector('#in-trouble span').textContent.replace(/\d+s/, 'N')`, "for up to N")
	b.Becomes(`document.querySelector('#rows .leading ~ .lease .left').textContent.replace(/\d+s/, 'Ns')`, "59mNs")
	shows("trouble")
	b.Opens("lock", "Nobody leads: foreign")
	shows("one in trouble")
	b.Click("#detail-close")

	b.Value(`document.getElementById('by').value = 'host', document.getElementById('by').dispatchEvent(new Event('change'))`)
	sections := `[...document.querySelectorAll('#rows .section')].map((e) => e.querySelector('.toggle').textContent + e.querySelector('span').textContent).join()`
	const hosts = "nobodyleads 4 elections,node-1leads 3 elections,node-2leads 2 elections,node-10leads 1 election"
	b.Becomes(sections, hosts)
	shows("by host")
	b.Becomes(sections, hosts) // in the wide page again
	b.Value(`[...document.querySelectorAll('.toggle')].find((e) => e.textContent === 'node-2').click()`)
	b.Becomes(testworld.Listed, "8")
	b.Value(`[...document.querySelectorAll('.section')].find((e) => e.textContent.startsWith('node-10')).querySelector('.toggle + span + button').click()`)
	b.Becomes(`document.getElementById('confirm').open`, "true")
	shows("a question")
	b.Click("#confirm-cordon", "#confirm-yes")
	b.Becomes(`document.querySelector('#drained pre').textContent.split('\n').at(-1)`, "node-10 leads nothing in bucket elections any more, and is cordoned")
	b.Becomes(sections, "nobodyleads 4 elections,node-1leads 4 elections,node-2leads 2 elections")
	shows("drained")
	out := expect.Got(natsleader(t, "--server", url, "status").Output())(t)
	expect.That(t, strings.Contains(string(out), "Cordoned: node-10"), "cordoned are %s", out)
	b.Becomes(`document.getElementById('cordoned').textContent`, "cordoned:  node-10 uncordon")
	b.Click("#cordoned button", "#confirm-yes")
	b.Becomes(`document.querySelector('#drained pre').textContent`, "no longer cordoned: node-10")
	b.Becomes(`document.getElementById('cordoned').textContent`, "")
	expect.OK(t, natsleader(t, "--server", url, "drain", "node-2", "--keep").Run())
	b.Becomes(sections, "nobodyleads 4 elections,node-1leads 4 elections,node-2leads 2 elections, cordoned")
	expect.OK(t, natsleader(t, "--server", url, "undrain", "node-2").Run())
	b.Becomes(sections, "nobodyleads 4 elections,node-1leads 4 elections,node-2leads 2 elections")
	b.Click("#drained button")
	expect.OK(t, drained.Stop())
	expect.OK(t, next.Stop())

	victim := 1
	if c.leads(js) == c.servers[victim] {
		victim = 2
	}
	c.servers[victim].kill()
	b.Becomes(`/`+c.servers[victim].name+` (offline|silent for )/.test(document.getElementById('servers').textContent)`, "true")
	b.Becomes(well, "false")
	shows("server gone")
	c.servers[3-victim].kill()
	b.Becomes(`/^Not up to date since \d\d:\d\d:\d\d .server s1.: /.test(document.getElementById('trouble').textContent)`, "true")
	shows("quorum lost")
	since := `/since (\S+)/.exec(document.getElementById('trouble').textContent)[1]`
	was := b.Value(since)
	b.Becomes(well, "false")
	u.kill()
	b.Becomes(`document.getElementById('trouble').textContent.includes('lost contact') + ' ' + `+since, "true "+was)
	b.Do(chromedp.EmulateViewport(390, 780))
	b.Opens("lock", "Nobody leads: foreign")
	b.Becomes(`document.elementFromPoint(20, 20).closest('#stale, #detail').id`, "stale")
	b.Picture("one-without-ui-390-dark")
}
