package keys_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/keys"
	"github.com/natsleader/natsleader/leader"
)

// Work begins when its key is put, learns new values without a restart, and ends when the key is deleted, each at once.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.tenants.Put("t.old", []byte("0"))
		f.start("a")
		time.Sleep(coldStart)
		check.Equal(t, f.said(), "a begins t.old=0", "%s")
		f.tenants.Put("t.new", []byte("1"))
		check.Equal(t, f.said(), "a begins t.new=1", "%s")
		k := f.owners["t.new"]
		check.That(t, !check.Now(k.Changed()), "the value has changed")
		check.That(t, strings.HasPrefix(fmt.Sprint(k.Context()), "leader.Exact("), "the context does not ask the clock: %v", k.Context())
		f.tenants.Put("t.new", []byte("2"))
		f.tenants.Put("other", []byte("2"))
		check.Equal(t, f.said(), "", "%s")
		check.Must(t, check.Now(k.Changed()), "the work does not learn that there is a new value")
		check.Equal(t, string(k.Entry().Value), "2", "the value is %s")
		f.tenants.Delete("t.old")
		check.Equal(t, f.said(), "a ends t.old: keys: the key was deleted", "%s")
		f.tenants.Delete("t.new")
		f.tenants.Put("t.new", []byte("3"))
		check.Equal(t, f.said(), "a ends t.new: keys: the key was deleted\na begins t.new=3", "%s")
		term, _ := leader.FromContext(f.owners["t.new"].Context())
		check.Equal(t, f.owners["t.new"].Token(), term.Token(), "the token is %d")
		check.That(t, f.owners["t.new"].Writer() == nil, "there is a writer without guards")
	})
}

// The work on a key that is deleted and put again begins when the work before has returned, and not sooner.
func TestLife_BeginsAfterTheWorkBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.work = func(_ *process, k *keys.Key) {
			<-k.Context().Done()
			time.Sleep(7 * time.Second)
		}
		f.start("a")
		f.tenants.Put("t.k", []byte("1"))
		time.Sleep(coldStart)
		f.tenants.Delete("t.k")
		f.tenants.Put("t.k", []byte("2"))
		time.Sleep(7*time.Second - 1)
		check.Equal(t, f.said(), "a begins t.k=1", "%s")
		time.Sleep(time.Nanosecond)
		check.Equal(t, f.said(), "a ends t.k: keys: the key was deleted\na begins t.k=2", "%s")
	})
}

// Work that returns by itself begins again after 5 s, and so does work that ends in runtime.Goexit.
func TestWork_ReturnsEarly(t *testing.T) {
	for name, ends := range map[string]func(){"return": func() {}, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.start("a")
				time.Sleep(coldStart)
				f.work = func(*process, *keys.Key) { ends() }
				f.tenants.Put("t.k", nil)
				check.Equal(t, f.said(), "a begins t.k=\na ends t.k: <nil>", "%s")
				time.Sleep(5*time.Second - 1)
				check.Equal(t, f.said(), "", "%s")
				time.Sleep(time.Nanosecond)
				check.Equal(t, f.said(), "a begins t.k=\na ends t.k: <nil>", "%s")
				f.tenants.Delete("t.k")
				time.Sleep(time.Minute)
				check.Equal(t, f.said(), "", "%s")
			})
		})
	}
}

// When a member joins, keys move with their slots, each once its work has returned. When it stops, they move back. Nothing
// else begins again.
func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		const all = 100
		for i := range all {
			f.tenants.Put("t."+strings.Repeat("k", i+1), nil)
		}
		f.start("a")
		time.Sleep(coldStart)
		check.Equal(t, f.works("a"), "a:100", "%s")
		f.said()
		b := f.start("b")
		time.Sleep(coldStart)
		lines := f.said()
		moved := strings.Count(lines, "b begins")
		check.That(t, moved > 30 && moved < 70, "%d keys have moved", moved)
		check.Equal(t, strings.Count(lines, "a ends"), moved, "%d works have ended")
		check.Equal(t, strings.Count(lines, "granted to another member"), moved, "%d works have ended because of the move")
		check.Equal(t, strings.Count(lines, "a begins"), 0, "%d works have begun again")
		b.stop()
		time.Sleep(coldStart)
		check.Equal(t, f.works("a", "b"), "a:100 b:0", "%s")
		check.Equal(t, strings.Count(f.said(), "a begins"), moved, "%d works have begun")
	})
}

// A process that is cut off loses its keys before its lease is over, and another one begins after that.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.tenants.Put("t.k", nil)
		procs := map[string]*process{"a": f.start("a"), "b": f.start("b")}
		time.Sleep(coldStart)
		synctest.Wait()
		was := f.owners["t.k"].by.id
		other := map[string]string{"a": "b", "b": "a"}[was]
		f.said()
		procs[was].group.Cut()
		procs[was].link.Cut()
		time.Sleep(2 * lease)
		check.Equal(t, f.said(), was+" ends t.k: leader: lease not confirmed before the renew deadline\n"+other+" begins t.k=", "%s")
	})
}

// Serve returns when the member has left and all work has returned.
func TestServe_WaitsForWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.work = func(_ *process, k *keys.Key) {
			<-k.Context().Done()
			check.Is(t, context.Cause(k.Context()), leader.ErrStopped)
			time.Sleep(3 * time.Second)
		}
		a := f.start("a")
		f.tenants.Put("t.k", nil)
		time.Sleep(coldStart)
		from := time.Now()
		a.stop()
		check.Equal(t, time.Since(from), 3*time.Second, "Serve has returned after %v")
	})
}

// The application closes the connection of the keys: the member leaves.
func TestServe_ConnectionClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a")
		f.tenants.Put("t.k", nil)
		time.Sleep(coldStart)
		a.link.Close()
		<-a.served
		check.Is(t, a.err, leader.ErrConnectionClosed)
		check.Equal(t, f.said(), "a begins t.k=\na ends t.k: leader: stopped", "%s")
	})
}
