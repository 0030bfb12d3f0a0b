package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// steps records what happens, in order.
type steps struct {
	mu  sync.Mutex
	all []string
}

func (s *steps) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, fmt.Sprintf(format, args...))
}

func (s *steps) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.all, ", ")
}

// aSource is a source and its renderer, which record what is asked of them. fails names the step that
// returns an error.
type aSource struct {
	steps
	fails  string
	events chan string
	typing chan string
}

func (s *aSource) step(format string, args ...any) error {
	s.add(format, args...)
	if strings.HasPrefix(format, s.fails) && s.fails != "" {
		return testworld.ErrOfSource
	}
	return nil
}

func (s *aSource) open(context.Context) error { return s.step("open") }

func (s *aSource) close() { s.add("close") }

func (s *aSource) updates() <-chan string { return s.events }

func (s *aSource) update(e string, more bool) error { return s.step("update %q %v", e, more) }

func (s *aSource) connection(err error) { s.add("connection %v", err) }

func (s *aSource) ticked(context.Context) error { return s.step("tick") }

func (s *aSource) view(time.Time, error, string) view { return view{} }

func (s *aSource) begin() error { return s.step("begin") }

func (s *aSource) end() { s.add("end") }

func (s *aSource) keys() <-chan string { return s.typing }

func (s *aSource) typed(keys string) error { return s.step("typed %s", keys) }

func (s *aSource) Changed(...Change) error { return nil }

func (s *aSource) Shown(now time.Time, _ Viewer) error {
	return s.step("shown at %v", now.Sub(time.Unix(9, 0)))
}

func (s *aSource) NoteTrouble(err error) { s.add("trouble %.14v", err) }

// However the following of a source ends, the source is closed, and a view that has begun is ended.
func TestFollow_ClosesOnEveryWayOut(t *testing.T) {
	const one = "open, begin, tick, shown at 100ms"
	for name, x := range map[string]struct {
		fails string
		does  func(s *aSource, links chan error)
		want  string
		err   error
	}{
		"it cannot open":         {fails: "open", want: "open, close", err: testworld.ErrOfSource},
		"it cannot begin":        {fails: "begin", want: "open, begin, close", err: testworld.ErrOfSource},
		"a tick fails":           {fails: "tick", want: "open, begin, tick, end, close", err: testworld.ErrOfSource},
		"a view fails":           {fails: "shown", want: one + ", end, close", err: testworld.ErrOfSource},
		"the end of the time":    {want: one + ", end, close"},
		"an update":              {does: func(s *aSource, _ chan error) { s.events <- "x" }, want: one + `, update "x" true, end, close`},
		"an update fails":        {fails: "update", does: func(s *aSource, _ chan error) { s.events <- "x" }, want: one + `, update "x" true, end, close`, err: testworld.ErrOfSource},
		"the updates end":        {fails: "update", does: func(s *aSource, _ chan error) { close(s.events) }, want: one + `, update "" false, end, close`, err: testworld.ErrOfSource},
		"the connection ends":    {does: func(_ *aSource, links chan error) { links <- front.ErrUnreachable }, want: one + ", connection cannot connect, end, close"},
		"the connection is back": {does: func(_ *aSource, links chan error) { links <- nil }, want: one + ", connection <nil>, end, close"},
		"the user types":         {does: func(s *aSource, _ chan error) { s.typing <- "j" }, want: one + ", typed j, shown at 150ms, end, close"},
		"the user quits":         {fails: "typed", does: func(s *aSource, _ chan error) { s.typing <- "q" }, want: one + ", typed q, end, close", err: testworld.ErrOfSource},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &aSource{fails: x.fails, events: make(chan string), typing: make(chan string)}
				links := make(chan error)
				ctx, cancel := context.WithTimeout(t.Context(), 180*time.Millisecond)
				defer cancel()
				its := &inspect.Inspector{Clock: inspect.NewServerClock(time.Unix(9, 0), 0)}
				if x.does != nil {
					go func() {
						time.Sleep(150 * time.Millisecond)
						x.does(s, links)
					}()
				}
				err := followUntil(ctx, its, Renderer(s), source[string](s), links)
				expect.That(t, errors.Is(err, x.err), "returns %v", err)
				expect.Equal(t, s.text(), x.want, "%s\nnot %s", x.want)
			})
		})
	}
}

// A command that cannot connect or has no bucket says so, tries again after a second, and ends with its context without
// another word. Its own end, and a move to another server, are no loss of the connection. It ends at once where its settings are wrong. It leaves no
// connection behind.
func TestFollow_Always(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		for _, x := range []struct {
			what  string
			set   func(g *front.Globals)
			tries int // before its context ends
			want  string
			code  int
			after time.Duration
		}{
			{"no server", func(g *front.Globals) { g.Settings = testworld.GlobalsOf("nats://127.0.0.1:1", "").Settings }, 2, "connected false, trouble cannot connect, connected false", 0, time.Second},
			{"no bucket", func(g *front.Globals) { g.Bucket = "none" }, 2, "connected false, trouble bucket none do, connected false", 0, time.Second},
			{"wrong settings", func(g *front.Globals) { g.Timeout = -1 }, 2, "connected false", front.ExitUsage, 0},
			{"a move, and its end", func(*front.Globals) {}, 9, "connected false, connected true, begin, end, connected false", 0, Tick / 2},
		} {
			ctx, cancel := context.WithCancel(w.Context())
			out, g, began := &aSource{}, w.Globals(), time.Now()
			x.set(g)
			err := FollowAlways(ctx, g, out, false, func(its *inspect.Inspector) {
				out.add("connected %v", its != nil)
				if x.tries--; x.tries == 0 {
					cancel()
				} else if its != nil {
					expect.OK(w, its.Nc.ForceReconnect())
					time.AfterFunc(Tick/2, cancel)
				}
			})
			cancel()
			took := time.Since(began)
			time.Sleep(time.Second)
			expect.That(w, front.CodeOf(err) == x.code && took == x.after && out.text() == x.want, "%s: %v after %v: %s", x.what, err, took, out.text())
			expect.Equal(w, w.S.NumClients(), 1, "%s: %d connections, one of them the test's", x.what)
		}
	})
}

// A connection that is open at the instant at which the command ends is closed.
func TestFollow_EndsWhileItConnects(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Away = 10 * time.Millisecond
		follow := func(end time.Duration) (opened time.Duration) {
			from := time.Now()
			ctx, cancel := context.WithTimeout(w.Context(), end)
			defer cancel()
			expect.OK(w, FollowAlways(ctx, w.Globals(), &aSource{}, false, func(s *inspect.Inspector) {
				if s != nil {
					opened = time.Since(from)
				}
			}))
			time.Sleep(time.Second)
			expect.Must(w, w.S.NumClients() == 1, "%d connections, one of them the test's", w.S.NumClients())
			return opened
		}
		opens := follow(time.Second)
		expect.Must(w, opens > 0, "it did not connect")
		for range 100 { // the answer and the end come at one instant, and one of six times the end is noticed first
			follow(opens)
		}
	})
}

// A roster is reported when its holder and its candidates have not changed for a while. The collection
// ends with its context, also while nobody reads, and with the connection.
func TestRosterWatch_Collects(t *testing.T) {
	for _, way := range []string{"the context ends", "nobody reads", "the holders end", "the candidates end"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newRosterWatcher(&inspect.Inspector{}, "billing", &aSource{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				holders, candidates := make(chan leader.Holder), make(chan []roster.Entry)
				w.rosters = make(chan Lineup)
				go collect(ctx, Lineup{Election: "billing"}, holders, candidates, w.rosters)
				from := time.Now()
				holders <- leader.Holder{ID: "a"}
				time.Sleep(together - 1)
				candidates <- []roster.Entry{{ID: "b"}}
				got := <-w.rosters
				expect.That(t, got.holder.ID == "a" && len(got.candidates) == 1 && time.Since(from) == 2*together-1,
					"%+v after %v", got, time.Since(from))
				switch way {
				case "nobody reads":
					holders <- leader.Holder{ID: "c"}
					time.Sleep(time.Hour)
					cancel()
				case "the context ends":
					cancel()
					close(holders) // as Observe closes it
				case "the holders end":
					close(holders)
				case "the candidates end":
					close(candidates)
				}
				synctest.Wait()
				select {
				case _, more := <-w.updates():
					err := w.update(Lineup{}, more)
					expect.That(t, !more && errors.Is(err, leader.ErrConnectionClosed), "more: %v, %v", more, err)
				default:
					t.Error("it goes on")
				}
			})
		})
	}
}

// A look of a watcher that is closed or loses its connection ends, with the feed that it still opens.
func TestWatch_CloseEndsLookAndFeed(t *testing.T) {
	for name, end := range map[string]func(*Watcher){
		"closed":          (*Watcher).close,
		"connection lost": func(w *Watcher) { w.connection(front.ErrUnreachable) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLooks(t)
				endings := make(chan string, 3)
				l.w.end = func() { endings <- "feed" }
				l.w.look = func(ctx context.Context, _ time.Duration, _ bool) look {
					<-ctx.Done()
					return look{feed: &testworld.AFeed{Stopped: make(chan struct{})}, end: func() { endings <- "late feed" }}
				}
				expect.OK(t, l.w.ticked(t.Context()))
				synctest.Wait()
				first := l.feeds[0]
				end(l.w)
				synctest.Wait()
				var ended []string
				for range len(endings) {
					ended = append(ended, <-endings)
				}
				slices.Sort(ended)
				select {
				case <-first.Stopped:
				default:
					t.Error("the feed was not stopped")
				}
				expect.That(t, slices.Equal(ended, []string{"feed", "late feed"}) && l.w.updates() == nil,
					"ended: %q", ended)
				l.w.closeFeed() // once more
			})
		})
	}
}

// A watcher looks every two seconds, and after a second if it has no feed or a lease is over. It opens one
// feed at a time.
func TestWatch_LooksInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks(t)
		ended := 0
		began := time.Now()
		var at []string
		l.w.look = func(_ context.Context, _ time.Duration, opening bool) look {
			at = append(at, fmt.Sprint(time.Since(began), " ", opening))
			l.began = time.Now()
			r := l.look(opening)
			r.end = func() { ended++ }
			return r
		}
		l.w.looked = began
		ticks := func(n int) {
			for range n {
				time.Sleep(Tick)
				expect.OK(t, l.w.ticked(t.Context()))
				synctest.Wait()
			}
		}
		ticks(25)                      // 2.5 s
		l.writes("leading", "a", 1, 0) // with a lease of a second
		ticks(30)
		l.update(nil)
		ticks(5)
		if err := l.w.update(nil, false); err != nil { // the feed has ended
			t.Fatal(err)
		}
		ticks(15)
		want := []string{"2.1s false", "3.2s true", "5.3s false", "6.4s true"}
		expect.That(t, slices.Equal(at, want), "%q\nnot %q", at, want)
		synctest.Wait()
		open := 0
		for _, f := range l.feeds {
			select {
			case <-f.Stopped:
			default:
				open++
			}
		}
		expect.That(t, open == 1 && len(l.feeds) == 3 && ended == 1,
			"%d of %d feeds are open, %d ended", open, len(l.feeds), ended)
		l.w.close()
	})
}
