package leadertest

import (
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

type (
	Store   = leadertest.Store
	Link    = leadertest.Link
	Clock   = leadertest.Clock
	Watcher = leadertest.Watcher
	Matcher = leadertest.Matcher
	Option  = leadertest.Option
	Guard   = leadertest.Guard
	Writer  = leadertest.Writer
	Term    = leadertest.Term
	TB      = leadertest.TB
)

func NewClock() *Clock                                        { return leadertest.NewClock() }
func NewStore(clock *Clock, opts ...Option) *Store            { return leadertest.NewStore(clock, opts...) }
func Watch(tb TB, clock *Clock, c *leader.Candidate) *Watcher { return leadertest.Watch(tb, clock, c) }
func NewTerm(tb TB, settings ...func(*leader.Config)) *Term {
	return leadertest.NewTerm(tb, settings...)
}
func WithToken(token uint64) func(*leader.Config) { return leadertest.WithToken(token) }
func WithoutPurgeProtection() Option              { return leadertest.WithoutPurgeProtection() }
func Elected() Matcher                            { return leadertest.Elected() }
func Fenced(causes ...error) Matcher              { return leadertest.Fenced(causes...) }
func Faulted(errs ...error) Matcher               { return leadertest.Faulted(errs...) }
