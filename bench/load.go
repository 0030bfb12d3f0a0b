package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/natsleader/natsleader/internal/link"
)

// load measures many candidates in this process: their memory, and what they cost the server.

// memory is what this process uses after a garbage collection.
type memory struct {
	bytes      uint64 // heap and stacks
	goroutines int
}

func memoryNow() memory {
	runtime.GC()
	runtime.GC() // finalizers and pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{bytes: m.HeapAlloc + m.StackInuse, goroutines: runtime.NumGoroutine()}
}

// each adds the memory since before, for each of n candidates.
func (f *figures) each(before memory, n int) {
	now := memoryNow()
	f.BytesEach = max(0, float64(now.bytes)-float64(before.bytes)) / float64(n)
	f.GoroutinesEach = float64(now.goroutines-before.goroutines) / float64(n)
}

// observe counts the requests that the server receives during d, and returns how long that has taken.
func (f *figures) observe(ctx context.Context, srv *serverProcess, d time.Duration) (took time.Duration, err error) {
	before, err := srv.counts()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err = wait(ctx, d); err != nil {
		return 0, err
	}
	after, err := srv.counts()
	if err != nil {
		return 0, err
	}
	took = time.Since(began)
	f.RequestsPerSecond = float64(after.Requests-before.Requests) / took.Seconds()
	f.ServerCPUPercent = 100 * float64(after.CPU-before.CPU) / float64(took)
	return took, nil
}

// window is the time for which the requests of a load are counted: whole intervals of the
// system, so that it contains as many renewals as on average.
func (p place) window() time.Duration {
	every := max(p.s.Renew, p.s.Poll)
	const least = 4 * time.Second
	return every * ((least + every - 1) / every)
}

// waiting starts n candidates of one election that another candidate leads.
func waiting(ctx context.Context, p place, n int) (figures, error) {
	f := figures{Candidates: n, Samples: 1, Lease: p.s.Lease}
	election := p.name("waiting")
	leader, end, err := p.leader(ctx, p.srv.addr, election)
	if err != nil {
		return f, err
	}
	defer end()
	cl, err := p.dial()
	if err != nil {
		return f, err
	}
	defer cl.close()
	before := memoryNow()
	all := make([]candidate, n)
	for i := range all {
		all[i] = cl.campaign(election, p.name("c"))
		defer all[i].drop()
	}
	if err := p.calm(ctx); err != nil {
		return f, err
	}
	f.each(before, n)
	if _, err := f.observe(ctx, p.srv, p.window()); err != nil {
		return f, err
	}
	if !leader.leads() {
		return f, fmt.Errorf("%w: the leader lost its term beside %d waiting candidates", errDisturbed, n)
	}
	for _, c := range all {
		select {
		case <-c.elected():
			return f, fmt.Errorf("%w: a second candidate leads", errDisturbed)
		default:
		}
	}
	return f, nil
}

// calm waits until the requests with which candidates begin are over: until the server
// receives no more in one half second than in the next.
func (p place) calm(ctx context.Context) error {
	var last float64 = -1
	for range 40 {
		var f figures
		if _, err := f.observe(ctx, p.srv, 500*time.Millisecond); err != nil {
			return err
		}
		if last >= 0 && f.RequestsPerSecond >= last*0.8 {
			return nil
		}
		last = f.RequestsPerSecond
	}
	return nil
}

// leading starts n candidates of as many elections, and waits until all lead.
func leading(ctx context.Context, p place, n int) (figures, error) {
	f := figures{Candidates: n, Samples: 1, Lease: p.s.Lease}
	cl, err := p.dial()
	if err != nil {
		return f, err
	}
	defer cl.close()
	before := memoryNow()
	began := time.Now()
	all := make([]candidate, n)
	for i := range all {
		all[i] = cl.campaign(p.name("leading"), p.name("c"))
		defer all[i].drop()
	}
	for _, c := range all {
		if _, err := awaitElected(ctx, c, p.failover()); err != nil {
			return f, err
		}
	}
	f.SetupMS = millis(time.Since(began))
	if err := wait(ctx, 500*time.Millisecond); err != nil {
		return f, err
	}
	f.each(before, n)
	if _, err := f.observe(ctx, p.srv, p.window()); err != nil {
		return f, err
	}
	lost := 0
	for _, c := range all {
		if !c.leads() {
			lost++
		}
	}
	if lost > 0 {
		return f, fmt.Errorf("%w: %d of %d leaders were lost", errDisturbed, lost, n)
	}
	return f, nil
}

// renewal measures what one leader costs for each interval between two renewals.
func renewal(ctx context.Context, p place, renewals int) (figures, error) {
	f := figures{Candidates: 1, Samples: renewals, Lease: p.s.Lease}
	k, err := link.New(p.srv.addr)
	if err != nil {
		return f, err
	}
	defer k.Close()
	_, end, err := p.leader(ctx, k.Addr(), p.name("renewal"))
	if err != nil {
		return f, err
	}
	defer end()
	if err = wait(ctx, p.s.Renew/2); err != nil {
		return f, err
	}
	bytes := k.Bytes()
	took, err := f.observe(ctx, p.srv, p.s.Renew*time.Duration(renewals))
	if err != nil {
		return f, err
	}
	// On a busy machine more intervals pass. A part of one counts as none or as a whole one, as its renewal does.
	intervals := math.Round(float64(took) / float64(p.s.Renew))
	if f.RequestsPerSecond == 0 {
		return f, fmt.Errorf("%w: no renewal in %d intervals", errDisturbed, renewals)
	}
	f.Interval = p.s.Renew
	f.RequestsPerRenewal = f.RequestsPerSecond * took.Seconds() / intervals
	f.BytesPerRenewal = float64(k.Bytes()-bytes) / intervals
	return f, nil
}
