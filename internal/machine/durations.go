package machine

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// Durations are the times of a candidate, named as in Config of package leader.
type Durations struct {
	Lease, RenewDeadline, RenewInterval time.Duration
	PendingPeriod, GracePeriod          time.Duration
	Turn                                time.Duration
}

// OrDefault returns the durations, or the defaults if these are not resolved yet.
func (d Durations) OrDefault() Durations {
	if d.Lease == 0 {
		return Durations{Lease: wire.DefaultLease, RenewInterval: wire.RenewInterval(wire.DefaultLease), Turn: wire.DefaultTurnTimeout}
	}
	return d
}

// Resolve sets the durations that were left to the bucket, and checks the relations.
func (d Durations) Resolve(s backend.Settings, kvElect bool) (Durations, error) {
	set := d
	if d.Lease == 0 {
		d.Lease = wire.Lease(s.MaxLease, s.TTL)
	}
	if d.RenewDeadline == 0 {
		d.RenewDeadline = wire.RenewDeadline(d.Lease)
		if kvElect && s.TTL > 0 {
			d.RenewDeadline = min(d.RenewDeadline, s.TTL/2)
		}
	}
	if d.RenewInterval == 0 {
		d.RenewInterval = min(wire.RenewInterval(d.Lease), d.RenewDeadline/2)
	}
	if d.Turn == 0 {
		d.Turn = max(MinDuration, min(wire.DefaultTurnTimeout, d.RenewInterval/4))
	}
	return d, d.Check(set)
}

// Check returns an error that names the first relation that does not hold, given the
// durations that are configured. Durations of 0 remain to be resolved.
func (d Durations) Check(set Durations) error {
	for _, x := range []struct {
		name string
		d    time.Duration
	}{
		{"LeaseDuration", d.Lease},
		{"RenewDeadline", d.RenewDeadline},
		{"RenewInterval", d.RenewInterval},
		{"PendingPeriod", d.PendingPeriod},
		{"GracePeriod", d.GracePeriod},
		{"TurnTimeout", d.Turn},
	} {
		switch {
		case x.d < 0:
			return fmt.Errorf("%w: %s %v is negative", backend.ErrInvalidConfig, x.name, x.d)
		case 0 < x.d && x.d < MinDuration:
			return fmt.Errorf("%w: %s %v is less than %v", backend.ErrInvalidConfig, x.name, x.d, MinDuration)
		case x.d > record.MaxLease:
			return fmt.Errorf("%w: %s %v is more than %v", backend.ErrInvalidConfig, x.name, x.d, record.MaxLease)
		}
	}
	for _, x := range []struct {
		name, than       string
		less, more       time.Duration
		lessSet, moreSet time.Duration
	}{
		{"RenewDeadline", "LeaseDuration", d.RenewDeadline, d.Lease, set.RenewDeadline, set.Lease},
		{"RenewInterval", "RenewDeadline", d.RenewInterval, d.RenewDeadline, set.RenewInterval, set.RenewDeadline},
		{"RenewInterval", "LeaseDuration", d.RenewInterval, d.Lease, set.RenewInterval, set.Lease},
		{"TurnTimeout", "LeaseDuration", d.Turn, d.Lease, set.Turn, set.Lease},
	} {
		if x.less > 0 && x.more > 0 && x.less >= x.more {
			return fmt.Errorf("%w: %s%s %v is not less than %s%s %v", backend.ErrInvalidConfig,
				byDefault(x.lessSet), x.name, x.less, byDefault(x.moreSet), x.than, x.more)
		}
	}
	return nil
}

// byDefault distinguishes a duration that was not set, in the text of an error.
func byDefault(set time.Duration) string {
	if set == 0 {
		return "the default "
	}
	return ""
}

// MinDuration keeps every duration that is derived from another positive.
const MinDuration = time.Millisecond

// Fit returns an error if the bucket does not allow the durations. With kvElect, the
// bucket is shared with processes of nats-kv-leader-elect.
func (d Durations) Fit(s backend.Settings, kvElect bool) error {
	switch {
	case s.MaxLease > 0 && d.Lease > s.MaxLease:
		return fmt.Errorf("%w: LeaseDuration %v is more than the bucket's MaxLease %v", backend.ErrIncompatibleBucket, d.Lease, s.MaxLease)
	case s.TTL > 0 && d.Lease > s.TTL:
		return fmt.Errorf("%w: LeaseDuration %v is more than the bucket's TTL %v", backend.ErrIncompatibleBucket, d.Lease, s.TTL)
	case kvElect && s.TTL == 0:
		return fmt.Errorf("%w: beside nats-kv-leader-elect a bucket needs a TTL, and this has none", backend.ErrIncompatibleBucket)
	case kvElect && d.RenewDeadline > s.TTL/2:
		return fmt.Errorf("%w: beside nats-kv-leader-elect RenewDeadline %v is more than half of the bucket's TTL %v", backend.ErrIncompatibleBucket, d.RenewDeadline, s.TTL)
	case kvElect && d.Lease > s.TTL/4*3:
		return fmt.Errorf("%w: beside nats-kv-leader-elect LeaseDuration %v is more than three quarters of the bucket's TTL %v", backend.ErrIncompatibleBucket, d.Lease, s.TTL)
	}
	return nil
}

// Later returns the later of two instants.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Earlier returns the earlier of two instants. A zero instant does not count.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
