package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The time of day is of no consequence, so no finding is worse than a note.
func TestDoctor_Clocks(t *testing.T) {
	now := time.Now()
	for name, k := range map[string]struct {
		e        environment
		severity severity
		words    string
	}{
		"well":           {environment{hostSync: func() (bool, error) { return true, nil }}, severityOK, "is synchronised"},
		"unsynchronised": {environment{hostSync: func() (bool, error) { return false, nil }}, severityNote, "not synchronised"},
		"no telling":     {environment{hostSync: func() (bool, error) { return false, errors.New("cannot tell") }}, severityNote, "not checked: cannot tell"},
		"behind": {environment{
			hostSync: func() (bool, error) { return true, nil },
			info:     &jetstream.StreamInfo{TimeStamp: now.Add(time.Minute)}, infoAt: now,
		}, severityNote, "1m0s off"},
		"ahead": {environment{
			hostSync: func() (bool, error) { return true, nil },
			info:     &jetstream.StreamInfo{TimeStamp: now.Add(-time.Minute)}, infoAt: now,
		}, severityNote, "1m0s off"},
		"slow answer": {environment{
			hostSync: func() (bool, error) { return true, nil },
			info:     &jetstream.StreamInfo{TimeStamp: now.Add(2 * time.Second)}, infoAt: now, infoTook: 3 * time.Second,
		}, severityOK, "within 3.5s"},
	} {
		found := checkClock(t.Context(), &k.e)
		if len(found) != 1 || found[0].Severity != k.severity || !strings.Contains(found[0].Text, k.words) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

func TestDoctor_Versions(t *testing.T) {
	for version, want := range map[string]severity{
		"2.15.2": severityOK, "2.11.8": severityOK, "3.0.0": severityOK, "2.12.0-beta.1": severityOK,
		"2.11.7": severityWarning, "2.11.0": severityWarning, "2.10.29": severityWarning, "1.4.1": severityWarning, "other": severityNote,
	} {
		if f := judgeVersion("", version); f.Severity != want || !strings.Contains(f.Text, version) {
			t.Errorf("%s: %+v", version, f)
		}
	}
}
