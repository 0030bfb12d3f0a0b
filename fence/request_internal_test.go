package fence

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/leader"
)

const guardSubject = "$KV.B.natsleader.guard"

// update begins an Update of the key k.
func (d *desk) update(last uint64) *call {
	return d.begin(func() error {
		_, err := d.w.Update(d.Context(), "k", []byte("new"), last)
		return err
	})
}

// headers returns the headers of the writes that came, without the parts that are random.
func (d *desk) headers() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	short := strings.NewReplacer("Nats-Expected-Last-Subject-Sequence-Subject", "on", "Nats-Expected-Last-Subject-Sequence", "at",
		"Nats-Batch-Id", "batch", "Nats-Batch-Sequence", "nth", "Nats-Batch-Commit", "commit", "Nats-Msg-Id", "id", "$KV.B.", "", "natsleader.", "")
	ids := map[string]string{}
	for _, m := range d.got {
		var text []string
		for _, name := range slices.Sorted(maps.Keys(m.Header)) {
			value := strings.Join(m.Header[name], ",")
			if head, tail, _ := strings.Cut(value, "."); len(head) == 26 {
				if ids[head] == "" {
					ids[head] = string(rune('A' + len(ids)))
				}
				value = ids[head] + tail
			}
			text = append(text, name+"="+value)
		}
		all = append(all, short.Replace(m.Subject+" "+strings.Join(text, " ")))
	}
	return all
}

// The messages of a request carry one condition each. One of them is on the guard. With
// replicas they have an ID, which is that of all tries.
func TestPack_Headers(t *testing.T) {
	for _, k := range []struct {
		name     string
		replicas int
		write    func(d *desk) error
		want     []string
		revision uint64 // of the guard
	}{
		{"a put", 1, func(d *desk) error { return aPut(d.Context(), d.w) }, []string{"k at=1 on=guard"}, 1},
		{"a put with replicas", 3, func(d *desk) error { return aPut(d.Context(), d.w) }, []string{"k at=1 on=guard id=A"}, 1},
		{"an update", 1, func(d *desk) error {
			revision, err := d.w.Update(d.Context(), "k", nil, 2)
			check.That(d, revision == 3, "the revision is %d", revision)
			return err
		}, []string{"k batch=A0 nth=1 at=2 on=k", "guard commit=1 batch=A0 nth=2 at=1"}, 4},
		{"an update with replicas", 3, func(d *desk) error {
			_, err := d.w.Update(d.Context(), "k", nil, 2)
			return err
		}, []string{"k batch=A1 nth=1 at=2 on=k id=A", "guard commit=1 batch=A1 nth=2 at=1"}, 4},
		{"a batch", 3, func(d *desk) error {
			var revisions []uint64
			err := aBatch(&revisions, "a", "b", "a")(d.Context(), d.w)
			check.That(d, slices.Equal(revisions, []uint64{3, 4, 5}), "the revisions are %d", revisions)
			return err
		}, []string{"a batch=A1 nth=1 at=1 on=guard id=A", "b batch=A1 nth=2", "a commit=1 batch=A1 nth=3"}, 1},
		{"a batch after an unknown outcome", 1, func(d *desk) error {
			d.w.l.unknownOutcome = true
			b := d.w.Batch()
			b.Put("a", nil)
			b.Delete("b")
			revisions, err := b.Commit(d.Context())
			check.That(d, slices.Equal(revisions, []uint64{3, 4}), "the revisions are %d", revisions)
			return err
		}, []string{"a batch=A0 nth=1", "b KV-Operation=DEL batch=A0 nth=2", "guard commit=1 batch=A0 nth=3 at=1"}, 5},
	} {
		atDesk(t, k.replicas, func(d *desk) {
			d.have("$KV.B.k", "old")
			c := d.begin(func() error { return k.write(d) })
			c.is(0)
			got := d.headers()
			check.That(t, slices.Equal(got, k.want),
				"%s:\n%s\nwant\n%s", k.name, strings.Join(got, "\n"), strings.Join(k.want, "\n"))
			now, _ := d.Current()
			check.That(t, now == k.revision, "%s: the guard is at %d", k.name, now)
			check.That(t, d.w.l.bytes == 0 && !d.w.l.unknownOutcome,
				"%s: %d bytes, unknown %v", k.name, d.w.l.bytes, d.w.l.unknownOutcome)
			d.idle()
		})
	}
}

// Several changes in one batch get their own revisions.
func TestStored_RevisionsOfABatch(t *testing.T) {
	atDesk(t, 3, func(d *desk) {
		var a []*nats.Msg
		d.only("a", &a)
		first := d.write("a", "1")
		var revisions []uint64
		batch := d.within(0, aBatch(&revisions, "b", "c"))
		var last uint64
		single := d.begin(func() (err error) {
			last, err = d.w.Put(d.Context(), "d", nil)
			return err
		})
		d.follow(nil)
		d.answer(a[0])
		first.is(0)
		batch.is(0)
		single.is(0)
		check.That(t, slices.Equal(revisions, []uint64{3, 4}) && last == 5, "%d and %d", revisions, last)
	})
}

// named is the refusal that names a sequence.
func named(sequence string) []byte { return refusal(400, 10071, "wrong last sequence: "+sequence) }

// stores stores the first try and replies otherwise. A server that does not lead the stream
// leads it at the next try.
func (d *desk) stores(reply []byte) {
	d.follow(func(m *nats.Msg, nth int) []byte {
		switch {
		case nth == 1:
			d.apply(m)
			return reply
		case nth == 0 || string(reply) == string(notNow):
			return nil
		}
		return reply
	})
}

// A leader that was deposed rejects what its successor stores. The writer finds its own
// message, and does not write it twice.
func TestSettle_StoredAndRejected(t *testing.T) {
	for name, reply := range map[string]func(highest string) []byte{
		"with the sequence of the condition": named,
		"with a lesser one":                  func(string) []byte { return named("0") },
		"with none":                          func(string) []byte { return refused },
		"by one that does not lead":          func(string) []byte { return notNow },
		"as stored before":                   func(string) []byte { return known },
	} {
		atDesk(t, 3, func(d *desk) {
			d.have("$KV.B.k", "old")
			var revision uint64
			d.stores(reply("2"))
			c := d.begin(func() (err error) {
				revision, err = d.w.Update(d.Context(), "k", []byte("new"), 2)
				return err
			})
			c.is(0)
			now, _ := d.Current()
			check.That(t, revision == 3 && now == 4,
				"rejected %s: the revision is %d, that of the guard %d", name, revision, now)
			d.stores(reply("4"))
			c = d.begin(func() (err error) {
				revision, err = d.w.Put(d.Context(), "k", []byte("new"))
				return err
			})
			c.is(0)
			check.That(t, revision == 5, "rejected %s: the revision is %d", name, revision)
		})
	}
}

// A sequence beyond the condition proves that the request was not stored. It is not sent
// again: the next try has another ID.
func TestSettle_ProvenByTheSequence(t *testing.T) {
	atDesk(t, 3, func(d *desk) {
		d.follow(func(_ *nats.Msg, nth int) []byte {
			if nth == 1 {
				return named("2")
			}
			return nil
		})
		d.write("k", "1").is(0)
		got := d.headers()
		check.That(t, slices.Equal(got, []string{"k at=1 on=guard id=A", "k at=1 on=guard id=B"}), "%q", got)
	})
}

// After a rejection without a sequence the condition's subject decides. Another's message that is newer than
// the condition allows is proof that the request was not stored. A message of the request is
// none, also if its last message was replaced since. Nor is what the server copied to a subject.
func TestSettle_OwnMessageIsNoProof(t *testing.T) {
	copied := func(m *nats.Msg) nats.Header {
		h := maps.Clone(m.Header)
		h[jetstream.StreamHeader] = []string{"KV_B"}
		return h
	}
	for _, k := range []struct {
		name     string
		first    func(d *desk, m *nats.Msg)
		tries    int // that are rejected
		at       time.Duration
		want     []error
		suspects bool
	}{
		{"stored, and the guard raised again", func(d *desk, m *nats.Msg) {
			d.apply(m)
			d.put(guardSubject, "mine", nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"4"}})
		}, 1000, 5 * time.Second, []error{ErrUnknownOutcome}, false},
		{"another's", func(d *desk, _ *nats.Msg) { d.put("$KV.B.k", "other", nil) }, 1000, 0, []error{jetstream.ErrKeyRevisionMismatch}, false},
		{"nothing newer", func(*desk, *nats.Msg) {}, 1, 0, nil, false},
		{"a copy at the condition", func(d *desk, m *nats.Msg) {
			d.put("$KV.B.k", "x", nats.Header{jetstream.StreamHeader: {"KV_B"}})
		}, 1000, 5 * time.Second, []error{ErrUnknownOutcome}, false},
		{"a copy of the last message", func(d *desk, m *nats.Msg) { d.put(guardSubject, "mine", copied(m)) }, 1000, 5 * time.Second, []error{ErrUnknownOutcome}, true},
		{"the guard gone", func(d *desk, _ *nats.Msg) { d.put(guardSubject, "junk", nil) }, 1000, 5 * time.Second, []error{ErrUnknownOutcome}, true},
	} {
		t.Run(k.name, func(t *testing.T) {
			atDesk(t, 3, func(d *desk) {
				d.have("$KV.B.k", "old")
				d.follow(func(m *nats.Msg, nth int) []byte {
					if nth == 1 {
						k.first(d, m)
					}
					if 0 < nth && nth <= k.tries {
						return refused
					}
					return nil
				})
				c := d.update(2)
				d.until(5 * time.Second)
				c.is(k.at, k.want...)
				got := d.suspected() > 0
				check.That(t, got == k.suspects, "the guard was reported: %v", got)
			})
		})
	}
}

// replies replies to one try after another. The last reply is that to all others.
func (d *desk) replies(all ...[]byte) {
	d.follow(func(_ *nats.Msg, nth int) []byte {
		if nth == 0 {
			return nil
		}
		return all[min(nth, len(all))-1]
	})
}

// What a request with replicas ends with depends on whether an earlier try may have been
// stored.
func TestSettle_Outcomes(t *testing.T) {
	broken := refusal(500, 10099, "broken")
	isBroken := &jetstream.APIError{ErrorCode: 10099}
	for _, k := range []struct {
		name    string
		window  time.Duration
		replies [][]byte
		at      time.Duration
		want    []error
	}{
		{"an error", 0, [][]byte{broken}, 0, []error{isBroken}},
		{"an error later", 0, [][]byte{notNow, broken}, 0, []error{ErrUnknownOutcome, isBroken}},
		{"no answer", 0, [][]byte{silence}, 5 * time.Second, []error{ErrUnknownOutcome}},
		{"never taken", 0, [][]byte{notNow}, 5 * time.Second, []error{ErrUnknownOutcome}},
		{"never taken, and a short memory", 4 * time.Second, [][]byte{notNow}, 2 * time.Second, []error{ErrUnknownOutcome}},
		{"as known, but not found", 4 * time.Second, [][]byte{known}, 2 * time.Second, []error{ErrUnknownOutcome}},
	} {
		atDesk(t, 3, func(d *desk) {
			d.conf.Duplicates = k.window
			check.OK(d, check.Err(d.bucket.settings(d.Context())))
			d.have("$KV.B.k", "old")
			d.replies(k.replies...)
			c := d.update(2)
			d.until(5 * time.Second)
			c.is(k.at, k.want...)
			if k.want[0] == ErrUnknownOutcome && !d.w.l.unknownOutcome { //nolint:errorlint // not wrapped
				t.Errorf("%s: the guard does not move", k.name)
			}
		})
	}
}

// A connection that is closed while a stored try is in doubt leaves the outcome unknown.
func TestSettle_ClosedInDoubt(t *testing.T) {
	for _, doubt := range []bool{true, false} {
		atDesk(t, 3, func(d *desk) {
			if doubt {
				d.replies(notNow)
			} else {
				d.follow(func(*nats.Msg, int) []byte { return nil })
				d.nc.Close()
			}
			c := d.pair("a")
			if doubt {
				d.until(100 * time.Millisecond)
				d.nc.Close()
				d.until(150 * time.Millisecond)
				c.is(113*time.Millisecond, ErrUnknownOutcome, leader.ErrConnectionClosed)
			} else {
				c.is(0, leader.ErrConnectionClosed)
			}
		})
	}
}

// A connection that is lost while a try is in doubt does not make the request a new one.
func TestSettle_LostInDoubt(t *testing.T) {
	atDesk(t, 3, func(d *desk) {
		d.replies(notNow)
		c := d.pair("a")
		d.until(100 * time.Millisecond)
		d.s.Shutdown()
		d.until(5 * time.Second)
		c.is(5*time.Second, ErrUnknownOutcome)
	})
}

// Where no server answers, no server has stored the write. It is sent as a new one.
func TestSettle_NoResponders(t *testing.T) {
	atDesk(t, 3, func(d *desk) {
		d.follow(func(m *nats.Msg, nth int) []byte {
			if nth == 0 {
				return nil
			}
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"503"}}})
			return silence
		})
		c := d.within(time.Second, aPut)
		d.until(time.Second)
		c.is(time.Second, context.DeadlineExceeded, errNotNow, nats.ErrNoResponders)
		d.until(2 * time.Second)
		d.idle()
	})
}

// A batch of which a message is missing is sent again under another name, and asks for a reply to
// each message, which says what is wrong with it. A reply is awaited for 1 s.
func TestStage_AfterMissingMessage(t *testing.T) {
	incomplete := refusal(400, jsapi.CodeBatchIncomplete, "atomic publish batch is incomplete")
	for _, k := range []struct {
		name     string
		replicas int
		staged   []byte // the reply to a message of the second try
		at       time.Duration
		want     []error
		names    string
	}{
		{"alone", 1, nil, 0, nil, "A0 A1"},
		{"with replicas", 3, nil, 0, nil, "A1 A2"},
		{"a bad message", 1, refusal(400, 10099, "bad"), 0, []error{errStage, &jetstream.APIError{ErrorCode: 10099}}, "A0"},
		{"a bad message with replicas", 3, refusal(400, 10099, "bad"), 0, []error{errStage, &jetstream.APIError{ErrorCode: 10099}}, "A1"},
		{"without a reply", 1, silence, time.Second, nil, "A0 B0"},
	} {
		t.Run(k.name, func(t *testing.T) {
			atDesk(t, k.replicas, func(d *desk) {
				d.follow(func(m *nats.Msg, nth int) []byte {
					switch {
					case nth == 1:
						return incomplete
					case nth == 0 && m.Header != nil && m.Reply != "":
						return k.staged
					}
					return nil
				})
				c := d.within(time.Minute, aBatch(new([]uint64), "a", "b"))
				d.until(time.Second)
				c.is(k.at, k.want...)
				var names []string
				for _, text := range d.headers() {
					if strings.HasPrefix(text, "b ") {
						names = append(names, text[strings.Index(text, "batch=")+6:][:2])
					}
				}
				got := strings.Join(names, " ")
				check.That(t, got == k.names, "batches %s, want %s", got, k.names)
			})
		})
	}
}

// A server alone that runs out of storage in the middle of a batch may have stored a part.
func TestSend_StorageFull(t *testing.T) {
	for _, code := range []int{jsapi.CodeResourcesExceeded, jsapi.CodeNoResources, jsapi.CodeStoreFailed, 10099} {
		for _, replicas := range []int{1, 3} {
			if replicas == 3 && code != jsapi.CodeStoreFailed {
				continue // it is not even looked at
			}
			atDesk(t, replicas, func(d *desk) {
				d.replies(refusal(500, code, "full"))
				want := []error{&jetstream.APIError{ErrorCode: jetstream.ErrorCode(code)}}
				d.write("a", "1").is(0, want...)
				if replicas == 1 && code != 10099 {
					want = append(want, ErrUnknownOutcome)
				}
				d.pair("a").is(0, want...)
			})
		}
	}
}

// A batch with a message that the connection does not take is not written. A connection that
// is down gets no part of it.
func TestPublish_NotTaken(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		c := d.begin(func() error {
			b := d.w.Batch()
			b.Put("a", make([]byte, 2<<20))
			b.Put("b", nil)
			_, err := b.Commit(d.Context())
			return err
		})
		c.is(0, leader.ErrValueTooLarge)
		d.write("a", strings.Repeat("x", 2<<20)).is(0, leader.ErrValueTooLarge)
		d.idle()
		w := d.streamWriter()
		var ack jetstream.PubAck
		bad := &nats.Msg{Subject: "$KV.B.a", Header: nats.Header{"a:b": {"1"}}}
		d.came()
		d.publish(w, &ack, bad, &nats.Msg{Subject: "$KV.B.b"}).is(0, nats.ErrBadHeaderMsg)
		d.publish(w, &ack, bad).is(0, nats.ErrBadHeaderMsg)
		check.Equal(t, d.came(), "", "written: %s")
		sent := d.nc.Stats().OutMsgs
		d.s.Shutdown()
		d.came()
		c = d.within(time.Second, aCreate)
		d.until(time.Second)
		c.is(time.Second, context.DeadlineExceeded, errNotNow, leader.ErrUnreachable)
		now := d.nc.Stats().OutMsgs
		check.That(t, now == sent, "%d messages were sent", now-sent)
	})
}

// A batch that was stored and rejected is found at the last of its messages, also if those
// before it were replaced.
func TestSettle_BatchFound(t *testing.T) {
	atDesk(t, 3, func(d *desk) {
		var a []*nats.Msg
		d.only("a", &a)
		first := d.write("a", "1")
		var revisions []uint64
		pair, last := d.within(0, aBatch(new([]uint64), "b", "c")), d.within(0, aBatch(&revisions, "d", "e"))
		d.follow(func(m *nats.Msg, nth int) []byte {
			if nth != 1 {
				return nil
			}
			d.apply(m)
			for _, key := range []string{"b", "c", "d"} {
				d.put("$KV.B."+key, "", nil)
			}
			return refused
		})
		d.answer(a[0])
		d.until(5 * time.Second)
		first.is(0)
		pair.is(0)
		last.is(0)
		check.That(t, slices.Equal(revisions, []uint64{5, 6}), "%d", revisions)
	})
}

// A server that knows the ID has stored the request, whatever is newer now. A message without
// a condition rejects nothing.
func TestSettle_KnownIsNoRejection(t *testing.T) {
	for _, reply := range [][]byte{known, refused} {
		atDesk(t, 3, func(d *desk) {
			d.have("$KV.B.k", "old")
			d.follow(func(m *nats.Msg, nth int) []byte {
				if nth == 1 && string(reply) == string(known) {
					d.put("$KV.B.k", "other", nil)
				}
				if nth > 0 {
					return reply
				}
				return nil
			})
			c := d.begin(func() error {
				if string(reply) == string(refused) { // k is newer than no condition of it
					_, err := d.w.Put(d.Context(), "k", nil)
					return err
				}
				_, err := d.w.Update(d.Context(), "k", nil, 2)
				return err
			})
			d.until(5 * time.Second)
			c.is(5*time.Second, ErrUnknownOutcome)
		})
	}
}
