package keys_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/keys"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// A key of which Ready waits for others begins when these are gone. Ready sees keys that Wants does not want.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.config = func(cfg *keys.Config) {
			cfg.Wants = func(e keys.Entry) bool { return string(e.Value) != "done" }
			cfg.Ready = func(e keys.Entry, get func(string) (keys.Entry, bool)) bool {
				parent, has := get(string(e.Value))
				return !has || string(parent.Value) == "done"
			}
		}
		f.tenants.Put("t.child", []byte("t.parent"))
		f.tenants.Put("t.late", []byte("t.child"))
		f.tenants.Put("t.parent", nil)
		f.start("a")
		f.start("b")
		time.Sleep(coldStart)
		check.That(t, strings.HasSuffix(f.said(), " begins t.parent="), "not the parent alone has begun")
		f.tenants.Put("t.parent", []byte("done"))
		time.Sleep(time.Second)
		lines := f.said()
		check.That(t, strings.Contains(lines, " ends t.parent: keys: the key is not wanted any more") && strings.Contains(lines, " begins t.child=t.parent"), "%s", lines)
		f.tenants.Delete("t.child")
		time.Sleep(time.Second)
		check.That(t, strings.Contains(f.said(), " begins t.late=t.child"), "the grandchild has not begun")
	})
}

// A key whose value is wanted again begins again, when its work has returned.
func TestWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.config = func(cfg *keys.Config) { cfg.Wants = func(e keys.Entry) bool { return string(e.Value) == "on" } }
		f.start("a")
		time.Sleep(coldStart)
		for _, step := range []struct{ value, want string }{
			{"off", ""},
			{"on", "a begins t.k=on"},
			{"off", "a ends t.k: keys: the key is not wanted any more"},
			{"on", "a begins t.k=on"},
		} {
			f.tenants.Put("t.k", []byte(step.value))
			check.Equal(t, f.said(), step.want, "%q")
		}
	})
}

// A key with a value that is too long, or a name that is no key, is not worked on, and logged once. The value is not kept.
func TestUnfit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		kept := -1
		f.config = func(cfg *keys.Config) {
			cfg.Ready = func(e keys.Entry, get func(string) (keys.Entry, bool)) bool {
				if e, has := get("t.k"); has {
					kept = len(e.Value)
				}
				return true
			}
		}
		a := f.start("a")
		time.Sleep(coldStart)
		const most = 64 << 10
		for range 10 {
			f.tenants.Put("t.k", make([]byte, most+1))
		}
		f.tenants.Put("t."+strings.Repeat("k", 511), nil)
		f.tenants.Put("t.ü", nil)
		check.Equal(t, f.said(), "", "%s")
		for _, why := range []string{"its value has 65537 bytes", "its name has 513 bytes", "it is no key of a bucket"} {
			check.Equal(t, f.logged(why), 1, "%d lines")
		}
		a.link.Reconnect()
		time.Sleep(time.Minute)
		check.Equal(t, f.logged("a key is not worked on"), 3, "%d lines")
		f.tenants.Put("t.other", nil)
		check.Equal(t, f.said(), "a begins t.other=", "%s")
		check.Equal(t, kept, 0, "%d bytes of the value are kept")
		f.tenants.Put("t.k", nil)
		check.Equal(t, f.said(), "a begins t.k=", "%s")
		f.tenants.Put("t.k", make([]byte, most+1))
		check.Equal(t, f.said(), "a ends t.k: keys: the key is not wanted any more", "%s")
		check.Equal(t, f.logged("a key is not worked on"), 4, "%d lines")
	})
}

// After a reconnection the set is read again: what was deleted meanwhile ends, what was put begins, and the rest goes on.
// Nothing begins before the end of the set has arrived.
func TestReconnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.tenants.Put("t.gone", nil)
		f.tenants.Put("t.stays", nil)
		a := f.start("a")
		time.Sleep(coldStart)
		f.said()
		a.link.Cut()
		f.tenants.Delete("t.gone")
		f.tenants.Put("t.new", nil)
		time.Sleep(time.Second)
		check.Equal(t, f.said(), "", "%s")
		a.link.DelayFeed(time.Minute)
		a.link.Restore()
		time.Sleep(time.Minute - time.Second)
		check.Equal(t, f.said(), "", "%s")
		time.Sleep(time.Second)
		check.Equal(t, f.said(), "a ends t.gone: keys: the key was deleted\na begins t.new=", "%s")
	})
}

// A watch that ends with an error is opened again. The log has the error once.
func TestWatch_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a")
		time.Sleep(coldStart)
		a.link.FailWatches(5, errors.New("no watch"))
		a.link.EndFeeds(errors.New("no watch"))
		f.tenants.Put("t.k", nil)
		time.Sleep(6*time.Second - 1)
		check.Equal(t, f.said(), "", "%s")
		time.Sleep(time.Nanosecond)
		check.Equal(t, f.said(), "a begins t.k=", "%s")
		check.Equal(t, f.logged("no watch"), 1, "%d lines")
	})
}

// While the bucket is not there nothing begins, and what works goes on. When it was made again, all work ends, and what is in it
// begins, also if its revisions begin anew, and can be completed. With guards it does not wait for a guard of the old bucket.
func TestBucket_MadeAgain(t *testing.T) {
	for _, guards := range []string{"", "g"} {
		t.Run("guards="+guards, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.config = func(cfg *keys.Config) { cfg.Guards = guards }
				f.tenants.Put("t.other", nil)
				f.tenants.Put("t.gone", nil)
				f.tenants.Put("t.k", []byte("1"))
				f.start("a")
				time.Sleep(coldStart)
				f.said()
				check.OK(t, f.owners["t.other"].Complete())
				check.Equal(t, f.said(), "a ends t.other: keys: the key was deleted", "%s")
				f.tenants.Drop()
				time.Sleep(time.Minute)
				check.Equal(t, f.said(), "", "%s")
				check.Equal(t, f.logged("the keys are not followed"), 1, "%d lines")
				was := f.owners["t.k"]
				f.tenants.Recreate()
				f.tenants.Put("u", nil)
				f.tenants.Put("u", nil)
				check.Equal(t, f.tenants.Put("t.k", []byte("2")), was.Entry().Revision, "the revision is %d") // as in the bucket before
				f.tenants.Put("t.other", []byte("2"))
				time.Sleep(time.Minute)
				check.Deep(t, sorted(f.said()), []string{
					"a begins t.k=2", "a begins t.other=2",
					"a ends t.gone: leader: the store has lost acknowledged writes", "a ends t.k: leader: the store has lost acknowledged writes",
				})
				check.Equal(t, f.logged("was made again, or has lost writes"), 1, "%d lines")
				check.Is(t, was.Complete(), keys.ErrChanged)
				check.Must(t, f.owners["t.k"] != nil, "t.k has no work")
				check.OK(t, f.owners["t.k"].Complete())
				check.Equal(t, f.said(), "a ends t.k: keys: the key was deleted", "%s")
			})
		})
	}
}

// A bucket that loses its last messages: all work ends, and what is in the bucket begins, is updated, completed and deleted as
// before.
func TestBucket_LosesWrites(t *testing.T) {
	for _, guards := range []string{"", "g"} {
		t.Run("guards="+guards, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.config = func(cfg *keys.Config) { cfg.Guards = guards }
				f.start("a")
				time.Sleep(coldStart)
				f.tenants.Put("t.k", []byte("1"))
				f.tenants.Put("t.gone", nil)
				was := f.tenants.Snapshot()
				f.tenants.Put("t.k", []byte("2"))
				f.tenants.Delete("t.gone")
				f.tenants.Put("t.lost", nil)
				f.said()
				f.tenants.Rollback(was)
				f.tenants.Put("t.k", []byte("3"))
				time.Sleep(time.Minute)
				check.Deep(t, sorted(f.said()), []string{
					"a begins t.gone=", "a begins t.k=3",
					"a ends t.k: leader: the store has lost acknowledged writes", "a ends t.lost: leader: the store has lost acknowledged writes",
				})
				f.tenants.Put("t.k", []byte("4"))
				synctest.Wait()
				check.Must(t, f.owners["t.k"] != nil, "t.k has no work")
				check.Equal(t, string(f.owners["t.k"].Entry().Value), "4", "the work on t.k has %s")
				check.OK(t, f.owners["t.k"].Complete())
				f.tenants.Delete("t.gone")
				check.Deep(t, sorted(f.said()), []string{"a ends t.gone: keys: the key was deleted", "a ends t.k: keys: the key was deleted"})
			})
		})
	}
}

// sorted returns the lines of a text in order.
func sorted(text string) []string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return lines
}

// A read that fails, or does not see the key, stops a begin, and is repeated.
func TestRead_StopsABegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a")
		time.Sleep(coldStart)
		a.link.FailReads(2, leader.ErrUnreachable)
		f.tenants.Put("t.k", nil)
		time.Sleep(750*time.Millisecond - 1) // 250 and 500 ms
		check.Equal(t, f.said(), "", "%s")
		time.Sleep(time.Nanosecond)
		check.Equal(t, f.said(), "a begins t.k=", "%s")
		a.link.DelayFeed(time.Minute)
		f.tenants.Put("t.l", nil)
		f.tenants.Delete("t.l")
		time.Sleep(time.Hour)
		check.Equal(t, f.said(), "", "%s")
	})
}

// The log has the first read that fails, and each other error, and the same error again after the key was read.
func TestRead_Logs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a")
		time.Sleep(coldStart)
		shows := func(works string, lines int) {
			t.Helper()
			time.Sleep(time.Minute)
			check.Equal(t, f.works("a"), works, "%s")
			check.Equal(t, f.logged("a key cannot be read"), lines, "%d lines")
		}
		a.link.FailReads(6, errors.New("no permission"))
		f.tenants.Put("t.k", nil)
		synctest.Wait()
		f.tenants.Put("t.l", nil)
		shows("a:2", 1)
		check.Equal(t, f.logged(`key=t.k err="no permission"`), 1, "%d lines")
		a.link.FailReads(1, errors.New("no permission"))
		a.link.FailReads(2, errors.New("no server"))
		f.tenants.Put("t.m", nil)
		shows("a:3", 3)
	})
}

// Settings that cannot work have errors that say what to do.
func TestJoin_Rejects(t *testing.T) {
	f := newFleet(t)
	gone := newFleet(t)
	gone.tenants.Drop()
	for text, change := range map[string]func(*keys.Config){
		"use keys.OpenBucket":                 func(cfg *keys.Config) { cfg.Bucket = nil },
		"Filter \"\" matches no key":          func(cfg *keys.Config) { cfg.Filter = "" },
		"Filter \"t..*\" matches no key":      func(cfg *keys.Config) { cfg.Filter = "t..*" },
		"Filter \"t.>.k\" matches no key":     func(cfg *keys.Config) { cfg.Filter = "t.>.k" },
		"Filter \"t k\" matches no key":       func(cfg *keys.Config) { cfg.Filter = "t k" },
		"Guards \"g.*\" is not the beginning": func(cfg *keys.Config) { cfg.Guards = "g.*" },
		"the guards t.* match Filter \"t.*\"": func(cfg *keys.Config) { cfg.Guards = "t" },
		"the guards t.* match Filter \"t.7\"": func(cfg *keys.Config) { cfg.Guards, cfg.Filter = "t", "t.7" },
		"the guards g.* match Filter \"*.x\"": func(cfg *keys.Config) { cfg.Guards, cfg.Filter = "g", "*.x" },
		"the guards g.* match Filter \">\"":   func(cfg *keys.Config) { cfg.Guards, cfg.Filter = "g", ">" },
		"Guards and Member.Guards are set":    func(cfg *keys.Config) { cfg.Guards, cfg.Member.Guards = "g", func(int) []leader.Guard { return nil } },
		"Shards is 4611686018427387904":       func(cfg *keys.Config) { cfg.Guards, cfg.Member.Shards = "g", 1<<62 },
		"Shards is -1":                        func(cfg *keys.Config) { cfg.Member.Shards = -1 },
		"the bucket of the keys: create it":   func(cfg *keys.Config) { cfg.Bucket = gone.tenants.Link("a") },
		"Most is -1":                          func(cfg *keys.Config) { cfg.Member.Most = -1 },
	} {
		cfg := keys.Config{Bucket: f.tenants.Link("a"), Filter: "t.*"}
		change(&cfg)
		_, err := keys.Join(t.Context(), f.groups, "tenants", cfg)
		want := leader.ErrInvalidConfig
		if strings.HasPrefix(text, "the bucket") {
			want = leader.ErrNoBucket
		}
		check.Says(t, err, want, text)
	}
	_, err := keys.OpenBucket(nil, "tenants")
	check.Is(t, err, leader.ErrInvalidConfig)
	check.Is(t, new(keys.Set).Serve(nil), leader.ErrInvalidConfig)
}

// All filters of keys that a bucket takes are taken. A set has 1,000 slots if none are set, and another number than that of the
// group ends the member.
func TestJoin_Defaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.config = func(cfg *keys.Config) { cfg.Filter, cfg.Member.Shards, cfg.Member.Logger = ">", 0, nil }
		a := f.start("a")
		time.Sleep(coldStart)
		check.Equal(t, a.set.Member().Stats().Owned, 1000, "a has %d slots")
		f.config = nil
		b := f.start("b")
		<-b.served
		check.Is(t, b.err, shard.ErrShardsDiffer)
	})
}

// Members that work on different keys in one group are a fault of all of them, because keys have no work.
func TestJoin_SetsDiffer(t *testing.T) {
	for name, change := range map[string]func(*keys.Config){
		"filter":      func(cfg *keys.Config) { cfg.Filter = "u.*" },
		"guards":      func(cfg *keys.Config) { cfg.Guards = "g" },
		"program":     func(cfg *keys.Config) { cfg.Member.Program = "another" },
		"long filter": func(cfg *keys.Config) { cfg.Filter = "u." + strings.Repeat("k", 300) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.start("a")
				f.start("b")
				time.Sleep(time.Minute)
				check.Equal(t, f.logged("members of different programs"), 0, "%d lines")
				f.config = change
				f.start("c")
				time.Sleep(10 * time.Second)
				check.Equal(t, f.logged("members of different programs"), 3, "%d lines")
			})
		})
	}
}
