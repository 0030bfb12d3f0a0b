package leader_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// worker is an application that loops over the terms of a candidate, and the record of its
// work.
type worker struct {
	w   *world
	c   *candidate
	end chan struct{} // closed when the loop has ended

	mu  sync.Mutex
	did []string // not taken yet
}

// employ starts a loop. The body returns false for a break.
func (w *world) employ(c *candidate, body func(*leader.Term) bool) *worker {
	p := &worker{w: w, c: c, end: make(chan struct{})}
	go func() {
		defer close(p.end)
		defer func() { _ = recover() }()
		for term := range c.Terms() {
			p.note("begins")
			if !p.body(term, body) {
				break
			}
		}
	}()
	w.Cleanup(func() { <-p.end }) // the context of the test, and so the candidate, has ended then
	synctest.Wait()
	return p
}

// body runs a body that may panic or exit.
func (p *worker) body(term *leader.Term, body func(*leader.Term) bool) bool {
	defer p.note("ends")
	return body(term)
}

func (p *worker) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did = append(p.did, fmt.Sprintf("%v %s", p.w.now(), what))
}

// worked fails the test unless exactly these bodies have begun and ended since the last call.
func (p *worker) worked(want ...string) {
	p.w.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	check.That(p.w, slices.Equal(p.did, want), "the worker of %s: %q, want %q", p.c.ID(), p.did, want)
	p.did = nil
}

// ended reports whether the loop has ended.
func (p *worker) ended() bool {
	synctest.Wait()
	select {
	case <-p.end:
		return true
	default:
		return false
	}
}

// after is a body that works on for a while after the end of its context.
func after(d time.Duration) func(*leader.Term) bool {
	return func(t *leader.Term) bool {
		<-t.Context().Done()
		time.Sleep(d)
		return true
	}
}

// workers returns two candidates whose applications loop, at 3.5s. The first one leads, and
// works on for a while after each term.
func (w *world) workers(cfg leader.Config, d time.Duration) (a, b *candidate, atA, atB *worker) {
	w.Helper()
	cfg.ID = "a"
	a = w.standAs(cfg)
	atA = w.employ(a, after(d))
	w.at(500 * time.Millisecond)
	b = w.stand("b")
	atB = w.employ(b, after(0))
	w.at(3500 * time.Millisecond)
	atA.worked("0s begins")
	a.news()
	b.news()
	return a, b, atA, atB
}

// A stop lets the body end what it has begun. The next leader begins in the same instant.
func TestTerms_StopAwaitsTheBody(t *testing.T) {
	inSealed(t, func(w *world) {
		a, _, atA, atB := w.workers(leader.Config{}, 3*time.Second)
		w.at(20500 * time.Millisecond)
		stop := w.begin(func() error { return a.Stop(w.Context()) })
		w.at(25 * time.Second)
		stop.returned(23500*time.Millisecond, nil)
		atA.worked("23.5s ends")
		atB.worked("23.5s begins")
		a.saw(t, "20.5s fenced stopped", "23.5s deposed stopped")
		if !atA.ended() || a.Err() != nil {
			t.Errorf("the loop has ended: %v, with %v", atA.ended(), a.Err())
		}
		drained := a.drained()
		check.That(t, slices.Equal(drained, []bool{true}), "Drained is %v", drained)
	})
}

// The end of the context stops likewise. A body that never ends is not waited for longer
// than StopTimeout, and the key is released in time.
func TestTerms_StopTimeout(t *testing.T) {
	bubble(t, func(w *world) {
		w.create(leader.BucketConfig{}) // with the default lease of 15s
		ctx, cancel := context.WithCancel(w.Context())
		a := w.campaign(ctx, w.dial("a"), "e", leader.Config{ID: "a", LeaseDuration: 15 * time.Second})
		atA := w.employ(a, after(time.Hour))
		b := w.standAs(leader.Config{ID: "b", LeaseDuration: 15 * time.Second})
		w.at(3500 * time.Millisecond)
		a.news()
		b.news()
		cancel()
		w.at(20 * time.Second)
		a.saw(t, "3.5s fenced stopped", "9.5s faulted not released", "9.5s deposed stopped")
		a.ended(t, nil)
		b.saw(t, "9.5s observed nobody", "9.5s pending", "9.5s elected")
		drained := a.drained()
		check.That(t, slices.Equal(drained, []bool{false}), "Drained is %v", drained)
		atA.worked("0s begins")
		check.That(t, !atA.ended(), "the loop has left its body")
		w.at(2 * time.Hour)
	})
}

// StopTimeout bounds the stop while the store is away, to the instant.
func TestStopTimeout_StoreAway(t *testing.T) {
	for _, at := range []struct {
		name  string
		limit time.Duration
		ends  time.Duration
	}{
		{"default", 0, 8 * time.Second},
		{"short", 500 * time.Millisecond, 500 * time.Millisecond},
		{"none", -1, 14 * time.Second}, // one lease after the last renewal
	} {
		inBubble.run(t, at.name, func(t *testing.T, w *world) {
			w.create(leader.BucketConfig{})
			ctx, cancel := context.WithCancel(w.Context())
			a := w.campaign(ctx, w.dial("a"), "e", leader.Config{ID: "a", LeaseDuration: 15 * time.Second, RenewInterval: 2 * time.Second, StopTimeout: at.limit})
			w.at(3 * time.Second)
			a.blackhole(up, down)
			cancel()
			w.at(3*time.Second + at.ends - 1)
			select {
			case <-a.Done():
				t.Errorf("it has ended at %v", w.now())
			default:
			}
			w.at(3*time.Second + at.ends)
			a.ended(t, nil)
			a.open()
		})
	}
}

// A StopTimeout that is set, or a DrainTimeout that is set, moves the ends of the drain and of
// the stop.
func TestStopTimeout_Relations(t *testing.T) {
	for _, k := range []struct {
		name  string
		cfg   leader.Config
		drain time.Duration
	}{
		{"short", leader.Config{StopTimeout: 4 * time.Second}, 3 * time.Second},                                  // a quarter less
		{"long", leader.Config{StopTimeout: time.Minute}, lease},                                                 // of the default
		{"drain", leader.Config{DrainTimeout: 20 * time.Second}, 20 * time.Second},                               // and 2s
		{"both", leader.Config{DrainTimeout: 20 * time.Second, StopTimeout: 21 * time.Second}, 19 * time.Second}, // 2s less
		{"none", leader.Config{DrainTimeout: 20 * time.Second, StopTimeout: -1}, 20 * time.Second},
	} {
		inSealed.run(t, k.name, func(t *testing.T, w *world) {
			ctx, cancel := context.WithCancel(w.Context())
			k.cfg.ID = "a"
			a := w.campaign(ctx, w.dial("a"), "e", k.cfg)
			w.employ(a, after(time.Minute))
			w.at(3500 * time.Millisecond)
			a.news()
			cancel()
			w.at(time.Hour)
			over := 3500*time.Millisecond + k.drain
			a.saw(t, "3.5s fenced stopped", fmt.Sprint(over, " faulted not released"), fmt.Sprint(over, " deposed stopped"))
		})
	}
}

// The end of the context bounds a drain that is under way for another reason, and a Stop that
// has no bound.
func TestStopTimeout_AfterAnotherEnd(t *testing.T) {
	for name, end := range map[string]func(w *world, c *candidate){
		"fenced":  func(_ *world, c *candidate) { c.blackhole(up) },
		"resigns": func(w *world, c *candidate) { w.begin(func() error { return c.Resign(context.Background()) }) },
		"stops":   func(w *world, c *candidate) { w.begin(func() error { return c.Stop(context.Background()) }) },
	} {
		inBubble.run(t, name, func(t *testing.T, w *world) {
			w.create(leader.BucketConfig{})
			ctx, cancel := context.WithCancel(w.Context())
			a := w.campaign(ctx, w.dial("a"), "e", leader.Config{ID: "a", LeaseDuration: 15 * time.Second, StopTimeout: 4 * time.Second})
			w.employ(a, after(time.Minute))
			w.at(10 * time.Second)
			end(w, a)
			w.at(22500 * time.Millisecond)
			a.open()
			w.at(23 * time.Second) // the drain of one lease has begun between 10s and 22s
			check.That(t, a.State() == leader.StateFenced, "a is %v", a.State())
			a.news()
			cancel()
			w.at(time.Hour)
			if got := a.news(); len(got) != 2 || !strings.HasPrefix(got[0], "26s faulted not released") && name == "fenced" {
				t.Errorf("%q", got)
			}
			a.ended(t, nil)
		})
	}
}

// While the body works on in a term that has ended, the candidate keeps its key, and no other
// begins. It is elected again when the body ends in time.
func TestTerms_FencedKeepsTheKey(t *testing.T) {
	inSealed(t, func(w *world) {
		a, _, atA, atB := w.workers(leader.Config{DrainTimeout: time.Minute}, 20*time.Second)
		a.blackhole(up)
		w.at(8500 * time.Millisecond)
		a.open()
		w.at(40 * time.Second)
		a.saw(t, "4.25s faulted unreachable", "7.8s fenced expired", "27.8s deposed expired", "27.8s pending", "27.8s elected")
		atA.worked("27.8s ends", "27.8s begins")
		atB.worked()
		s := a.Stats()
		check.That(t, s.Unreleased == 0, "Unreleased is %v", s.Unreleased)
	})
}

// The body ends too late: the candidate gives up its key in time, and does not campaign before
// the end of the body.
func TestTerms_DrainIsOver(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b, atA, atB := w.workers(leader.Config{}, 40*time.Second)
		a.blackhole(up)
		w.at(8500 * time.Millisecond)
		a.open()
		w.at(20 * time.Second)
		atA.worked()
		atB.worked("13.8s begins") // one lease after a was fenced
		s := a.Stats()
		check.That(t, s.Unreleased == 20*time.Second-7800*time.Millisecond && s.Faults["not_released"] == 2,
			"Unreleased is %v, faults %v", s.Unreleased, s.Faults)
		w.ok(b.Stop(w.Context()))
		w.at(60 * time.Second)
		atA.worked("47.8s ends", "47.8s begins")
		a.saw(t, "4.25s faulted unreachable", "7.8s fenced expired", "13.8s faulted not released", "13.8s deposed expired",
			"13.8s observed nobody", "13.8s observed b", "19.8s faulted not released", "20s observed nobody",
			"31.8s faulted not released", "47.8s pending", "47.8s elected")
	})
}

// A leader that was overtaken while its body works on reports that, and takes no free key.
func TestTerms_Overtaken(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b, atA, atB := w.workers(leader.Config{}, 40*time.Second)
		a.cut()
		w.at(10 * time.Second)
		atB.worked("9s begins")
		a.open()
		w.at(11 * time.Second)
		w.ok(b.Stop(w.Context()))
		w.at(47 * time.Second)
		atA.worked()
		h, ok := a.Leader()
		check.That(t, !ok, "%v", h)
		w.at(50 * time.Second)
		atA.worked("47.8s ends", "47.8s begins")
		if got := a.without("observed", "pending"); !slices.Equal(got, []string{
			"4s faulted unreachable", "7.8s fenced expired",
			"10.1s deposed expired", "16.1s faulted not released", "28.1s faulted not released", "47.8s elected",
		}) {
			t.Errorf("%q", got)
		}
	})
}

// After a break, a panic and a Goexit the candidate hands over, and does not campaign before
// the next loop.
func TestTerms_LoopIsLeft(t *testing.T) {
	for name, leave := range map[string]func() bool{
		"break":  func() bool { return false },
		"panic":  func() bool { panic("of a worker") },
		"Goexit": func() bool { runtime.Goexit(); return true },
	} {
		inSealed.run(t, name, func(t *testing.T, w *world) {
			a := w.stand("a")
			atA := w.employ(a, func(*leader.Term) bool {
				time.Sleep(3500 * time.Millisecond)
				return leave()
			})
			b := w.stand("b")
			w.at(5 * time.Second)
			atA.worked("0s begins", "3.5s ends")
			if h, ok := a.Leader(); !ok || h.ID != "b" || !atA.ended() {
				t.Errorf("%v leads, the loop has ended: %v", h, atA.ended())
			}
			w.ok(b.Stop(w.Context()))
			w.at(time.Minute)
			check.That(t, a.State() == leader.StateCandidate, "a is %v", a.State())
			got := a.without("observed")
			check.That(t, slices.Equal(got, []string{"0s pending", "0s elected", "3.5s deposed resigned"}),
				"%q", got)
			atA = w.employ(a, after(0))
			w.at(time.Minute + 1)
			atA.worked("1m0s begins")
		})
	}
}

// A body that returns early hands over. The candidate waits one lease before it leads again.
func TestTerms_BodyReturnsEarly(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		atA := w.employ(a, func(*leader.Term) bool { time.Sleep(time.Second); return true })
		w.at(10 * time.Second)
		atA.worked("0s begins", "1s ends", "7s begins", "8s ends")
	})
}

// A term that is over before a loop could take it is left out.
func TestTerms_OverBeforeTheLoop(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		w.at(3500 * time.Millisecond)
		w.ok(a.Resign(w.Context()))
		w.at(4 * time.Second)
		atA := w.employ(a, after(0))
		w.at(20 * time.Second)
		atA.worked("4.75s begins")
	})
}

// A loop that begins while the candidate leads takes that term, and no other loop does.
func TestTerms_LateLoop(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		w.at(3500 * time.Millisecond)
		first, second := w.employ(a, after(time.Second)), w.employ(a, after(time.Second))
		w.at(4500 * time.Millisecond)
		w.ok(a.Resign(w.Context()))
		w.at(20 * time.Second)
		first.worked("3.5s begins", "5.5s ends")
		second.worked("6.75s begins")
	})
}

// A loop over the terms of a candidate that has ended, or of a zero one, ends at once.
func TestTerms_AfterTheEnd(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		w.at(time.Second)
		w.ok(a.Stop(w.Context()))
		for range a.Terms() {
			t.Error("a term of a candidate that has ended")
		}
		for range new(leader.Candidate).Terms() {
			t.Error("a term of a zero candidate")
		}
	})
}

// A Release in the body lets the candidate campaign again. The end of that body does not end
// the next term.
func TestTerms_ReleasedByHand(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		first := true
		atA := w.employ(a, func(t *leader.Term) bool {
			if first {
				first = false
				t.Release()
				time.Sleep(10 * time.Second) // is no concern of the candidate
				return true
			}
			return after(0)(t)
		})
		w.at(time.Second)
		w.ok(a.Resign(w.Context()))
		w.at(9500 * time.Millisecond)
		a.saw(t, "0s pending", "0s elected", "1s deposed resigned", "1s observed nobody", "2.25s pending", "2.25s elected")
		w.at(20 * time.Second)
		a.saw(t)
		atA.worked("0s begins", "10s ends", "10s begins")
	})
}

// A Stop that is given up ends the candidate at once. The loop ends with its body.
func TestTerms_Abandoned(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b, atA, atB := w.workers(leader.Config{DrainTimeout: time.Minute}, 10*time.Second)
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		err := a.Stop(ctx)
		check.That(t, err != nil, "Stop returned nil")
		a.saw(t, "3.5s fenced stopped", "3.5s deposed stopped")
		a.ended(t, nil)
		check.That(t, !atA.ended(), "the loop has left its body")
		w.at(30 * time.Second)
		atA.worked("13.5s ends")
		atB.worked("9s begins") // the key was not released
		check.That(t, atA.ended() && b.IsLeader(), "the loop has not ended with its body")
	})
}

// With several seats, work that goes on on one seat keeps the process from all others.
func TestTerms_Seats(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", Seats: 2})
		atA := w.employ(a, after(20*time.Second))
		w.at(500 * time.Millisecond)
		b := w.standAs(leader.Config{ID: "b", Seats: 2})
		atB := w.employ(b, after(0))
		w.at(3500 * time.Millisecond)
		atA.worked("0s begins")
		atB.worked("500ms begins")
		a.cut()
		w.at(20 * time.Second)
		a.open()
		w.at(27 * time.Second)
		atA.worked()
		w.at(30 * time.Second)
		atA.worked("27.8s ends", "27.8s begins")
		atB.worked()
	})
}

// A handover by name awaits the body, too.
func TestTerms_Transfer(t *testing.T) {
	inRostered(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", Queue: true})
		atA := w.employ(a, after(2*time.Second))
		for i, id := range []string{"b", "c"} {
			w.at(time.Duration(i+1) * 500 * time.Millisecond)
			w.standAs(leader.Config{ID: id, Queue: true})
		}
		w.at(10 * time.Second)
		w.ok(a.Transfer(w.Context(), "c"))
		w.isAt(12*time.Second, "c leads")
		atA.worked("0s begins", "12s ends")
	})
}
