package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
	"github.com/natsleader/natsleader/seats"
)

// ensured returns the bucket E of EnsureBucket, as a process with that client sees it.
func (cl *client) ensured(w *world, cfg leader.BucketConfig) *leader.Bucket {
	w.Helper()
	cfg.Name = "E"
	b := check.Got(leader.EnsureBucket(cl.js, cfg))(w)
	w.opened(b)
	return b
}

// standOn makes a candidate in the election "e" of that bucket.
func (w *world) standOn(cl *client, b *leader.Bucket, cfg leader.Config) *candidate {
	w.Helper()
	lc := check.Got(leader.Campaign(w.Context(), b, "e", cfg))(w)
	c := &candidate{Candidate: lc, client: cl, read: make(chan struct{})}
	w.stands = append(w.stands, c)
	go c.record(w.T, w.zero, w.checker("e"))
	return c
}

// standEnsured makes a candidate on a bucket of EnsureBucket and a connection of its own.
func (w *world) standEnsured(id string, cfg leader.BucketConfig) *candidate {
	w.Helper()
	cl := w.dial(id)
	return w.standOn(cl, cl.ensured(w, cfg), leader.Config{ID: id})
}

// streams returns the names of the streams on the server.
func (w *world) streams() string {
	w.Helper()
	var names []string
	lister := w.ops.js.StreamNames(w.Context())
	for name := range lister.Name() {
		names = append(names, name)
	}
	w.ok(lister.Err())
	return strings.Join(names, " ")
}

// deleteBucket is the act of an operator.
func (w *world) deleteBucket() {
	w.Helper()
	w.ok(w.ops.js.DeleteStream(w.Context(), "KV_E"))
}

// The first candidate creates the bucket with the given settings, and its roster. EnsureBucket
// itself asks nothing.
func TestEnsure_FirstCandidateCreates(t *testing.T) {
	for _, roster := range []bool{false, true} {
		bubble(t, func(w *world) {
			cfg := leader.BucketConfig{MaxLease: lease, Roster: roster, Description: "elections"}
			a, b := w.dial("a"), w.dial("b")
			of := map[*client]*leader.Bucket{a: a.ensured(w, cfg), b: b.ensured(w, cfg)}
			w.at(time.Second)
			check.Equal(w, w.streams(), "", "there are %s before there is a candidate")
			ca := w.standOn(a, of[a], leader.Config{ID: "a"})
			ca.saw(w.T, "1s pending", "1s elected")
			asB := leader.Config{ID: "b"}
			if roster {
				asB.Queue = &leader.Queue{AtOnce: true}
			}
			cb := w.standOn(b, of[b], asB)
			cb.saw(w.T, "1s observed a")
			info := check.Got(of[b].Info(w.Context()))(w)
			if info.MaxLease != lease || !info.PurgeProtected || info.Roster != roster || info.Description != "elections" || info.FeedSubject == "" {
				w.Errorf("the bucket is %+v", info)
			}
			want := "KV_E"
			if roster {
				want = "KV_E KV_E_roster"
			}
			check.Equal(w, w.streams(), want, "there are %s")
			w.at(time.Minute)
			ca.saw(w.T)
			cb.saw(w.T)
		})
	}
}

// A candidate may begin before there is a server.
func TestEnsure_BeforeServer(t *testing.T) {
	bubble(t, func(w *world) {
		w.stopServer()
		cl := w.dial("a", nats.RetryOnFailedConnect(true))
		a := w.standOn(cl, cl.ensured(w, leader.BucketConfig{}), leader.Config{ID: "a"})
		w.at(time.Minute)
		a.saw(w.T, "0s faulted unreachable")
		w.startServer()
		w.at(time.Minute + 7*time.Second) // the longest pause is 6.25 s
		told := a.news()
		if len(told) != 2 || !strings.HasSuffix(told[0], "pending") || !strings.HasSuffix(told[1], "elected") {
			w.Errorf("saw %q", told)
		}
	})
}

// Eight processes with two settings of MaxLease begin at the same time. One of them creates
// the bucket. The others use it, and those with the other setting report the difference once.
func TestEnsure_Race(t *testing.T) {
	bubble(t, func(w *world) {
		var all []*candidate
		for n := range 8 {
			all = append(all, w.standEnsured(fmt.Sprint("c", n), leader.BucketConfig{MaxLease: lease << (n % 2)}))
		}
		w.at(time.Second)
		info := check.Got(all[0].bucket(t).Info(w.Context()))(w)
		w.at(10 * time.Minute)
		elected := 0
		for n, c := range all {
			wants, differs, told := lease<<(n%2), 0, c.news()
			for _, e := range told {
				switch {
				case strings.Contains(e, "elected"):
					elected++
				case strings.Contains(e, fmt.Sprintf("bucket E has MaxLease %v, not %v", info.MaxLease, wants)):
					differs++
				case strings.Contains(e, "faulted"):
					w.Errorf("c%d: %s", n, e)
				}
			}
			want := map[bool]int{false: 1}[wants == info.MaxLease]
			check.That(w, differs == want, "c%d reports the difference %d times, want %d: %q", n, differs, want, told)
		}
		check.That(w, elected == 1, "%d elections, want one", elected)
	})
}

// A bucket that exists is not changed. The first setting that differs is reported once, also
// by a candidate with several seats and after reconnections, and again if it is another one.
func TestEnsure_ReportsDifferenceOnce(t *testing.T) {
	inOrdinary(t, func(w *world) {
		cl := w.dial("a")
		b := cl.ensured(w, leader.BucketConfig{})
		one := check.Got(leader.Campaign(w.Context(), b, "one", leader.Config{ID: "a", LeaseDuration: lease}))(w)
		several, err := leader.Campaign(w.Context(), seats.Of(b, 3), "several", leader.Config{ID: "a", LeaseDuration: lease})
		w.ok(err)
		w.at(time.Minute)
		cl.cut()
		w.at(2 * time.Minute)
		cl.open()
		w.at(3 * time.Minute)
		stream := check.Got(w.ops.js.Stream(w.Context(), "KV_E"))(w)
		conf := stream.CachedInfo().Config
		check.That(w, !conf.DenyPurge && (len(conf.Metadata) <= 1 || conf.Metadata["natsleader.max_lease"] == ""),
			"the bucket was changed: %+v", conf)
		conf.MaxAge = time.Hour
		conf.Duplicates = time.Minute
		check.Got(w.ops.js.UpdateStream(w.Context(), conf))(w)
		cl.cut()
		w.at(4 * time.Minute)
		cl.open()
		w.at(5 * time.Minute)
		for _, c := range []*leader.Candidate{one, several} {
			w.ok(c.Stop())
			var told []string
			for e := range c.Events(w.Context()) {
				if f, ok := e.(leader.Faulted); ok && errors.Is(f.Err, leader.ErrBucketDiffers) {
					told = append(told, f.Err.Error())
				}
			}
			const prefix = "leader: the bucket differs from the settings of EnsureBucket: bucket E "
			if len(told) != 2 || told[0] != prefix+"has PurgeProtected false, not true; it is used as it is" ||
				told[1] != prefix+"has TTL 1h0m0s, not none; it is used as it is" {
				w.Errorf("%s: %q", c.Election(), told)
			}
			n := c.Stats().Faults[leader.ErrBucketDiffers]
			check.That(w, n == 2, "%s: counted %d times", c.Election(), n)
		}
	})
}

// A bucket that was seen is not created again, neither under the leader nor later. When an
// operator has made it again, the candidates go on.
func TestEnsure_NeverAnew(t *testing.T) {
	bubble(t, func(w *world) {
		cfg := leader.BucketConfig{MaxLease: lease}
		a, cl := w.standEnsured("a", cfg), w.dial("b")
		stored := cl.ensured(w, cfg)
		same := check.Got(stored.WithFeedSubject("natsleader.feed.E"))(w)
		w.at(time.Second)
		_, err := stored.Info(w.Context()) // the bucket that was made of it has not asked yet
		w.ok(err)
		w.deleteBucket()
		b := w.standOn(cl, same, leader.Config{ID: "b"})
		w.at(10 * time.Minute)
		check.Equal(w, w.streams(), "", "there is %s again")
		if got := strings.Join(a.without("unreachable", "no bucket"), ", "); got != "0s pending, 0s elected, 5.8s fenced expired" {
			w.Errorf("a saw %s", got) // it cannot find out that the key is gone
		}
		b.saw(w.T, "1s faulted no bucket")
		w.sealed()
		w.at(w.now() + time.Minute)
		if !a.IsLeader() && !b.IsLeader() {
			w.Errorf("nobody leads: %q, %q", a.news(), b.news())
		}
	})
}

// A process that has never seen the bucket creates it again, and leads at once. The leader of
// the deleted bucket hears of the first record and is deposed at that moment. Until then, and
// until its lease is over if it is cut off, there are two leaders. See docs/production.md.
func TestEnsure_DeletedUnderLeader(t *testing.T) {
	for _, isCut := range []bool{false, true} {
		bubble(t, func(w *world) {
			cfg := leader.BucketConfig{MaxLease: lease}
			cl := w.dial("a")
			a := check.Got(leader.Campaign(w.Context(), cl.ensured(w, cfg), "e", leader.Config{ID: "a"}))(w)
			w.at(10 * time.Second)
			term, ok := a.Term()
			check.Must(w, ok, "a does not lead")
			if isCut {
				cl.cut()
			}
			w.deleteBucket()
			b := w.standEnsured("b", cfg)
			b.saw(w.T, "10s pending", "10s elected")
			check.Equal(w, leader.Err(term.Context()) == nil, isCut, "a leads: %v")
			newer := b.lastTerm(w.T).Token()
			check.That(w, newer > term.Token(), "tokens %d, then %d", term.Token(), newer)
			w.at(10*time.Second + deadline)
			check.That(w, leader.Err(term.Context()) != nil, "the term of a goes on beyond its lease")
			cl.open()
			w.ok(a.Stop())
		})
	}
}

// Observers and functions that ask once create nothing. An observer sees the leader when
// there is one.
func TestEnsure_ReadersCreateNothing(t *testing.T) {
	bubble(t, func(w *world) {
		cl := w.dial("reader")
		b := cl.ensured(w, leader.BucketConfig{Roster: true})
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		holders := check.Got(leader.Observe(ctx, b, "e"))(w)
		_, err := leader.Lookup(w.Context(), b, "e")
		for what, err := range map[string]error{
			"Lookup":        err,
			"Info":          check.Err(b.Info(w.Context())),
			"roster.Lookup": check.Err(roster.Lookup(w.Context(), b, "e")),
			"StepDown":      check.Err(leader.StepDown(w.Context(), b, "e", leader.StepDownOptions{By: ""})),
		} {
			if !errors.Is(err, leader.ErrNoBucket) || !strings.HasPrefix(err.Error(), "leader: bucket E does not exist: make it with leader.CreateOrUpdateBucket or leader.EnsureBucket") {
				w.Errorf("%s: %v", what, err)
			}
		}
		_, err = roster.Observe(w.Context(), b, "e")
		check.That(w, errors.Is(err, leader.ErrNoRoster), "roster.Observe: %v", err)
		w.at(time.Minute)
		check.Equal(w, w.streams(), "", "there are %s")
		select {
		case h := <-holders:
			w.Errorf("the observer reports %v", h)
		default:
		}
		w.standEnsured("a", leader.BucketConfig{})
		w.at(w.now() + 10*time.Second)
		var seen leader.Holder
		for seen.ID == "" {
			seen = check.Comes(w, "the observer's report of a leader", holders)
		}
		check.That(w, seen.ID == "a", "the observer reports %v", seen)
		cancel()
		for range holders {
		}
	})
}

// Settings that cannot work are an error of EnsureBucket, and of CreateOrUpdateBucket.
func TestEnsure_InvalidConfig(t *testing.T) {
	bubble(t, func(w *world) {
		for text, cfg := range map[string]leader.BucketConfig{
			`bucket "a.b" must be letters`:          {Name: "a.b"},
			`Replicas 2 is not 1, 3 or 5`:           {Name: "E", Replicas: 2},
			`MaxLease -1s is negative`:              {Name: "E", MaxLease: -time.Second},
			`MaxLease 1ms is less than 100ms`:       {Name: "E", MaxLease: time.Millisecond},
			`MaxLease 1000h0m0s is more than 24h0m`: {Name: "E", MaxLease: 1000 * time.Hour},
			`MaxLease 10s is not less than TTL`:     {Name: "E", MaxLease: 10 * time.Second, TTL: 10 * time.Second},
		} {
			check.Says(w, check.Err(leader.EnsureBucket(w.ops.js, cfg)), leader.ErrInvalidConfig, text)
			check.Says(w, check.Err(leader.CreateOrUpdateBucket(w.Context(), w.ops.js, cfg)), leader.ErrInvalidConfig, text)
		}
		adopt := leader.BucketConfig{Name: "E", Adopt: true}
		check.Says(w, check.Err(leader.EnsureBucket(w.ops.js, adopt)), leader.ErrInvalidConfig, `Adopt is for CreateOrUpdateBucket`)
		check.Is(w, check.Err(leader.EnsureBucket(nil, leader.BucketConfig{Name: "E"})), leader.ErrInvalidConfig)
	})
}

// What the server refuses to create is one fault, however often it is tried. A bucket that an
// operator makes meanwhile is used.
func TestEnsure_Refused(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.standEnsured("a", leader.BucketConfig{Replicas: 3})
		w.at(time.Hour)
		told := a.news()
		if len(told) != 1 || !strings.HasPrefix(told[0], "0s faulted create bucket E: leader: invalid configuration: Replicas is more than the server can keep") {
			w.Errorf("saw %q", told)
		}
		w.create(leader.BucketConfig{})
		w.at(w.now() + 10*time.Second)
		told = a.news()
		if len(told) != 3 || !strings.Contains(told[0], "bucket E has Replicas 1, not 3") && !strings.Contains(told[2], "bucket E has Replicas 1, not 3") {
			w.Errorf("saw %q", told)
		}
	})
}
