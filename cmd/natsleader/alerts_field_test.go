//go:build field && alerts && unix

package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// alertScript is an hour of faults, compressed into six minutes.
type alertScript struct {
	*testing.T
	p     monitor
	began time.Time
}

// quiet lets a time pass, in which no alert may fire.
func (s alertScript) quiet(what string, d time.Duration) {
	s.Helper()
	time.Sleep(d) // a proof that nothing happens takes its time
	fired := s.p.alerts(d)
	samples := s.p.query(`{__name__=~"natsleader_(leaders|seat|silent_seconds|bucket_up|faulted|faults_total|group_info|renewal_age_seconds|writes_unknown_total)"}`)
	expect.That(s, len(fired) == 0, "%s: these fired: %q\nof\n%s", what, fired, strings.Join(samples, "\n"))
	s.Logf("%v: quiet: %s", time.Since(s.began).Round(time.Second), what)
}

// fire waits until these alerts have fired, and some time more, in which no other may.
func (s alertScript) fire(what string, want ...string) {
	s.Helper()
	slices.Sort(want)
	begin := time.Now()
	var fired []string
	for limit := begin.Add(4 * time.Minute); !slices.Equal(fired, want) && time.Now().Before(limit) && len(fired) <= len(want); time.Sleep(500 * time.Millisecond) {
		fired = s.p.alerts(time.Since(begin))
	}
	s.Logf("%v: %s: %q", time.Since(s.began).Round(time.Second), what, fired)
	time.Sleep(40 * time.Second) // more than six minutes, for the alerts that wait longest
	fired = s.p.alerts(time.Since(begin))
	expect.That(s, slices.Equal(fired, want),
		"%s: these fired:\n%s\nnot\n%s", what, strings.Join(fired, "\n"), strings.Join(want, "\n"))
}

// over waits until alerts fire no more that last as long as a fault, which has just ended. They have a minute for that. Without
// names these are all.
func (s alertScript) over(what string, names ...string) {
	s.Helper()
	begin := time.Now()
	var fires []string
	for {
		fires = slices.DeleteFunc(s.p.alerts(0), func(alert string) bool {
			name, _, _ := strings.Cut(alert, ",")
			return len(names) > 0 && !slices.Contains(names, name)
		})
		if len(fires) == 0 || time.Since(begin) > time.Minute {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	s.Logf("%v: over %v after: %s", time.Since(s.began).Round(time.Second), time.Since(begin).Round(time.Second), what)
	expect.That(s, len(fires) == 0, "%s: a minute later these fire: %q", what, fires)
}

// end waits until no alert fires.
func (s alertScript) end(what string) {
	s.Helper()
	for limit := time.Now().Add(3 * time.Minute); len(s.p.alerts(0)) > 0 && time.Now().Before(limit); {
		time.Sleep(time.Second)
	}
	testworld.Eventually(s, what, func() bool { return len(s.p.alerts(0)) == 0 })
}

// In a Prometheus with the rules of deploy/prometheus, each fault fires one alert, with the
// labels that are meant. The loss of a server, elections with several seats, and elections
// of one name in two buckets fire none.
func TestAlerts_InAnHourOfFaults(t *testing.T) {
	t.Parallel()
	trio := startTrio(t, "2.11.8")
	op := startScraped(t, "operator", trio.url("admin"))
	for _, bucket := range []string{"elections", "second", "doomed"} {
		trio.makes(leader.BucketConfig{Name: bucket})
	}
	targets := make(map[string]string)
	all := make(map[string]*scrapedProcess)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		all[name] = startScraped(t, name, trio.url(map[bool]string{true: "candidate", false: "admin"}[name == "d"]))
		targets[name] = all[name].server.URL
	}
	shards := make(map[string]*leader.Candidate)
	for _, name := range []string{"a", "b", "c"} {
		all[name].stand("elections", "billing", leader.Config{})
		all[name].stand("second", "billing", leader.Config{})
		shards[name] = all[name].standOnSeats("elections", "shards", 2, leader.Config{})
	}
	all["d"].lead("elections", "mail")
	all["f"].lead("elections", "north")
	all["f"].lead("elections", "south")
	for _, election := range []string{"mail", "north", "south"} {
		all["e"].stand("elections", election, leader.Config{})
	}
	ghost := startScraped(t, "ghost", trio.url("admin")) // no target
	ghost.lead("elections", "ghost")
	for _, bucket := range []string{"elections", "doomed"} {
		targets["exporter-"+bucket] = startExporter(t, trio.url("admin"), bucket)
	}
	s := alertScript{t, startPrometheus(t, targets), time.Now()}
	s.quiet("all is well", 20*time.Second)

	var lost *serverProcess
	testworld.Eventually(t, "the stream has a leader", func() bool { lost = trio.leads(op.js); return lost != nil })
	lost.kill()
	s.quiet("a server of three is killed", 25*time.Second)
	lost.start()
	s.quiet("it is back", 15*time.Second)

	// The lease is compressed as well, for an alert about its end. It is too short to outlive the
	// loss of a server.
	jobs := make(map[string]*leader.Candidate)
	for _, name := range []string{"a", "b", "c"} {
		jobs[name] = all[name].stand("doomed", "jobs", leader.Config{LeaseDuration: 6 * time.Second})
	}
	s.quiet("another election begins", 15*time.Second)

	ghost.setCut(true)
	all["f"].setCut(true)
	trio.permit("$KV.elections.mail")
	for _, name := range []string{"b", "c"} {
		all[name].leave(shards[name])
	}
	testworld.Eventually(t, "a bucket is deleted", func() bool { return op.js.DeleteKeyValue(t.Context(), "doomed") == nil })
	s.fire("five faults at once",
		"Blocked,bucket:doomed,kind:no_bucket}",
		"Silent,bucket:elections,instance:f}",
		"Faulted,bucket:elections,election:mail,kind:permission}",
		"SeatEmpty,bucket:elections,election:shards}",
		"Abandoned,bucket:elections,election:ghost}")

	ghost.setCut(false)
	all["f"].setCut(false)
	trio.permit()
	trio.makes(leader.BucketConfig{Name: "doomed"})
	for _, name := range []string{"b", "c"} {
		all[name].standOnSeats("elections", "shards", 2, leader.Config{})
	}
	s.over("the bucket is there, and may be written", "Blocked")
	s.end("all alerts are over")
	for _, name := range []string{"a", "b", "c"} { // NoLeader waits for a tenth of its minute here, and NoMajority for all of its 15 s
		all[name].leave(jobs[name])
		all[name].stand("doomed", "jobs", leader.Config{})
	}
	s.quiet("after the repairs, for longer than alerts hide one another", 150*time.Second)

	for _, n := range []int{0, 1} {
		trio.servers[n].kill()
	}
	s.fire("two servers of three are lost", "NoMajority,bucket:doomed}", "NoMajority,bucket:elections}", "NoMajority,bucket:second}")
	for _, n := range []int{0, 1} {
		trio.servers[n].start()
	}
	s.end("all lead again")
	s.dashboardShows()
}

// dashboardShows fails the test for each query of the dashboard that had no result since the
// beginning. Some may have none: two candidates rarely write at the same instant, no feed fails, and
// there is neither a `natsleader run` nor a collector with ByBucket.
func (s alertScript) dashboardShows() {
	s.Helper()
	rare := regexp.MustCompile(`natsleader_(writes_refused|feed_rebuilds|command_starts|command_exits)_total`)
	names := regexp.MustCompile(`natsleader_\w+`)
	byBucket := func(query string) bool {
		all := names.FindAllString(query, -1)
		return len(all) > 0 && !slices.ContainsFunc(all, func(name string) bool { return !strings.HasPrefix(name, "natsleader_candidates") })
	}
	variables := strings.NewReplacer("$bucket", ".+", "$election", ".+", "$__rate_interval", "6s", "$__range", "1h")
	queries := dashboardQueries(s.T)
	for _, query := range queries {
		series, err := s.p.series(variables.Replace(query), s.began)
		expect.That(s, err == nil && (series != 0 || rare.MatchString(query) || byBucket(query)),
			"the dashboard's %s: %d series, %v", query, series, err)
	}
	s.Logf("%d queries of the dashboard", len(queries))
}
