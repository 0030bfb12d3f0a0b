package backend

import (
	"context"
	"time"
)

// Release releases a *leader.Term of NewSubterm. Package leader sets it, for package shard.
var Release func(term any)

// GiveUp ends the time for the work in hand of a *leader.Term of NewSubterm. Package leader sets it, for package shard.
var GiveUp func(term any)

// Idle returns a channel that is closed when no function of Go of a *leader.Term runs, for package schedule. Package leader
// sets it.
var Idle func(term any) <-chan struct{}

// ClockOf returns the leader.Clock of a *leader.Candidate, for package schedule. Package leader sets it.
var ClockOf func(candidate any) any

// ElapsedOf returns the time since a *leader.Candidate began, by its leader.Clock, and StoreOf the store on which it campaigns,
// for package schedule. Package leader sets them.
var (
	ElapsedOf func(candidate any) time.Duration
	StoreOf   func(candidate any) Store
)

// Report lets a *leader.Candidate report a fault, for package schedule. Package leader sets it.
var Report func(candidate any, fault error)

// Subterm is a term within that of a leader: of one of the things that it works on.
type Subterm struct {
	Token              uint64
	Owner, ID, Session string // of the guards
	Guards             any    // []leader.Guard
	Lease              time.Duration
	// Raised is called once, when all guards stand at the token. Fault is called for what is wrong with one of them.
	// Both are called on a goroutine of the subterm, or before NewSubterm returns.
	Raised func()
	Fault  func(error)
	// Released is called once, when the subterm was released, and its functions of Go have returned.
	Released func()
}

// NewSubterm returns a *leader.Term that leads while the term does to whose context ctx belongs, and a function that ends it
// with a cause. Its context is derived from ctx. Package leader sets it, for package shard.
var NewSubterm func(ctx context.Context, s Subterm) (term any, end context.CancelCauseFunc)

// ShardsIn returns the shard.View of a group, as any, of what entry returns for its keys. Holder returns the leader.Holder of an
// election, as any. Package shard sets it, for an exporter that has read all keys.
var ShardsIn func(group string, entry func(key string) Entry, holder func(election string) any) any

// NewShard returns a *shard.Shard of no member, in the context of a term, and a function that ends it with a cause. Of s it
// takes the guards, and the functions that are called for them. Package shard sets it, for package leadertest.
var NewShard func(lead context.Context, number int, s Subterm) (shard any, end context.CancelCauseFunc)
