//go:build field

package testworld

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/webpage"
)

// Browser is a tab of a headless Chromium.
type Browser struct {
	testing.TB
	Ctx context.Context
}

// OpenBrowser opens a page, in a tab of that size.
func OpenBrowser(tb testing.TB, address string, width, height int64) Browser {
	tb.Helper()
	path := ""
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		proof.Skip(tb, "no Chromium here: scripts/browser installs Debian's")
	}
	ctx, cancel := chromedp.NewExecAllocator(tb.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)...)
	tb.Cleanup(cancel)
	b := Browser{tb, ctx}.Tab("about:blank")
	b.Do(chromedp.EmulateViewport(width, height), chromedp.Navigate(address))
	return b
}

// Tab opens a page in another tab of the same browser.
func (b Browser) Tab(address string) Browser {
	b.Helper()
	ctx, cancel := chromedp.NewContext(b.Ctx)
	b.Cleanup(cancel)
	expect.OK(b, chromedp.Do(ctx)) // opens it, which takes a context without a limit
	other := Browser{b.TB, ctx}
	other.Do(chromedp.Navigate(address))
	return other
}

// Do runs actions, and fails the test if one fails.
func (b Browser) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, Patience)
	defer cancel()
	expect.OK(b, chromedp.Do(ctx, actions...))
}

// Click clicks elements, one after the other.
func (b Browser) Click(selectors ...string) {
	b.Helper()
	for _, each := range selectors {
		b.Do(chromedp.Click(chromedp.CSS(each)))
	}
}

// Run returns the value of an expression in JavaScript, as a text. It waits for a promise.
func (b Browser) Run(expression string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, Patience)
	defer cancel()
	return expect.Got(chromedp.Run(ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise)))(b)
}

// Value is run for an expression of any type.
func (b Browser) Value(expression string) string {
	b.Helper()
	return b.Run("String(" + expression + ")")
}

// Becomes waits until an expression in JavaScript has a value.
func (b Browser) Becomes(expression, want string) {
	b.Helper()
	got := ""
	defer func() {
		if b.Failed() {
			b.Logf("%s is %q, not %q", expression, got, want)
		}
	}()
	Eventually(b, expression, func() bool { got = b.Value(expression); return got == want })
}

// Picture writes what the page looks like to the directory in NATSLEADER_PICTURES.
func (b Browser) Picture(name string) {
	b.Helper()
	dir := os.Getenv("NATSLEADER_PICTURES")
	if dir == "" {
		return
	}
	png := expect.Got(chromedp.Run(b.Ctx, chromedp.CaptureScreenshot()))(b)
	expect.OK(b, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
}

// Scheme lets the page be light or dark.
func (b Browser) Scheme(name string) {
	b.Helper()
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}
	_, err := chromedp.Call(b.Ctx, emulation.SetEmulatedMedia, params)
	expect.Must(b, err == nil, "%v", err)
}

// Accessible fails the test for each violation that axe-core finds in the page as it is.
func (b Browser) Accessible(what string) {
	b.Helper()
	found, err := filepath.Glob("../../.tools/axe-*.js") // from the folder of the command
	if len(found) == 0 {
		found, err = filepath.Glob("../../../../.tools/axe-*.js") // from that of one of its packages
	}
	if err != nil || len(found) == 0 {
		b.Log("without axe-core: scripts/browser gets it")
		return
	}
	source := expect.Got(os.ReadFile(found[0]))(b)
	b.Do(chromedp.Evaluate[chromedp.Void](string(source)))
	text := b.Run(`axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.help + " " + v.nodes.map((n) => n.html).join(" ")).join("\n") + "|" + r.passes.length)`)
	violations, passes, _ := strings.Cut(text, "|")
	expect.That(b, violations == "" && passes != "0", "%s (%s rules hold):\n%s", what, passes, violations)
}

// Eventually waits until so reports true.
func Eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	for end := time.Now().Add(Patience); !so(); time.Sleep(10 * time.Millisecond) {
		expect.Must(tb, !time.Now().After(end), "not within %v: %s", Patience, what)
	}
}

// Expressions that read the page.
const (
	LeaderOf  = `(document.querySelector('#rows .leader') || {}).textContent`
	BarOf     = `getComputedStyle([...document.querySelectorAll('#rows .row')].find((r) => r.innerText.includes('leading')).querySelector('.bar')).transform`
	Listed    = `document.querySelectorAll('#rows .row').length`
	stateIs   = `document.getElementById('detail-state').textContent`
	RosterIs  = `document.getElementById('roster').innerText`
	OutcomeIs = `document.getElementById('outcome').textContent`
	StaleIs   = `document.getElementById('trouble').textContent.replace(/since .* .(last )?server .*.: /, 'since then: ')`
)

// Opens clicks on the row of an election.
func (b Browser) Opens(election, state string) {
	b.Helper()
	b.Value(`[...document.querySelectorAll('#rows .row')].find((r) => r.innerText.startsWith('` + election + `')).click()`)
	b.Becomes(stateIs, state)
}

// ServesPage serves a page of elections that the test shows, and returns its address.
func ServesPage(t *testing.T, state *webpage.State, o webpage.Options) (address string) {
	t.Helper()
	listener := expect.Got(net.Listen("tcp", "127.0.0.1:0"))(t)
	o.Address = listener.Addr()
	handler := expect.Got(webpage.New(t.Context(), state, o))(t)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}

// Press presses a button of a candidate.
func (b Browser) Press(id, button string) {
	b.Helper()
	b.Value(`[...document.querySelectorAll('.seat[aria-label="Candidate ` + id + `"] button')].find((x) => x.textContent === '` + button + `').click()`)
}
