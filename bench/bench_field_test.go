//go:build field

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/bench/internal/kvelect"
	"github.com/natsleader/natsleader/internal/check"
)

func TestMain(m *testing.M) {
	if code, played := playRole(); played { // a child of a test
		os.Exit(code)
	}
	// The tests wait for leases most of the time.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// testTurn takes one turn of each system. A turn that a busy machine disturbed is taken again,
// as often as a run of the program does. The functions that measure check the order: a follower
// that leads too early, a leader that does not end and an election without a leader are errors.
func testTurn(t *testing.T, name string, check func(t *testing.T, sys system, c cell)) {
	t.Helper()
	var measured measure
	for _, m := range (options{many: 20, once: true}).measures() {
		if m.name == name {
			measured = m
		}
	}
	for _, sys := range systems() {
		if sys.notes[name] != "" { // says why there is nothing to measure
			continue
		}
		t.Run(sys.name, func(t *testing.T) {
			t.Parallel()
			b := &bench{stderr: t.Output()}
			var c cell
			b.attempt(t.Context(), measured, sys, &c, name)
			if c.Error != "" {
				t.Fatal(c.Error)
			}
			check(t, sys, c)
		})
	}
}

func TestHandover_FollowerLeads(t *testing.T) {
	t.Parallel()
	testTurn(t, measureHandover, func(t *testing.T, _ system, c cell) {
		t.Helper()
		check.That(t, len(c.times) != 0, "no samples")
	})
}

func TestCrash_FollowerLeads(t *testing.T) {
	t.Parallel()
	testTurn(t, measureCrash, func(t *testing.T, sys system, c cell) {
		t.Helper()
		// A follower that leads at once does not respect the lease.
		least := sys.short.Lease / 4
		check.That(t, len(c.times) == 1 && c.times[0] >= least, "%v, want one sample of %v or more", c.times, least)
	})
}

func TestCutOff_OldLeaderEnds(t *testing.T) {
	t.Parallel()
	testTurn(t, measureCut, func(t *testing.T, sys system, c cell) {
		t.Helper()
		check.Must(t, len(c.overlaps) == 1, "%d outcomes", len(c.overlaps))
		if sys.name == "natsleader" && c.overlaps[0].both > 0 {
			t.Errorf("two leaders for %v", c.overlaps[0].both)
		}
	})
}

func TestStopped_OldLeaderEnds(t *testing.T) {
	t.Parallel()
	testTurn(t, measurePause, func(t *testing.T, sys system, c cell) {
		t.Helper()
		check.Must(t, len(c.overlaps) == 1, "%d outcomes", len(c.overlaps))
		check.That(t, sys.name != "natsleader" || !c.overlaps[0].wrong, "the first answer after the pause is that it leads")
	})
}

func TestLoad_IsCounted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{measureLeading, measureRenewal} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testTurn(t, name, func(t *testing.T, _ system, c cell) {
				t.Helper()
				check.That(t, c.Figures.RequestsPerSecond > 0, "%+v: no requests were counted", c.Figures)
			})
		})
	}
	t.Run(measureWaiting, func(t *testing.T) {
		t.Parallel()
		testTurn(t, measureWaiting, func(t *testing.T, _ system, c cell) {
			t.Helper()
			check.That(t, c.Figures.Candidates == 20, "%+v", c.Figures)
		})
	})
}

// Each step of a lock and of a start was measured over the link: it takes a round trip at least.
func TestTrips_AreCounted(t *testing.T) {
	t.Parallel()
	for name, steps := range stepsOf {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testTurn(t, name, func(t *testing.T, _ system, c cell) {
				t.Helper()
				for _, step := range steps {
					all := c.steps[step]
					check.That(t, len(all) > 0, "%s was not measured", step)
					for _, each := range all {
						// What has passed in trips has taken their time. The clock of a link has its limits.
						check.That(t, each.trips >= 1 && each.time >= time.Duration(each.trips)*roundTrip*9/10, "%s: %+v", step, each)
					}
				}
			})
		})
	}
}

// A run reports each measure of each system, or why it has none, in all of its formats.
func TestRun_Formats(t *testing.T) {
	t.Parallel()
	picture := t.TempDir() + "/p.svg"
	var out bytes.Buffer
	args := []string{"--measure", measureRenewal + "," + measureCrash, "--system", "natsleader,bare NATS", "--svg", picture}
	if err := run(t.Context(), append(args, "--json"), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	check.Must(t, len(r.Rows) == 2 && len(r.Systems) == 2, "%d rows, %d systems", len(r.Rows), len(r.Systems))
	if c := r.Rows[0].Cells["bare NATS"]; c.Note == "" || c.Figures.Samples != 0 {
		t.Errorf("%+v: want a note and no figures", c)
	}
	if c := r.Rows[1].Cells["natsleader"]; c.Error != "" || c.Figures.BytesPerRenewal == 0 {
		t.Errorf("%+v: want figures", c)
	}
	svg, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	check.That(t, strings.Contains(string(svg), "prefers-color-scheme: dark"), "no colours for the dark mode")
	text := r.text()
	for _, want := range []string{"natsleader", "bare NATS", "no election: only", "github.com/nats-io/nats.go"} {
		check.That(t, strings.Contains(text, want), "no %q in\n%s", want, text)
	}
}

func TestRun_RefusesUnknownNames(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--measure", "x"}, {"--system", "x"}, {"--many", "0"}, {"x"}} {
		err := run(t.Context(), args, io.Discard, io.Discard)
		check.That(t, err != nil, "%v: no error", args)
	}
}

// The name of a system selects all rows of that system.
func TestNewBench_SelectsRows(t *testing.T) {
	t.Parallel()
	b, err := newBench(options{many: 1, systems: "redsync,etcd"}, io.Discard)
	check.OK(t, err)
	var names []string
	for _, s := range b.systems {
		names = append(names, s.name)
	}
	check.Equal(t, strings.Join(names, "; "), "etcd; etcd, one session; redsync", "%s")
}

// The server of leases refuses an update with an old resource version.
func TestKube_RefusesOldVersion(t *testing.T) {
	t.Parallel()
	srv, err := serveKube()
	if err != nil {
		t.Fatal(err)
	}
	defer srv.close()
	kube, err := clientgoSystem().dial(srv.addr(), clientgoSystem().short)
	if err != nil {
		t.Fatal(err)
	}
	defer kube.close()
	leases := kube.(*kubeClient).c.Leases("bench")
	first, err := leases.Create(t.Context(), newLease("e"), createOptions)
	if err != nil {
		t.Fatal(err)
	}
	check.OK(t, check.Err(leases.Update(t.Context(), first, updateOptions)))
	if _, err := leases.Update(t.Context(), first, updateOptions); !isConflict(err) {
		t.Errorf("%v, want a conflict", err)
	}
	if _, err := leases.Create(t.Context(), newLease("e"), createOptions); !isExists(err) {
		t.Errorf("%v, want already exists", err)
	}
}

func TestScaled_KeepsProportions(t *testing.T) {
	t.Parallel()
	s := kvelectSystem().usual.scaled(kvelect.MinTTL / 10)
	check.That(t, s.Lease == kvelect.MinTTL/10 && s.Renew == kvelect.Interval(kvelect.MinTTL/10) && s.Poll == s.Renew,
		"%+v", s)
	if s := redsyncSystem().usual.scaled(time.Second); s.Poll != 250*time.Millisecond {
		t.Errorf("%+v: the retry delay of redsync does not depend on the expiry", s)
	}
	if s := etcdSystem().usual.scaled(4 * time.Second); s.Renew != 1500*time.Millisecond {
		t.Errorf("%+v: the client of etcd renews after a third of the TTL, when it looks next", s)
	}
}

func TestWait_EndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := wait(ctx, time.Hour)
	check.That(t, errors.Is(err, context.Canceled), "%v", err)
}
