package leader

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// noStore is never asked for anything.
type noStore struct{ Store }

// "A setting that contradicts another is refused by name and relation".
func TestConfig_RefusalNamesRelation(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		cfg  Config
		kind error
		text string
	}{
		{Config{LeaseDuration: -s}, ErrInvalidConfig, "LeaseDuration -1s is negative"},
		{Config{RenewDeadline: -s}, ErrInvalidConfig, "RenewDeadline -1s is negative"},
		{Config{RenewInterval: -s}, ErrInvalidConfig, "RenewInterval -1s is negative"},
		{Config{PendingPeriod: -s}, ErrInvalidConfig, "PendingPeriod -1s is negative"},
		{Config{GracePeriod: -s}, ErrInvalidConfig, "GracePeriod -1s is negative"},
		{Config{StopTimeout: time.Microsecond}, ErrInvalidConfig, "StopTimeout 1µs is less than 1ms"},
		{Config{StopTimeout: 10 * s, GracePeriod: 10 * s}, ErrInvalidConfig, "StopTimeout 10s is not more than GracePeriod 10s, which it bounds: raise it, or leave it out"},
		{Config{StallTimeout: -s}, ErrInvalidConfig, "StallTimeout -1s is less than 1s, the least that is no mere delay: raise it, or leave it out"},
		{Config{StallTimeout: s - 1}, ErrInvalidConfig, "StallTimeout 999.999999ms is less than 1s, the least that is no mere delay: raise it, or leave it out"},
		{Config{Queue: &Queue{AtOnce: true, Priority: 3}}, ErrInvalidConfig, "Queue with AtOnce, and Priority 3 or Preempt, which are for a candidate that waits for its turn: leave out one or the other"},
		{Config{Queue: &Queue{AtOnce: true, Preempt: true}}, ErrInvalidConfig, "Queue with AtOnce, and Priority 0 or Preempt, which are for a candidate that waits for its turn: leave out one or the other"},
		{Config{LeaseDuration: 10 * s, RenewDeadline: 12 * s}, ErrInvalidConfig, "RenewDeadline 12s is not less than LeaseDuration 10s"},
		{Config{LeaseDuration: 10 * s, RenewDeadline: 10 * s}, ErrInvalidConfig, "RenewDeadline 10s is not less than LeaseDuration 10s"},
		{Config{RenewDeadline: 8 * s, RenewInterval: 8 * s}, ErrInvalidConfig, "RenewInterval 8s is not less than RenewDeadline 8s"},
		{Config{LeaseDuration: 10 * s, RenewInterval: 11 * s}, ErrInvalidConfig, "RenewInterval 11s is not less than LeaseDuration 10s"},
		{Config{LeaseDuration: time.Microsecond}, ErrInvalidConfig, "LeaseDuration 1µs is less than 1ms"},
		{Config{LeaseDuration: 9000 * time.Hour}, ErrInvalidConfig, "LeaseDuration 9000h0m0s is more than 8784h0m0s"},
		{Config{MinToken: record.MaxToken}, ErrInvalidConfig, "MinToken 4611686018427387904 is more than 2305843009213693952; a resource that has accepted a greater token must be reset"},
		{Config{Value: make([]byte, wire.MaxValue+1)}, ErrValueTooLarge, "Value of 65537 bytes is more than 65536"},
		{Config{ID: strings.Repeat("x", record.MaxID+1)}, ErrInvalidConfig, "ID of 257 bytes is more than 256"},
	} {
		candidate, err := Campaign(t.Context(), noStore{}, "e", c.cfg)
		check.That(t, candidate == nil && errors.Is(err, c.kind) && strings.HasSuffix(err.Error(), ": "+c.text),
			"got %v, want %v: %s", err, c.kind, c.text)
	}
}

// The names of elections follow the rules of keys.
func TestElectionName_KeyRules(t *testing.T) {
	for _, name := range []string{"", ".", ".a", "a.", "a..b", "a b", "a*", "a.>", "é", "a\n"} {
		err := checkElection(name, 1)
		check.That(t, errors.Is(err, ErrInvalidConfig), "%q: %v", name, err)
	}
	for _, name := range []string{"a", "A9", "a.b", "a/b=c_d-e"} {
		err := checkElection(name, 1)
		check.That(t, err == nil, "%q: %v", name, err)
	}
	_, err := Campaign(t.Context(), nil, "e", Config{})
	check.That(t, errors.Is(err, ErrInvalidConfig), "without a store: %v", err)
}

// Durations that are left out come from the settings of the bucket. The defaults, as the
// fields of Config document them.
func TestConfig_DefaultsFromBucket(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		want machine.Durations
		set  backend.Settings
		got  machine.Durations
	}{
		{machine.Durations{}, backend.Settings{}, machine.Durations{Lease: 15 * s, RenewDeadline: 12 * s, RenewInterval: 2500 * time.Millisecond, Turn: wire.DefaultTurnTimeout}},
		{machine.Durations{}, backend.Settings{MaxLease: 30 * s}, machine.Durations{Lease: 30 * s, RenewDeadline: 24 * s, RenewInterval: 5 * s, Turn: wire.DefaultTurnTimeout}},
		{machine.Durations{}, backend.Settings{MaxLease: 30 * s, TTL: 60 * s}, machine.Durations{Lease: 30 * s, RenewDeadline: 24 * s, RenewInterval: 5 * s, Turn: wire.DefaultTurnTimeout}},
		{machine.Durations{}, backend.Settings{TTL: 9 * s}, machine.Durations{Lease: 6 * s, RenewDeadline: 4800 * time.Millisecond, RenewInterval: s, Turn: wire.DefaultTurnTimeout}},
		{machine.Durations{}, backend.Settings{TTL: 90 * s}, machine.Durations{Lease: 15 * s, RenewDeadline: 12 * s, RenewInterval: 2500 * time.Millisecond, Turn: wire.DefaultTurnTimeout}},
		{machine.Durations{Lease: 12 * s, RenewDeadline: 2 * s}, backend.Settings{MaxLease: 30 * s}, machine.Durations{Lease: 12 * s, RenewDeadline: 2 * s, RenewInterval: s, Turn: wire.DefaultTurnTimeout}},
		{machine.Durations{}, backend.Settings{TTL: 900 * time.Millisecond}, machine.Durations{Lease: 600 * time.Millisecond, RenewDeadline: 480 * time.Millisecond, RenewInterval: 100 * time.Millisecond, Turn: 25 * time.Millisecond}},
	} {
		got, err := c.want.Resolve(c.set, false)
		check.That(t, err == nil && got == c.got,
			"%+v in %+v became %+v, %v, want %+v", c.want, c.set, got, err, c.got)
	}
}

// A setting that contradicts a default is refused by name and relation, too. This is
// found out only when the bucket is known.
func TestConfig_RelationToDefault(t *testing.T) {
	_, err := machine.Durations{RenewDeadline: 20 * time.Second}.Resolve(backend.Settings{}, false)
	if !errors.Is(err, ErrInvalidConfig) || !strings.HasSuffix(err.Error(), "RenewDeadline 20s is not less than the default LeaseDuration 15s") {
		t.Error(err)
	}
	_, err = machine.Durations{RenewInterval: 13 * time.Second}.Resolve(backend.Settings{}, false)
	if !errors.Is(err, ErrInvalidConfig) || !strings.HasSuffix(err.Error(), "RenewInterval 13s is not less than the default RenewDeadline 12s") {
		t.Error(err)
	}
}

// "A bucket whose TTL or MaxLease is shorter than the lease is refused".
func TestConfig_LeaseBeyondTTL(t *testing.T) {
	d := machine.Durations{Lease: 15 * time.Second}
	for _, c := range []struct {
		set  backend.Settings
		text string
	}{
		{backend.Settings{}, ""},
		{backend.Settings{MaxLease: 15 * time.Second, TTL: 15 * time.Second}, ""},
		{backend.Settings{MaxLease: 14 * time.Second}, "LeaseDuration 15s is more than the bucket's MaxLease 14s"},
		{backend.Settings{TTL: 14 * time.Second}, "LeaseDuration 15s is more than the bucket's TTL 14s"},
	} {
		err := d.Fit(c.set, false)
		if c.text == "" && err != nil || c.text != "" && (!errors.Is(err, ErrIncompatibleBucket) || !strings.HasSuffix(err.Error(), ": "+c.text)) {
			t.Errorf("in %+v: %v", c.set, err)
		}
	}
}

// A lease that outlasts the wait of nats-kv-leader-elect is refused. The successor among
// processes of nats-kv-leader-elect waits for three quarters of the TTL, and for nothing
// else.
func TestConfig_LeaseBeyondKVElect(t *testing.T) {
	d := machine.Durations{Lease: 15 * time.Second}
	for _, c := range []struct {
		set  backend.Settings
		text string
	}{
		{backend.Settings{TTL: 20 * time.Second}, ""},
		{backend.Settings{TTL: 30 * time.Second, MaxLease: 15 * time.Second}, ""},
		{backend.Settings{TTL: 19 * time.Second}, "beside nats-kv-leader-elect LeaseDuration 15s is more than three quarters of the bucket's TTL 19s"},
		{backend.Settings{MaxLease: 15 * time.Second, PurgeProtected: true}, "beside nats-kv-leader-elect a bucket needs a TTL, and this has none"},
		{backend.Settings{TTL: 14 * time.Second}, "LeaseDuration 15s is more than the bucket's TTL 14s"},
	} {
		err := d.Fit(c.set, true)
		if c.text == "" && err != nil || c.text != "" && (!errors.Is(err, ErrIncompatibleBucket) || !strings.HasSuffix(err.Error(), ": "+c.text)) {
			t.Errorf("in %+v: %v", c.set, err)
		}
		text := fmt.Sprint(d.Fit(c.set, false))
		check.That(t, !strings.Contains(text, "nats-kv"), "without the setting, in %+v: %s", c.set, text)
	}
	// A default lease that follows from the bucket is always short enough.
	for _, ttl := range []time.Duration{time.Second, 30 * time.Second, time.Hour} {
		set := backend.Settings{TTL: ttl}
		if d, err := (machine.Durations{}).Resolve(set, true); err != nil || d.Fit(set, true) != nil {
			t.Errorf("with a TTL of %v: %v, %v", ttl, err, d.Fit(set, true))
		}
	}
}
