package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"
)

// system is one library for leader election, with a server that it works with.
type system struct {
	name string
	// libraries are the modules whose versions the report shows.
	libraries []string
	// serve starts the server. It is called in a process of its own, see serverProcess.
	serve func() (server, error)
	// dial makes one client of the server.
	dial func(addr string, s settings) (client, error)
	// usual are the settings that the library has by default, or that its documentation
	// recommends. short are the same in proportion, at a lease of about a second.
	usual, short settings
	// ready is the time that a follower needs until it waits.
	ready time.Duration
	// slow systems take a minute for a handover with their usual settings.
	slow bool
	// single is set for a system that promises that no two candidates lead at once.
	single bool
	// notes says why a measure has no figure, by the base name of the measure.
	notes map[string]string
}

// settings are the times of a candidate.
type settings struct {
	Lease time.Duration // or the TTL of a session, of a lock, of a bucket
	Renew time.Duration // the interval between two renewals
	// Grain is the interval at which a client looks whether a renewal is due, if it does not wake for it, or 0.
	Grain time.Duration
	// Poll is the longest time between two looks of a waiting candidate at the key, or 0 if
	// the server sends it the changes.
	Poll time.Duration
	// Wait is how long a request may take, where that is to be in proportion to the lease, or 0.
	Wait time.Duration
	// Late bounds how long after the end of the lease a follower leads.
	Late time.Duration
}

// server runs in a process of its own.
type server interface {
	addr() string
	// requests is the number of requests that the server has received so far.
	requests() uint64
	close()
}

// client is a connection that stands, or a pool with one, that any number of candidates share.
type client interface {
	// campaign starts a candidate and does not wait for the server.
	campaign(election, id string) candidate
	close()
}

// candidate is one candidate in one election.
type candidate interface {
	// elected is closed when the library has reported that this candidate leads.
	elected() <-chan struct{}
	// leads reports what the library says to an application that asks whether it still
	// leads. It sends no request.
	leads() bool
	// resign ends the candidate as the library has it for an orderly end.
	resign(ctx context.Context) error
	// drop ends the candidate without a handover. It returns when its goroutines have ended
	// or end by themselves.
	drop()
}

// locker is a client of a library that has locks.
type locker interface {
	// lock returns the lock with this name for one owner. It sends no request.
	lock(name, id string) lock
}

// lock is a lock as one owner has it, who takes it and gives it back in turns.
type lock interface {
	take(ctx context.Context) error
	// try returns errHeld if another owner holds the lock.
	try(ctx context.Context) error
	giveBack(ctx context.Context) error
}

var errHeld = errors.New("the lock is held")

// systems are all systems that can run here, in the order of the report.
func systems() []system {
	all := []system{
		natsleaderSystem(), etcdSystem(), etcdOneSessionSystem(), clientgoSystem(), redsyncSystem(), kvelectSystem(),
	}
	if dsn := os.Getenv(postgresEnv); dsn != "" {
		all = append(all, postgresSystem(dsn))
	}
	return append(all, bareSystem())
}

// baseName returns the name of a measure or of a system without what distinguishes it from others of the same name.
func baseName(name string) string {
	base, _, _ := strings.Cut(name, ",")
	return base
}

// system returns the system with this name.
func systemNamed(name string) (system, bool) {
	for _, s := range systems() {
		if s.name == name {
			return s, true
		}
	}
	return system{}, false
}

// running is what the candidates of most libraries have in common: a goroutine that ends with its
// context, a channel that is closed when the candidate leads first, and the context of its last term.
type running struct {
	once   sync.Once
	won    chan struct{}
	done   chan struct{} // closed when the goroutine has ended
	cancel context.CancelFunc

	mu   sync.Mutex
	term context.Context // nil: none has begun
}

// lead says that a term begins.
func (r *running) lead(term context.Context) {
	r.mu.Lock()
	r.term = term
	r.mu.Unlock()
	r.set()
}

func (r *running) leads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.term != nil && r.term.Err() == nil
}

// start starts the goroutine.
func (r *running) start(run func(ctx context.Context)) {
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	r.won, r.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(r.done)
		run(ctx)
	}()
}

// set says that the candidate leads.
func (r *running) set() { r.once.Do(func() { close(r.won) }) }

func (r *running) elected() <-chan struct{} { return r.won }

func (r *running) drop() { r.cancel() }

// resign ends the goroutine, and waits for its end.
func (r *running) resign(ctx context.Context) error {
	r.cancel()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
