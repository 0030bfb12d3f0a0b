//go:build field

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// examples is the module of the playground, which tests here because the browser is here.
const examples = "../../examples"

// startPlayground starts examples/playground, and returns the address of its page.
func startPlayground(t *testing.T) (address string) {
	t.Helper()
	proof.Outside()
	path := filepath.Join(t.TempDir(), "play")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./playground")
	build.Dir = examples
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(path, "-quiet", "-http", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out := started(t, cmd)
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		err := cmd.Wait()
		<-out.ended
		if err != nil || !strings.Contains(out.text(), " 0 promises broken") {
			t.Errorf("%v\n%s", err, out.text())
		}
	})
	testworld.Eventually(t, "it serves", func() bool { return strings.Contains(out.text(), "is at http://") })
	_, rest, _ := strings.Cut(out.text(), "is at ")
	address, _, _ = strings.Cut(rest, ";")
	return address
}

const (
	leadingSeat = `((document.querySelector('.seat.leader .name') || {}).textContent || '')`
	storyIs     = `(document.querySelector('.newest span') || {}).textContent`
	checksAre   = `(document.querySelector('.checks') || {}).textContent`
)

// The page shows who leads, and what becomes of candidates that are frozen, thawed, killed and started. It finds no
// broken promise. It works in both schemes, and on a phone. `make pictures` takes the pictures of README.md and
// docs/playground.md here.
func TestPlayground_InBrowser(t *testing.T) {
	t.Parallel()
	b := testworld.OpenBrowser(t, startPlayground(t), 1280, 780)
	b.Becomes(leadingSeat+` !== '' && `+leadingSeat+` === `+testworld.LeaderOf, "true")
	b.Becomes(`document.querySelectorAll('.seat').length`, "5")
	b.Becomes(`document.querySelectorAll('.seat.candidate').length`, "4")
	bar := `((x) => x ? getComputedStyle(x).transform : '')(document.querySelector('.seat.leader .bar'))`
	before := b.Value(bar)
	testworld.Eventually(t, "the bar moves", func() bool { return b.Value(bar) != before })
	loses := func(button string) (id string) {
		b.Becomes(leadingSeat+` !== ''`, "true")
		id = b.Value(leadingSeat)
		b.Press(id, button)
		b.Becomes(leadingSeat+` !== '' && `+leadingSeat+` !== '`+id+`'`, "true")
		return id
	}
	loses("Resign")
	loses("Resign")
	zombie := loses("Freeze")
	its := `document.querySelector('.seat[aria-label="Candidate ` + zombie + `"] .is').textContent`
	b.Becomes(its, "is frozen")
	b.Value(`document.getElementById('detail-close').click()`)
	b.Becomes(`document.getElementById('summary').textContent`, "1 election, 0 in trouble, 1 led, 0 idle")
	for _, name := range []string{"light", "dark"} {
		b.Scheme(name)
		b.Picture("playground-" + name)
		b.Accessible(name)
	}
	b.Press(zombie, "Thaw")
	b.Becomes(its, "waits")
	got := b.Value(`document.querySelector('.newest a').href`)
	expect.That(t, strings.HasPrefix(got, "https://github.com/natsleader/natsleader/blob/main/docs/protocol.md#"),
		"the story leads to %s", got)
	was := loses("Kill")
	b.Becomes(`(document.querySelector('.seat.killed .name') || {}).textContent`, was)
	b.Press(was, "Start")
	b.Becomes(`document.querySelectorAll('.seat.killed').length`, "0")

	b.Do(chromedp.EmulateViewport(1280, 900))
	takesTour(b)
	b.Do(chromedp.EmulateViewport(390, 800, chromedp.EmulateMobile))
	b.Do(chromedp.Reload())
	b.Becomes(`document.querySelectorAll('.seat').length`, "5")
	b.Becomes(`document.getElementById('detail').hidden`, "true")
	b.Becomes(`document.querySelectorAll('#panel .past-picture .lane').length`, "5")
	b.Picture("playground-narrow")
	b.Accessible("narrow")
	expect.That(t, b.Value(`document.documentElement.scrollWidth <= 390`) == "true",
		"the page is wider than the screen")
	b.Becomes(checksAre+`.endsWith(' checks of the promises so far, none broken.')`, "true")
}

// takesTour causes each fault of the guided tour. In the picture the lane of a leader that was frozen ends before that of the
// next one begins.
func takesTour(b testworld.Browser) {
	b.Helper()
	const button = `document.querySelector('.tour button').textContent`
	was := ""
	b.Becomes(button, "Guided tour of 6 faults")
	for i, name := range []string{"Kill the leader", "Freeze the leader", "Cut the leader off", "Stop the server", "Delete the key", "Let it resign"} {
		b.Click(".tour button")
		b.Becomes(button, name)
		b.Becomes(`document.querySelector('.tour button').disabled`, "false")
		was = b.Value(leadingSeat)
		b.Click(".tour button")
		want := "Next"
		if i == 5 {
			want = "End"
		}
		b.Becomes(button, want)
		b.Picture(fmt.Sprintf("tour-%d", i+1))
		if name == "Freeze the leader" {
			edge := func(id, kind, side string) string {
				return `[...document.querySelectorAll('#panel rect.` + kind + ` title')].filter((x) => x.textContent.startsWith('` + id + ` ')).at(-1).parentElement.getBoundingClientRect().` + side
			}
			b.Becomes(edge(was, "lapses", "right")+" < "+edge(b.Value(leadingSeat), "leads", "left"), "true")
			b.Becomes(`document.querySelectorAll('#panel rect.frozen title').length`, "1")
		}
	}
	b.Click(".tour button")
	b.Becomes(button, "Again")
	b.Accessible("the tour")
}

// What the playground shows when it cannot do something, and when a promise is broken. Nothing breaks
// one, so the server is one of the test.
func TestPlayground_Banner(t *testing.T) {
	t.Parallel()
	type object map[string]any
	shown := func(stories []object, broken ...string) object {
		return object{
			"now": 1_800_000_000_000, "lease": 3000, "least": 1000, "most": 10000, "up": true, "freezes": false, "stories": stories, "checks": 1234, "broken": append([]string{}, broken...),
			"seats": []object{{"id": "a", "past": []object{}, "state": "leader", "link": "works", "at": 1_800_000_000_000, "left": 2000, "token": "18446744073709551615"}},
		}
	}
	const evil = `<img src=x onerror="document.title='run'">`
	messages := make(chan object, 1)
	messages <- shown([]object{{"n": 1, "at": 1_800_000_000_000, "text": evil, "link": "https://example.invalid/"}})
	var asked atomic.Value
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	handler, err := webpage.New(t.Context(), webpage.NewState(), webpage.Options{
		Title: "Playground", Bucket: "test", Address: listener.Addr(), Panel: os.DirFS(examples + "/playground/page"),
		Roster: func(context.Context, string) (<-chan []roster.Entry, error) { return nil, leader.ErrNoRoster },
		Actions: map[string]webpage.Action{"do": func(_ context.Context, request json.RawMessage) (any, error) {
			asked.Store(string(request))
			return nil, &webpage.Error{Status: http.StatusBadRequest, Text: "not today"}
		}},
		Feed: func(ctx context.Context) func() (any, bool) {
			return func() (any, bool) {
				select {
				case m := <-messages:
					return m, true
				case <-ctx.Done():
					return nil, false
				}
			}
		},
	})
	expect.OK(t, err)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	b := testworld.OpenBrowser(t, "http://"+listener.Addr().String(), 900, 700)
	b.Becomes(storyIs, evil)
	b.Becomes(checksAre, "1,234 checks of the promises so far, none broken.")
	banner := `(document.querySelector('.broken').hidden ? '' : document.querySelector('.broken').innerText)`
	b.Becomes(banner, "")
	if got := b.Value(`document.querySelector('.seat .token').textContent + document.querySelector('.seat button:nth-child(3)').checkVisibility()`); got != "Token 18446744073709551615false" {
		t.Errorf("the token, and whether a button is there that cannot work: %s", got)
	}
	b.Press("a", "Kill")
	b.Becomes(`document.querySelector('.failure').innerText`, "not today")
	got := asked.Load()
	expect.That(t, got == `{"do":"kill","id":"a"}`, "asked for %v", got)
	messages <- shown([]object{}, "two leaders at once: "+evil)
	b.Becomes(banner, "A promise is broken: two leaders at once: "+evil)
	b.Becomes(checksAre, "1,234 checks of the promises so far, 1 broken.")
	b.Accessible("broken")
	expect.Equal(t, b.Value(`document.images.length + document.title`), "0Playground test",
		"a text was not shown as text: %s")
}
