//go:build field

package main

import (
	"context"
	"fmt"
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
	ctx, cancel = chromedp.NewContext(ctx)
	tb.Cleanup(cancel)
	b := browser{tb, ctx}
	if err := chromedp.Do(ctx); err != nil { // starts it, which takes a context without a limit
		tb.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(address))
	return b
}

// tab opens a page in another tab of the same browser.
func (b browser) tab(address string) browser {
	b.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.Cleanup(cancel)
	other := browser{b.TB, ctx}
	if err := chromedp.Do(ctx); err != nil { // opens it, which takes a context without a limit
		b.Fatal(err)
	}
	other.do(chromedp.Navigate(address))
	return other
}

func (b browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	expect.OK(b, chromedp.Do(ctx, actions...))
}

// value returns that of an expression in JavaScript, as a text.
func (b browser) value(expression string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf("String(%s)", expression)))
	expect.OK(b, err)
	return text
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
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	expect.OK(b, err)
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
	source, err := os.ReadFile(found[0])
	expect.OK(b, err)
	b.do(chromedp.Evaluate[chromedp.Void](string(source)))
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](
		`axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.help + " " + v.nodes.map((n) => n.html).join(" ")).join("\n") + "|" + r.passes.length)`, chromedp.EvalAwaitPromise))
	expect.OK(b, err)
	violations, passes, _ := strings.Cut(text, "|")
	expect.That(b, violations == "" && passes != "0", "%s (%s rules hold):\n%s", what, passes, violations)
}
