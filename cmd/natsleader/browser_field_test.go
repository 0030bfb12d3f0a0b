//go:build field

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// browser is a tab of a headless Chromium.
type browser struct {
	testing.TB
	ctx context.Context
}

// openBrowser opens a page, in a tab of that size.
func openBrowser(tb testing.TB, address string, width, height int64) browser {
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
	b := browser{tb, ctx}.tab("about:blank")
	b.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(address))
	return b
}

// tab opens a page in another tab of the same browser.
func (b browser) tab(address string) browser {
	b.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.Cleanup(cancel)
	expect.OK(b, chromedp.Do(ctx)) // opens it, which takes a context without a limit
	other := browser{b.TB, ctx}
	other.do(chromedp.Navigate(address))
	return other
}

func (b browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	expect.OK(b, chromedp.Do(ctx, actions...))
}

// click clicks elements, one after the other.
func (b browser) click(selectors ...string) {
	b.Helper()
	for _, each := range selectors {
		b.do(chromedp.Click(chromedp.CSS(each)))
	}
}

// run returns the value of an expression in JavaScript, as a text. It waits for a promise.
func (b browser) run(expression string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return expect.Got(chromedp.Run(ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise)))(b)
}

// value is run for an expression of any type.
func (b browser) value(expression string) string {
	b.Helper()
	return b.run("String(" + expression + ")")
}

// becomes waits until an expression in JavaScript has a value.
func (b browser) becomes(expression, want string) {
	b.Helper()
	got := ""
	defer func() {
		if b.Failed() {
			b.Logf("%s is %q, not %q", expression, got, want)
		}
	}()
	eventually(b, expression, func() bool { got = b.value(expression); return got == want })
}

// picture writes what the page looks like to the directory in NATSLEADER_PICTURES.
func (b browser) picture(name string) {
	b.Helper()
	dir := os.Getenv("NATSLEADER_PICTURES")
	if dir == "" {
		return
	}
	png := expect.Got(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(b)
	expect.OK(b, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
}

// scheme lets the page be light or dark.
func (b browser) scheme(name string) {
	b.Helper()
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, params)
	expect.Must(b, err == nil, "%v", err)
}

// accessible fails the test for each violation that axe-core finds in the page as it is.
func (b browser) accessible(what string) {
	b.Helper()
	found, err := filepath.Glob("../../.tools/axe-*.js")
	if err != nil || len(found) == 0 {
		b.Log("without axe-core: scripts/browser gets it")
		return
	}
	source := expect.Got(os.ReadFile(found[0]))(b)
	b.do(chromedp.Evaluate[chromedp.Void](string(source)))
	text := b.run(`axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.help + " " + v.nodes.map((n) => n.html).join(" ")).join("\n") + "|" + r.passes.length)`)
	violations, passes, _ := strings.Cut(text, "|")
	expect.That(b, violations == "" && passes != "0", "%s (%s rules hold):\n%s", what, passes, violations)
}
