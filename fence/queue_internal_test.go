package fence

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// held lets no write be answered.
func held(*nats.Msg, int) []byte { return silence }

// only keeps the replies to writes of one key back, and hands them to the test.
func (d *desk) only(key string, msgs *[]*nats.Msg) {
	d.follow(func(m *nats.Msg, nth int) []byte {
		if nth == 0 || m.Subject != "$KV.B."+key || m.Reply == "" {
			return nil
		}
		*msgs = append(*msgs, m)
		return silence
	})
}

// A write without an answer ends after 5 s, or when the caller says, and holds up later
// writes for 5 s at most.
func TestSubmit_EndsInTime(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		for _, k := range []struct{ limit, want time.Duration }{
			{0, 5 * time.Second}, {3 * time.Second, 3 * time.Second}, {time.Hour, 5 * time.Second},
		} {
			atDesk(t, replicas, func(d *desk) {
				d.follow(held)
				c := d.within(k.limit, aPut)
				d.until(k.want)
				c.is(k.want, ErrUnknownOutcome)
				d.follow(nil)
				d.came()
				later := d.pair("b")
				if replicas == 3 {
					d.until(5 * time.Second) // of the write before it
					later.is(5 * time.Second)
				} else {
					later.is(k.want)
				}
				d.idle()
			})
		}
	}
}

// A caller that gives up leaves nothing behind: no place in line, no turn, no write that is
// sent later. It gets the outcome if that is known.
func TestSubmit_GiveUpLeavesNothing(t *testing.T) {
	for _, k := range []struct {
		name      string
		replicas  int
		write     func(ctx context.Context, w *BucketWriter) error
		meanwhile func(d *desk) // under the queue's lock, after the context has ended
		want      error
		came      string
	}{
		{"in line for a turn", 1, aPut, nil, context.Canceled, ""},
		{"in line for a batch", 1, aCreate, nil, context.Canceled, ""},
		{"in line with replicas", 3, aPut, nil, context.Canceled, ""},
		{"as its turn comes", 1, aPut, func(d *desk) { d.w.l.take() }, context.Canceled, ""},
		{"as it is acknowledged", 3, aPut, func(d *desk) {
			c := d.w.l.queue[0]
			d.w.l.queue, c.sent = nil, true
			close(c.done)
		}, nil, ""},
		{"as it is sent", 3, aPut, func(d *desk) {
			d.w.l.queue[0].sent = true
		}, ErrUnknownOutcome, ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			atDesk(t, k.replicas, func(d *desk) {
				var msgs []*nats.Msg
				d.follow(func(m *nats.Msg, nth int) []byte {
					if m.Reply == "" || nth == 0 || len(msgs) > 0 {
						return nil
					}
					msgs = append(msgs, m)
					return silence
				})
				first := d.pair("a")
				d.came()
				ctx, cancel := context.WithCancel(d.Context())
				c := d.begin(func() error { return k.write(ctx, d.w) })
				c.waits()
				if k.meanwhile != nil {
					d.w.l.mu.Lock()
				}
				cancel() // the select of the caller is decided
				if k.meanwhile != nil {
					k.meanwhile(d)
					d.w.l.mu.Unlock()
				}
				c.is(0, k.want)
				d.answer(msgs[0])
				first.is(0)
				check.Equal(t, d.came(), k.came, "written afterwards: %s")
				d.idle()
			})
		})
	}
}

// A call whose context has ended sends nothing, and says nothing about the server.
func TestSubmit_EndedBefore(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		ctx, cancel := context.WithCancel(d.Context())
		cancel()
		err := aPut(ctx, d.w)
		check.That(t, err != nil && err.Error() == "fence: nothing was written: context canceled" && d.came() == "",
			"%v", err)
	})
}

// A caller that gives up in flight does not know the outcome. It may use its data again, and
// what is sent again is what it wrote. The error of a write that no server took says why.
func TestSubmit_GiveUpInFlight(t *testing.T) {
	atDesk(t, 3, func(d *desk) {
		d.follow(func(m *nats.Msg, nth int) []byte {
			if time.Since(d.zero) < time.Second {
				return notNow
			}
			return silence
		})
		ctx, cancel := context.WithTimeout(d.Context(), time.Second/2)
		defer cancel()
		data := []byte("data")
		c := d.begin(func() error {
			_, err := d.w.Put(ctx, "a", data)
			return err
		})
		d.until(time.Second / 2)
		c.is(time.Second/2, ErrUnknownOutcome) // another server may take it
		copy(data, "junk")
		d.came()
		d.until(600 * time.Millisecond)
		came := d.came()
		check.That(t, came[:6] == "a=data", "sent again: %s", came)
		d.follow(nil)
		d.until(time.Second)
		d.idle()
	})
	atDesk(t, 1, func(d *desk) {
		d.follow(func(*nats.Msg, int) []byte { return notNow })
		direct := d.within(time.Second, aPut)
		batched := d.within(time.Second/2, aBatch(new([]uint64), "a", "a"))
		d.until(time.Second)
		direct.is(time.Second, context.DeadlineExceeded, errNotNow, leader.ErrUnreachable)
		batched.is(time.Second/2, context.DeadlineExceeded)
		d.until(1050 * time.Millisecond) // the pause between two tries
		d.idle()
	})
	atDesk(t, 1, func(d *desk) {
		d.follow(func(*nats.Msg, int) []byte { return notNow })
		c := d.within(time.Second, aCreate)
		d.until(time.Second)
		c.is(time.Second, context.DeadlineExceeded, errNotNow, leader.ErrUnreachable)
		d.until(1050 * time.Millisecond)
		d.idle()
	})
}

// A write that no server takes is tried again after 0, 1, 2, 4, 8, 16, 32 and then each 50 ms.
func TestInsist_Pauses(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		d.follow(func(*nats.Msg, int) []byte { return notNow })
		c := d.write("a", "1")
		d.until(5 * time.Second)
		c.is(5*time.Second, context.DeadlineExceeded, errNotNow)
		d.mu.Lock()
		defer d.mu.Unlock()
		var want []time.Duration
		at := time.Duration(0)
		for _, p := range []int{0, 0, 0, 0, 1, 2, 4, 8, 16, 32} {
			want = append(want, at)
			at += time.Duration(p) * time.Millisecond
		}
		for ; at < 5*time.Second; at += 50 * time.Millisecond {
			want = append(want, at)
		}
		check.Must(t, len(d.at) == len(want), "%d tries, want %d", len(d.at), len(want))
		for i := range want {
			if d.at[i] != want[i] {
				t.Fatalf("try %d after %v, want %v", i+1, d.at[i], want[i])
			}
		}
	})
}

// Batches and single writes do not overtake one another, and nothing is sent beside a batch.
func TestDrain_KeepsOrder(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		var a, b []*nats.Msg
		d.only("a", &a)
		pair := d.pair("a")
		first := d.write("b", "1")
		second := d.pair("c")
		third := d.write("d", "1")
		came := d.came()
		check.Must(t, came == "a=1 a=2", "beside a batch: %s", came)
		d.only("b", &b)
		d.answer(a[0])
		pair.is(0)
		if came := d.came(); came != "b=1" {
			t.Fatalf("beside a single write: %s", came)
		}
		second.waits()
		fourth := d.write("e", "1")
		fourth.waits()
		d.follow(nil)
		d.answer(b[0])
		for _, c := range []*call{first, second, third, fourth} {
			c.is(0)
		}
		if came := d.came(); came != "c=1 c=2 d=1 e=1" && came != "c=1 c=2 e=1 d=1" {
			t.Fatalf("then %s", came)
		}
		d.idle()
	})
}

// A batch waits until all single writes in flight have ended.
func TestDrain_AwaitsAllTurns(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		for range 2 {
			var a, b []*nats.Msg
			d.only("a", &a)
			first := d.write("a", "1")
			d.only("b", &b)
			second := d.write("b", "1")
			c := d.pair("c")
			came := d.came()
			check.Must(t, came == "a=1 b=1", "beside two single writes: %s", came)
			d.answer(a[0])
			first.is(0)
			if came := d.came(); came != "" {
				t.Fatalf("beside a single write: %s", came)
			}
			d.answer(b[0])
			second.is(0)
			c.is(0)
			d.came()
		}
		d.idle()
	})
}

// With replicas, changes that come up meanwhile share a batch. It has at most 999 messages and
// 4 MiB, no message with an ID of the caller, and no condition on what it writes.
func TestTake_SharesBatches(t *testing.T) {
	message := func(key string, n int) message { return message{subject: key, on: key, data: make([]byte, n)} }
	set := func(n, size int) *writeSet {
		c := &writeSet{}
		for range n {
			c.messages = append(c.messages, message("k", size))
		}
		return c
	}
	single := set(1, 0)
	single.single = true
	conditioned := set(1, 0)
	conditioned.messages[0].conditioned = true
	left := set(1, 0)
	left.left = true
	for _, k := range []struct {
		name  string
		queue []*writeSet
		want  int // taken
		group int
	}{
		{"999 messages", []*writeSet{set(998, 0), set(1, 0), set(1, 0)}, 2, 2},
		{"1000 messages", []*writeSet{set(998, 0), set(2, 0)}, 1, 1},
		{"4 MiB", []*writeSet{set(1, 2<<20), set(1, 2<<20), set(1, 1)}, 2, 2},
		{"an ID behind", []*writeSet{set(1, 0), single}, 1, 1},
		{"an ID ahead", []*writeSet{single, set(1, 0)}, 1, 1},
		{"a condition on what is written", []*writeSet{set(1, 0), conditioned}, 1, 1},
		{"a condition first", []*writeSet{conditioned, set(1, 0)}, 2, 2},
		{"given up", []*writeSet{left, set(1, 0), left}, 3, 1},
	} {
		q := &writeQueue{s: &guardedStream{}, f: &term{}, queue: slices.Clone(k.queue)}
		q.s.api.Known.Store(&jetstream.StreamConfig{Replicas: 3, AllowAtomicPublish: true})
		group := q.take()
		taken := len(k.queue) - len(q.queue)
		check.That(t, taken == k.want && len(group) == k.group,
			"%s: %d were taken for a batch of %d", k.name, taken, len(group))
		q.s.api.Known.Store(&jetstream.StreamConfig{Replicas: 3})
		q.queue = []*writeSet{set(1, 0), set(1, 0)}
		group = q.take()
		check.That(t, len(group) == 1, "%d in a batch that the stream does not take", len(group))
	}
}

// The guard moves with the next write when it is more than 4096 messages or 1 MiB behind, or
// after an unknown outcome. Nothing else than a new revision of the guard ends that.
func TestOverdue_Limits(t *testing.T) {
	for _, k := range []struct {
		name    string
		head    uint64
		bytes   int
		unknown bool
		want    bool
	}{
		{"4096 messages", 4097, 0, false, false},
		{"4097 messages", 4098, 0, false, true},
		{"1 MiB", 0, 1 << 20, false, false},
		{"more", 0, 1<<20 + 1, false, true},
		{"unknown", 0, 0, true, true},
	} {
		atDesk(t, 1, func(d *desk) {
			l := d.w.l
			l.head, l.bytes, l.unknownOutcome = k.head, k.bytes, k.unknown
			d.write("a", "1").is(0)
			want, revision := "a=1", uint64(1)
			if k.want {
				want, revision = "natsleader.guard=mine a=1", 2
			}
			came := d.came()
			check.That(t, came == want, "%s: %s", k.name, came)
			now, _ := d.Current()
			check.That(t, now == revision, "%s: the revision is %d", k.name, now)
			d.write("b", "1").is(0)
			if came := d.came(); k.want && came != "b=1" {
				t.Errorf("%s: the guard moves again: %s", k.name, came)
			}
		})
	}
}

// The guard moves after an unknown outcome although a write beside it was acknowledged. What
// was acknowledged counts, in whatever order.
func TestNote_UnknownOutcomeStands(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		var a []*nats.Msg
		d.only("a", &a)
		lost := d.write("a", "1")
		second := d.begin(func() error {
			ctx, cancel := context.WithTimeout(d.Context(), 6*time.Second)
			defer cancel()
			time.Sleep(4 * time.Second)
			_, err := d.w.Put(ctx, "b", []byte("22"))
			return err
		})
		d.only("b", &a)
		d.until(5 * time.Second)
		lost.is(5*time.Second, ErrUnknownOutcome)
		d.answer(a[1])
		second.is(5 * time.Second)
		d.came()
		l := d.w.l
		check.That(t, l.head == 2 && l.bytes == 2 && l.unknownOutcome,
			"up to %d, %d bytes, unknown %v", l.head, l.bytes, l.unknownOutcome)
		d.follow(nil)
		d.write("c", "1").is(5 * time.Second)
		check.Equal(t, d.came(), "natsleader.guard=mine c=1", "then %s")
	})
	atDesk(t, 1, func(d *desk) {
		var a []*nats.Msg
		d.only("a", &a)
		first, second := d.write("a", "1"), d.write("a", "1")
		d.mu.Lock()
		r := []byte(`{"stream":"KV_B","seq":7}`)
		_ = a[1].Respond(r)
		d.mu.Unlock()
		second.is(0)
		d.answer(a[0])
		first.is(0)
		check.That(t, d.w.l.head == 7 && d.w.l.bytes == 2, "the newest is %d, %d bytes", d.w.l.head, d.w.l.bytes)
	})
}

// A move of the guard without an answer leaves the outcome of the write known: it was not
// sent. It is sent after the guard was found.
func TestPost_MoveWithoutAnswer(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		d.w.l.unknownOutcome = true
		d.follow(func(m *nats.Msg, nth int) []byte {
			if nth == 1 {
				d.apply(m)
				return silence
			}
			return nil
		})
		c := d.within(time.Minute, aPut)
		d.until(5 * time.Second)
		c.is(5 * time.Second)
		if came := d.came(); came != "natsleader.guard=mine natsleader.guard=mine natsleader.guard=mine k=" && came != "natsleader.guard=mine natsleader.guard=mine k=" {
			t.Errorf("%s", came)
		}
	})
}

// A batch on a stream whose settings say that it takes none asks for them again, and ends at
// once if they still say so. Without an answer it asks again.
func TestPost_AsksForBatches(t *testing.T) {
	for _, k := range []struct {
		allowed, answered bool
		after             time.Duration
		want              []error
	}{{true, true, 0, nil}, {false, true, 0, []error{leader.ErrIncompatibleBucket}}, {true, false, 5 * time.Second, nil}} {
		atDesk(t, 1, func(d *desk) {
			d.conf.AllowAtomicPublish = false
			check.OK(d, check.Err(d.bucket.settings(d.Context())))
			d.conf.AllowAtomicPublish = k.allowed
			if !k.answered {
				d.follow(held)
			}
			c := d.within(time.Minute, aCreate)
			d.until(5*time.Second - 1)
			d.follow(nil)
			d.until(5 * time.Second)
			c.is(k.after, k.want...)
		})
	}
}

// One bad write of a batch does not harm those beside it.
func TestDeliver_OneByOne(t *testing.T) {
	atDesk(t, 3, func(d *desk) {
		d.have("$KV.B.k", "there")
		var a []*nats.Msg
		d.only("a", &a)
		first := d.write("a", "1")
		second := d.write("b", "1")
		third := d.within(0, aCreate)
		fourth := d.write("c", "1")
		d.follow(nil)
		d.answer(a[0])
		first.is(0)
		second.is(0)
		fourth.is(0)
		third.is(0, jetstream.ErrKeyExists)
		d.idle()
	})
}

// A batch of a term that is over ends with ErrFenced at once, and is not sent one by one.
func TestDeliver_FencedTogether(t *testing.T) {
	atDesk(t, 3, func(d *desk) {
		var a []*nats.Msg
		d.only("a", &a)
		first := d.write("a", "1")
		calls := []*call{d.write("b", "1"), d.write("c", "1"), d.write("d", "1")}
		d.follow(nil)
		d.answer(a[0])
		first.is(0)
		for _, c := range calls {
			c.is(0)
		}
		d.only("a", &a)
		first = d.write("a", "2")
		calls = []*call{d.write("b", "2"), d.write("c", "2"), d.write("d", "2")}
		d.came()
		d.have("$KV.B.natsleader.guard", "junk")
		close(d.over)
		d.follow(nil)
		d.answer(a[1])
		first.is(0, leader.ErrFenced)
		for _, c := range calls {
			c.is(0, leader.ErrFenced)
		}
		check.Equal(t, d.came(), "b=2 c=2 d=2", "sent: %s")
	})
}

// What a writer does after a rejection depends on the guard that it finds.
func TestExplain_GuardFound(t *testing.T) {
	guard := "$KV.B.natsleader.guard"
	for _, k := range []struct {
		name     string
		found    func(d *desk)
		after    time.Duration
		want     error
		suspects int
		came     string
	}{
		{"a later term's", func(d *desk) { d.have(guard, "later") }, 0, leader.ErrFenced, 1, "k="},
		{"another election's", func(d *desk) { d.have(guard, "taken") }, 0, leader.ErrIncompatibleBucket, 0, "k="},
		{"moved", func(d *desk) { d.have(guard, "mine") }, 0, nil, 0, "k= k="},
		{"gone, and the term over", func(d *desk) { delete(d.stored, guard); close(d.over) }, 0, leader.ErrFenced, 1, "k="},
		{"gone, and raised again", func(d *desk) {
			d.have(guard, "junk")
			time.AfterFunc(700*time.Millisecond, func() { d.Move(d.have(guard, "mine"), true) })
		}, 700 * time.Millisecond, nil, 1, "k= k="},
		{"gone, and found again", func(d *desk) {
			d.have(guard, "junk")
			time.AfterFunc(700*time.Millisecond, func() { d.have(guard, "mine") })
		}, time.Second, nil, 1, "k= k= k="},
	} {
		t.Run(k.name, func(t *testing.T) {
			atDesk(t, 1, func(d *desk) {
				k.found(d)
				c := d.within(0, aPut)
				d.until(2 * time.Second)
				c.is(k.after, k.want)
				d.mu.Lock()
				check.That(t, !slices.Contains(d.asked, "$JS.API.STREAM.INFO.KV_B"),
					"the settings were read, although the guard is the reason")
				d.mu.Unlock()
				n := d.suspected()
				check.That(t, n == k.suspects, "reported %d times", n)
				check.Equal(t, d.came(), k.came, "sent: %s")
			})
		})
	}
}

// A term that was passed sends nothing more.
func TestInsist_Passed(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		d.passed = true
		d.write("a", "1").is(0, leader.ErrFenced)
		d.pair("a").is(0, leader.ErrFenced)
		came := d.came()
		check.That(t, came == "", "sent: %s", came)
	})
}

// A rejection whose reason cannot be read is no outcome. The write is tried again, until its
// caller gives up.
func TestExplain_WithoutAnswer(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		d.follow(func(_ *nats.Msg, nth int) []byte {
			if nth == 0 {
				return silence
			}
			return refused
		})
		c := d.within(time.Minute, aPut)
		d.until(5*time.Second - 1)
		came := d.came()
		check.That(t, came == "k=", "sent: %s", came)
		d.follow(nil)
		d.until(5 * time.Second)
		c.is(5 * time.Second)
		d.follow(func(_ *nats.Msg, nth int) []byte {
			if nth == 0 {
				return refusal(500, 10099, "broken")
			}
			return refused
		})
		c = d.within(time.Minute, aPut)
		c.is(5*time.Second, &jetstream.APIError{ErrorCode: 10099})
	})
}

// A try of a batch ends after 5 s, also for a caller with more time.
func TestDeliver_LimitOfATry(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		d.follow(held)
		c := d.within(time.Minute, aCreate)
		d.until(5 * time.Second)
		c.is(5*time.Second, ErrUnknownOutcome)
		d.idle()
	})
}

// A guard that was raised again while it was read is not awaited.
func TestRaisedAgain_Meanwhile(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		d.Move(3, true)
		c := d.begin(func() error { return d.w.l.raisedAgain(d.Context(), 1) })
		c.is(0)
		n := d.suspected()
		check.That(t, n == 0, "reported %d times", n)
	})
}

// Each try of a patient caller has a time of its own.
func TestSendDirect_TriesAfresh(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		d.replies(notNow, notNow, nil)
		d.within(time.Hour, aPut).is(0)
	})
}
