package leader_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// CreateOrUpdateBucket refuses a bucket of an application. A mistyped name must not cost an
// application its data.
func TestCreateBucket_RefusesForeignBucket(t *testing.T) {
	const record = `{"v":1,"state":"released","id":"a","session":"s","n":3,"lease":"15s","token":1}`
	for _, k := range []struct {
		name  string
		cfg   jetstream.KeyValueConfig
		fill  func(w *world, kv jetstream.KeyValue) error
		text  string // of the error; empty: it is taken
		adopt bool
	}{
		{name: "empty", cfg: jetstream.KeyValueConfig{History: 5}},
		{
			name: "records of elections",
			fill: func(w *world, kv jetstream.KeyValue) error {
				w.write(kv, "e", record)
				return nil
			},
		},
		{
			name: "nothing but markers",
			fill: func(w *world, kv jetstream.KeyValue) error { return kv.Delete(w.Context(), "e") },
		},
		{
			name: "a history", cfg: jetstream.KeyValueConfig{History: 5},
			fill: func(w *world, kv jetstream.KeyValue) error {
				w.write(kv, "e", record)
				w.write(kv, "e", record)
				return nil
			},
			text: "stream KV_E exists and holds 2 messages of 1 keys, and only the newest of each would be kept: take another name, or set Adopt",
		},
		{
			name: "values",
			fill: func(w *world, kv jetstream.KeyValue) error {
				w.write(kv, "a", record)
				w.write(kv, "price", "17")
				return nil
			},
			text: `stream KV_E exists and the key "price" holds what is no record of an election, and the bucket would deny purges for good: take another name, or set Adopt`,
		},
		{
			name: "records of clients that count on its TTL", cfg: jetstream.KeyValueConfig{TTL: 321 * time.Second},
			fill: func(w *world, kv jetstream.KeyValue) error {
				w.write(kv, "e", record)
				return nil
			},
			text: "stream KV_E exists and has a TTL of 5m21s, by which clients may end the leases of its 1 keys: set that TTL, or set Adopt to take it off",
		},
	} {
		inBubble.run(t, k.name, func(t *testing.T, w *world) {
			k.cfg.Bucket = "E"
			kv := check.Got(w.ops.js.CreateKeyValue(w.Context(), k.cfg))(w)
			if k.fill != nil {
				w.ok(k.fill(w, kv))
			}
			before := w.settings("KV_E")
			_, err := leader.CreateOrUpdateBucket(w.Context(), w.ops.js, leader.BucketConfig{Name: "E"})
			if k.text == "" {
				w.ok(err)
				return
			}
			check.Must(t, errors.Is(err, leader.ErrIncompatibleBucket) && strings.HasSuffix(err.Error(), k.text),
				"got %v", err)
			if after := w.settings("KV_E"); after.DenyPurge || after.MaxAge != before.MaxAge || after.MaxMsgsPerSubject != before.MaxMsgsPerSubject || len(after.Metadata[`natsleader.max_lease`]) > 0 {
				t.Errorf("it was changed: %+v", after)
			}
			b := check.Got(leader.CreateOrUpdateBucket(w.Context(), w.ops.js, leader.BucketConfig{Name: "E", Adopt: true}))(w)
			if info, err := b.Info(w.Context()); err != nil || !info.PurgeProtected {
				t.Errorf("not adopted: %+v, %v", info, err)
			}
			w.create(leader.BucketConfig{}) // it is the library's own now
		})
	}
}

// CreateOrUpdateBucket refuses a MaxLease below a running lease. A MaxLease below a lease that
// may be running would let another candidate lead beside its holder.
func TestCreateBucket_LowersNoMaxLease(t *testing.T) {
	lower := func(w *world) error {
		_, err := leader.CreateOrUpdateBucket(w.Context(), w.ops.js, leader.BucketConfig{Name: "E", MaxLease: time.Second})
		return err
	}
	refused := func(w *world, who string) {
		w.Helper()
		err := lower(w)
		stream, failed := w.ops.js.Stream(w.Context(), "KV_E")
		w.ok(failed)
		last, failed := stream.GetLastMsgForSubject(w.Context(), "$KV.E.e")
		w.ok(failed)
		text := "MaxLease 1s is less than a lease of 6s that may be running in the election \"e\", " + who
		since := "after its last record, of " + last.Time.UTC().Format(time.RFC3339)
		if !errors.Is(err, leader.ErrIncompatibleBucket) || !strings.Contains(err.Error(), text) || !strings.HasSuffix(err.Error(), since) {
			w.Errorf("at %v: %v", w.now(), err)
		}
	}
	for name, test := range map[string]func(w *world, a *candidate){
		"held until its candidate stops": func(w *world, a *candidate) {
			refused(w, "which \"a\" holds")
			w.ok(a.Stop())
		},
		"held by a candidate that is gone": func(w *world, a *candidate) {
			a.cut() // its last record is of 20 s
			w.at(20*time.Second + lease + time.Minute)
			refused(w, "which \"a\" holds")
			w.at(w.now() + time.Nanosecond)
		},
		"deleted": func(w *world, a *candidate) {
			a.cut()
			w.ok(w.kv().Delete(w.Context(), "e"))
			refused(w, "whose leader is not known")
			w.at(w.now() + lease + time.Minute + time.Nanosecond)
		},
		"deleted with the record that was held": func(w *world, a *candidate) {
			a.cut()
			e := check.Got(w.kv().Get(w.Context(), "e"))(w)
			short := bytes.Replace(e.Value(), []byte(`"lease":"6s"`), []byte(`"lease":"500ms"`), 1) // after a longer one
			for _, value := range [][]byte{e.Value(), short} {
				_, err := w.ops.js.PublishMsg(w.Context(), &nats.Msg{Subject: "$KV.E.e", Header: nats.Header{"KV-Operation": {"DEL"}}, Data: value})
				w.ok(err)
				refused(w, "which \"a\" held when it was deleted")
			}
			w.at(w.now() + lease + time.Minute + time.Nanosecond)
		},
	} {
		inSealed.run(t, name, func(t *testing.T, w *world) {
			a := w.stand("a")
			w.at(20500 * time.Millisecond)
			test(w, a)
			err := lower(w)
			check.That(t, err == nil, "at %v: %v", w.now(), err)
		})
	}
}

// The roster of a bucket is no bucket for elections, whichever way it was opened. Nothing is
// written to it.
func TestRosterBucket_HoldsNoElections(t *testing.T) {
	const text = `stream KV_E_roster %sis the roster of bucket "E": elections need another bucket`
	inRostered(t, func(w *world) {
		before := w.settings("KV_E_roster")
		cl := w.dial("a")
		_, err := leader.CreateOrUpdateBucket(w.Context(), cl.js, leader.BucketConfig{Name: "E_roster"})
		check.Says(t, err, leader.ErrIncompatibleBucket, fmt.Sprintf(text, "exists and "))
		opened := check.Got(leader.OpenBucket(cl.js, "E_roster"))(w)
		ensured := check.Got(leader.EnsureBucket(cl.js, leader.BucketConfig{Name: "E_roster"}))(w)
		for name, b := range map[string]*leader.Bucket{"OpenBucket": opened, "EnsureBucket": ensured} {
			begun := w.now()
			c := w.standOn(cl, b, leader.Config{ID: name})
			w.at(w.now() + 2*lease)
			c.saw(t, fmt.Sprintf("%v faulted unfit", begun))
			if _, err = b.Info(w.Context()); !errors.Is(err, leader.ErrIncompatibleBucket) || !strings.Contains(err.Error(), fmt.Sprintf(text, "")) {
				t.Errorf("%s: Info: %v", name, err)
			}
		}
		after := w.settings("KV_E_roster")
		check.That(t, reflect.DeepEqual(after, before), "the roster is now %+v", after)
		s := check.Got(cl.js.Stream(w.Context(), "KV_E_roster"))(w)
		check.Equal(t, s.CachedInfo().State.Msgs, 0, "%d messages in the roster")
	})
}

// The revisions of a bucket that was made anew do not meet the old ones, however many
// were written to either bucket. So the old leader notices.
func TestRecreatedBucket_Revisions(t *testing.T) {
	bubble(t, func(w *world) {
		w.create(leader.BucketConfig{MaxLease: lease, Roster: true})
		b := w.ops.bucket(t)
		old := w.apart("old") // two lead at the same time here
		w.at(2500 * time.Millisecond)
		before := old.lastTerm(t)
		held := check.Got(leader.Lookup(w.Context(), b, "e"))(w)

		old.detain(up) // it is cut off, and its renewals come late
		w.ok(w.ops.js.DeleteStream(w.Context(), "KV_E"))
		w.ok(w.ops.js.DeleteStream(w.Context(), "KV_E_roster"))
		w.create(leader.BucketConfig{MaxLease: lease, Roster: true})
		for range held.Revision - before.Token() { // revisions that began at 1 would meet
			check.Got(w.kv().Put(w.Context(), "other", nil))(w)
		}
		successor := w.apart("new")
		w.at(3 * time.Second)
		term := successor.lastTerm(t)
		check.Must(t, leader.Err(before.Context()) == nil, "the old leader is fenced already, and this shows nothing")
		check.That(t, term.Token() > before.Token(), "token %d after %d", term.Token(), before.Token())
		now, err := leader.Lookup(w.Context(), b, "e")
		check.That(t, err == nil && now.ID == "new" && now.Revision > held.Revision,
			"%+v after %+v, %v", now, held, err)
		old.open()
		w.at(4 * time.Second)
		check.That(t, leader.Err(before.Context()) != nil, "the old leader leads on")
		if now, err := leader.Lookup(w.Context(), b, "e"); err != nil || now.ID != "new" {
			t.Errorf("its record was overwritten: %+v, %v", now, err)
		}
		if got := strings.Join(old.news(), "|"); !strings.Contains(got, "regressed") && !strings.Contains(got, "overtaken") && !strings.Contains(got, "preempted") {
			t.Errorf("old saw %s", got)
		}
		check.Is(t, check.Err(w.ops.js.Stream(w.Context(), "KV_E_roster")), nil)
		for _, name := range []string{"KV_E", "KV_E_roster"} {
			c := w.settings(name)
			check.That(t, c.FirstSeq >= 900_000_000_000_000, "%s begins at %d", name, c.FirstSeq)
		}
	})
}

// A leader whose bucket was deleted and made anew finds that its record was lost, also when
// another candidate holds the key of the new bucket by then.
func TestRecreatedBucket_LeaderReportsLostWrites(t *testing.T) {
	for _, k := range []struct {
		name string
		take func(*world)
		sees []string
	}{
		{"a new process", func(w *world) { w.apart("new") }, []string{"10s observed new"}},
		{"a foreign client", func(w *world) {
			check.Got(w.kv().Put(w.Context(), "e", []byte("x")))(w)
		}, []string{"10s faulted foreign", "10s observed foreign"}},
	} {
		inSealed.run(t, k.name, func(t *testing.T, w *world) {
			old := w.apart("old")
			w.at(10 * time.Second)
			old.news()
			w.deleteBucket()
			w.sealed()
			k.take(w)
			w.at(11 * time.Second)
			old.saw(t, append([]string{"10s faulted regressed", "10s deposed regressed", "10s observed nobody"}, k.sees...)...)
		})
	}
}

// apart makes a candidate whose leadership is not compared with that of others.
func (w *world) apart(id string) *candidate {
	w.Helper()
	c := w.mute(w.Context(), w.dial(id), "e", leader.Config{ID: id})
	c.read = make(chan struct{})
	w.stands = append(w.stands, c)
	go c.record(w.T, w.zero, newElectionChecker())
	return c
}
