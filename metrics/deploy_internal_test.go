package metrics

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

var (
	descText = regexp.MustCompile(`^Desc\{fqName: "([a-z_]+)".*variableLabels: \{([a-z,]*)\}\}$`)
	nameUsed = regexp.MustCompile(`\bnatsleader_[a-z_]+`)
	matcher  = regexp.MustCompile(`\b([a-z_]+)(?:=|!=|=~|!~)\\?"([^"\\]*)\\?"`)
	grouping = regexp.MustCompile(`\b(?:by|on|without|ignoring) \(([a-z, ]+)\)`)
)

// The rules, the dashboard and the documentation use metrics that exist.
func TestDeployFiles_MetricsExist(t *testing.T) {
	labels := map[string][]string{"__all": {"instance", "le", "alertstate", "alertname"}}
	ch := make(chan *prometheus.Desc, 100)
	new(Collector).Describe(ch)
	close(ch)
	for d := range ch {
		m := descText.FindStringSubmatch(d.String())
		check.Must(t, m != nil, "what is this: %v", d)
		labels[m[1]] = strings.Split(m[2], ",")
	}
	maps.Copy(labels, commandMetrics(t))
	values := map[string][]string{
		"cause": append(slices.Collect(maps.Values(errorNames)), "other", "none"),
		"kind":  append(slices.Collect(maps.Values(errorNames)), "other"),
	}
	for _, s := range states {
		values["state"] = append(values["state"], s.String())
	}
	values["to"] = slices.Clone(values["state"])
	for _, m := range regexp.MustCompile(`\t[A-Z]\w+ +State = "([a-z]+)"`).FindAllStringSubmatch(read(t, "../cmd/natsleader/internal/facts/state.go"), -1) {
		values["state"] = append(values["state"], m[1]) // of an election
	}

	used := make(map[string]bool)
	for _, path := range []string{
		"../deploy/prometheus/rules.yml", "../deploy/prometheus/rules_test.yml",
		"../deploy/grafana/dashboard.json", "../docs/production.md", "../docs/runbook.md",
	} {
		text := read(t, path)
		for _, name := range nameUsed.FindAllString(text, -1) {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if base, ok := strings.CutSuffix(name, suffix); ok && strings.HasSuffix(base, "_renewal_duration_seconds") {
					name = base
				}
			}
			check.That(t, labels[name] != nil, "%s: there is no metric %s", path, name)
			used[name] = true
		}
		known := slices.Concat(slices.Collect(maps.Values(labels))...)
		for _, m := range grouping.FindAllStringSubmatch(text, -1) {
			for label := range strings.SplitSeq(m[1], ", ") {
				if !slices.Contains(known, label) {
					t.Errorf("%s: %s: there is no label %s", path, m[0], label)
				}
			}
		}
		for _, m := range matcher.FindAllStringSubmatch(text, -1) {
			for value := range strings.SplitSeq(m[2], "|") {
				if known := values[m[1]]; known != nil && !slices.Contains(known, value) {
					t.Errorf("%s: %s: there is no %s %s", path, m[0], m[1], value)
				}
			}
		}
	}
	for name := range labels {
		check.That(t, !strings.HasPrefix(name, "natsleader_") || used[name], "%s is not mentioned anywhere", name)
	}
}

// commandMetrics returns the labels of the metrics that the command itself has, by name.
func commandMetrics(t *testing.T) map[string][]string {
	found := make(map[string][]string)
	for path, of := range map[string]struct {
		prefix string
		labels []string
	}{
		"../cmd/natsleader/internal/run/http.go":      {"natsleader_command_", []string{"bucket", "election"}},
		"../cmd/natsleader/internal/page/exporter.go": {"natsleader_", []string{"bucket"}},
	} {
		n := len(found)
		for _, m := range regexp.MustCompile(`[dD]esc\(\s*"([a-z_]+)",\s*"[^"]+"((?:, "[a-z]+")*)\)`).FindAllStringSubmatch(read(t, path), -1) {
			labels := strings.FieldsFunc(m[2], func(r rune) bool { return r < 'a' || r > 'z' })
			found[of.prefix+m[1]] = append(labels, of.labels...)
		}
		check.Must(t, len(found) >= n+4, "%s: only %v", path, found)
	}
	return found
}

// Each alert links to its section of the runbook, and each section of an alert says what to
// look at and what to do.
func TestRunbook_SectionForEachAlert(t *testing.T) {
	sections := make(map[string]string) // by anchor
	for section := range strings.SplitSeq(read(t, "../docs/runbook.md"), "\n### ") {
		title, text, _ := strings.Cut(section, "\n")
		sections[strings.ReplaceAll(strings.ToLower(title), " ", "-")] = text
	}
	rules := strings.Split(read(t, "../deploy/prometheus/rules.yml"), "- alert: ")[1:]
	check.That(t, len(rules) != 0, "there are no alerts")
	for _, rule := range rules {
		name, _, _ := strings.Cut(rule, "\n")
		anchor := strings.ToLower(name)
		if !strings.Contains(rule, "runbook_url: https://github.com/natsleader/natsleader/blob/main/docs/runbook.md#"+anchor+"\n") {
			t.Errorf("%s has no runbook_url with its anchor", name)
		}
		for _, part := range []string{"**Symptom.**", "**Look.**", "**Do.**"} {
			check.That(t, strings.Contains(sections[anchor], part), "the section of %s has no %s", name, part)
		}
	}
	for _, cause := range []string{"quorum-lost", "disk-full", "bucket-deleted", "bucket-restored", "permissions-revoked"} {
		check.That(t, strings.Contains(sections[cause], "**Do.**"), "%s is not there", cause)
	}
}

// The alerts are those of the documentation.
func TestAlerts_AreDocumented(t *testing.T) {
	alerts := func(path, pattern string) []string {
		var names []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, path), -1) {
			names = append(names, m[1])
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	rules := alerts("../deploy/prometheus/rules.yml", `- alert: (\w+)`)
	for _, other := range [][]string{
		alerts("../docs/production.md", "`(Natsleader\\w+)`"),
		alerts("../deploy/prometheus/rules_test.yml", `alertname: (\w+)`),
	} {
		check.That(t, slices.Equal(rules, other), "%v\nnot %v", other, rules)
	}
	check.That(t, len(rules) != 0, "there are none")
}

// The dashboard has a title, and each panel has an ID of its own and shows something.
func TestDashboard_IsValid(t *testing.T) {
	var dashboard struct {
		UID, Title  string
		Links       []struct{ URL string }
		Annotations struct{ List []struct{ Name, Expr string } }
		Templating  struct{ List []struct{ Name string } }
		Panels      []struct {
			ID      int
			Targets []struct{ Expr, LegendFormat string }
			Links   []struct{ URL string }
		}
	}
	check.OK(t, json.Unmarshal([]byte(read(t, "../deploy/grafana/dashboard.json")), &dashboard))
	seen := make(map[int]bool)
	for _, p := range dashboard.Panels {
		check.That(t, !seen[p.ID] && len(p.Targets) != 0, "panel %d is there twice, or shows nothing", p.ID)
		seen[p.ID] = true
		for _, target := range p.Targets {
			check.That(t, target.Expr != "" && target.LegendFormat != "", "panel %d: %+v", p.ID, target)
		}
	}
	var selectors []string
	for _, v := range dashboard.Templating.List {
		selectors = append(selectors, v.Name)
	}
	if !slices.Equal(selectors, []string{"datasource", "bucket", "election"}) || len(dashboard.Annotations.List) == 0 || dashboard.Annotations.List[0].Name != "Handovers" {
		t.Errorf("selectors %v, annotations %v", selectors, dashboard.Annotations.List)
	}
	runbook := strings.ToLower(read(t, "../docs/runbook.md"))
	links := dashboard.Links
	for _, p := range dashboard.Panels {
		links = append(links, p.Links...)
	}
	for _, link := range links {
		_, anchor, ok := strings.Cut(link.URL, "runbook.md#")
		check.That(t, !ok || strings.Contains(runbook, "# "+anchor+"\n"),
			"%s: the runbook has no such section", link.URL)
	}
	check.That(t, dashboard.UID != "" && dashboard.Title != "" && len(seen) != 0, "%+v", dashboard)
}

// read returns a file of the repository. It skips the test in the module cache, where
// `go test all` of a program runs it: only this module is there.
func read(t *testing.T, path string) string {
	t.Helper()
	if _, err := os.Stat("../go.mod"); err != nil {
		proof.Skip(t, "the other modules of the repository are not here")
	}
	text := check.Got(proof.ReadOutside(path))(t)
	return string(text)
}
