package keys_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/keys"
)

// Keys come, change, complete and go, while processes start, stop and crash, their connections are cut or late, and the bucket is
// made again or loses its last messages, with guards and without. No key ever has two works, which begin checks. Once all faults
// are over, each key has one, with its newest value, and nothing else has.
func TestSimulation(t *testing.T) {
	for seed := range uint64(proof.Raced(proof.Size(20, 200), 5)) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, rand.New(rand.NewPCG(seed, 49))) })
		})
	}
}

func simulate(t *testing.T, rng *rand.Rand) {
	f := newFleet(t)
	guards := []string{"", "g"}[rng.IntN(2)]
	f.config = func(cfg *keys.Config) { cfg.Guards = guards }
	pace := rand.New(rand.NewPCG(rng.Uint64(), 49)) // of the works; under the lock
	f.work = func(_ *process, k *keys.Key) {
		f.mu.Lock()
		slow, completes := time.Duration(1+pace.IntN(2000))*time.Millisecond, pace.IntN(4) == 0
		f.mu.Unlock()
		for k.Context().Err() == nil {
			select {
			case <-k.Context().Done():
			case <-k.Changed():
			case <-time.After(10 * slow):
				if completes && k.Complete() == nil {
					return
				}
			}
		}
		time.Sleep(slow)
	}
	var live []*process
	ids, key := 0, func() string { return fmt.Sprint("t.", rng.IntN(30)) }
	start := func() {
		ids++
		live = append(live, f.start(fmt.Sprint("p", ids)))
	}
	leave := func() (p *process) {
		i := rng.IntN(len(live))
		p = live[i]
		live = append(live[:i], live[i+1:]...)
		return p
	}
	start()
	was := f.tenants.Snapshot()
	for range 150 {
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		p := live[rng.IntN(len(live))]
		switch n := rng.IntN(22); {
		case n < 8:
			f.tenants.Put(key(), fmt.Append(nil, rng.IntN(100)))
		case n < 11:
			f.tenants.Delete(key())
		case n < 12:
			k := key()
			f.tenants.Delete(k)
			f.tenants.Put(k, nil)
		case n < 14 && len(live) < 4:
			start()
		case n == 14 && len(live) > 1:
			leave().leave()
		case n == 15 && len(live) > 1:
			leave().crash()
		case n == 16:
			p.link.Cut()
		case n == 17:
			p.group.Cut()
		case n == 18:
			p.link.DelayFeed(time.Duration(rng.IntN(3000)) * time.Millisecond)
		case n == 20 && rng.IntN(3) == 0:
			f.tenants.Recreate()
		case n == 20:
			was = f.tenants.Snapshot()
		case n == 21 && rng.IntN(3) == 0:
			f.tenants.Rollback(was)
		default:
			p.link.Restore()
			p.group.Restore()
		}
	}
	for _, p := range live {
		p.link.Heal()
		p.group.Heal()
	}
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	f.mu.Lock()
	works := make(map[string]string)
	for name, k := range f.owners {
		works[name] = string(k.Entry().Value)
	}
	f.mu.Unlock()
	for i := range 30 {
		name := fmt.Sprint("t.", i)
		e := f.tenants.Entry(name)
		value, has := works[name]
		check.Equal(t, has, e.Revision != 0 && !e.Marker, "work on "+name+": %v")
		if has {
			check.Equal(t, value, string(e.Value), "the work on "+name+" has %s")
		}
	}
}
