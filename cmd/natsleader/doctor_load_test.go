package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// Many renewals are a note, and more than a server carries are a warning.
func TestDoctor_JudgesLoad(t *testing.T) {
	stored := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	stand := func(n int, state string) (all []electionStatus) {
		value := fmt.Appendf(nil, `{"v":1,"state":%q,"id":"a","session":"s","n":1,"lease":"6s","token":1}`, state)
		for range n {
			all = append(all, newElectionStatus("billing", backend.Entry{Value: value, Revision: 1, Created: stored}))
		}
		return all
	}
	for _, k := range []struct {
		led      int
		after    time.Duration
		want     int
		severity severity
	}{
		{serverWrites/2 - 1, 0, serverWrites/2 - 1, severityOK},
		{serverWrites / 2, 0, serverWrites / 2, severityNote},
		{serverWrites, 0, serverWrites, severityWarning},
		{serverWrites, 6 * time.Second, 0, severityOK}, // their leases are over
	} {
		all := append(stand(k.led, "leading"), stand(7, "released")...)
		led, writes := renewalLoad(all, stored.Add(k.after))
		if led != k.want || writes != float64(k.want) {
			t.Errorf("%d of %d are led after %v, %v writes", led, k.led, k.after, writes)
		}
		f, heavy := judgeLoad("", writes)
		if heavy != (k.severity != severityOK) || f.Severity != k.severity {
			t.Errorf("%v writes: %+v", writes, f)
		}
	}
}
