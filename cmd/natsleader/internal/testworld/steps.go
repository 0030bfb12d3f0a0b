package testworld

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// Made ends a test if a part of it could not be made.
func (w *World) Made(_ any, err error) {
	w.Helper()
	expect.OK(w, err)
}

// Config returns the settings of a stream.
func (w *World) Config(stream string) jetstream.StreamConfig {
	w.Helper()
	s := expect.Got(w.Js.Stream(w.Context(), stream))(w)
	return s.CachedInfo().Config
}

// NoteStreams adds the names of all streams to the transcript.
func (w *World) NoteStreams() {
	w.Helper()
	var names []string
	all := w.Js.StreamNames(w.Context())
	for name := range all.Name() {
		names = append(names, name)
	}
	expect.OK(w, all.Err())
	slices.Sort(names)
	w.Notef("# streams: %s\n", strings.Join(names, ", "))
}

// Complete adds to the transcript what the shell offers for the last word of a command line. fisk prints it to
// the standard output of the process. What a command or a flag of fisk itself adds is left out.
func (w *World) Complete(lines ...string) {
	w.Helper()
	for _, line := range lines {
		words := strings.Fields(StdoutOf(w, func() {
			_, errs, code := w.Run("--completion-bash " + line)
			expect.That(w, errs == "" && code == 0, "%s: exit code %d\n%s", line, code, errs)
		}))
		slices.Sort(words)
		w.Notef("$ natsleader %s\n%s\n", strings.ReplaceAll(line, "''", "<Tab>"), strings.Join(words, " "))
	}
}

// Answers is prompt at a terminal, for a command that asks a question.
func (w *World) Answers(line, answer string, meanwhile func()) {
	var screen bytes.Buffer
	process := front.Stdio{Stdin: operator{meanwhile, answer, &screen}, Stdout: &screen, Stderr: &screen, Dial: w.InProcess()}
	synctest.Wait()
	code := Execute(strings.Fields(line), process)
	w.Notef("$ natsleader %s\n%s", line, screen.String())
	w.Ended(code)
}

// WriteFile writes a file, and returns its path.
func (w *World) WriteFile(path, text string) string {
	w.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	expect.OK(w, err)
	return path
}

// WithContext writes a context for commands, and selects it.
func (w *World) WithContext(name, json string) (path string) {
	dir := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "nats")
	w.WriteFile(filepath.Join(dir, "context.txt"), name)
	return w.WriteFile(filepath.Join(dir, "context", name+".json"), json)
}

// Advertise lets the server advertise addresses on new connections.
func (w *World) Advertise(urls ...string) {
	w.Dialled = func(c net.Conn) net.Conn { return &advertising{Conn: c, urls: urls} }
}

// Remake makes the bucket anew.
func (w *World) Remake(cfg leader.BucketConfig) {
	w.Helper()
	w.Remove("KV_elections")
	cfg.Name = "elections"
	w.Made(leader.CreateOrUpdateBucket(w.Context(), w.Js, cfg))
}

// Remove deletes a stream, if there is one.
func (w *World) Remove(stream string) {
	w.Helper()
	if err := w.Js.DeleteStream(w.Context(), stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		expect.OK(w, err)
	}
}

// Change changes the settings of a stream.
func (w *World) Change(stream string, change func(*jetstream.StreamConfig)) {
	w.Helper()
	c := w.Config(stream)
	change(&c)
	w.Made(w.Js.UpdateStream(w.Context(), c))
}

// Publish stores a message without conditions.
func (w *World) Publish(subject, data string, header ...string) {
	w.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(data)
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	w.Made(w.Js.PublishMsg(w.Context(), m))
}

// FindingsBeside returns findings beside those of a first report, which is not shown.
func (w *World) FindingsBeside(line string) Findings {
	_, _, first := w.Doctor(line, nil)
	return Findings{w, first}
}

// Doctor calls doctor. It returns the report without what is known, the exit code, and the findings of
// the report.
func (w *World) Doctor(line string, known map[string]bool) (shown string, code int, found map[string]bool) {
	out, errs, code := w.Run("doctor " + line)
	report, sum, _ := strings.Cut(repeatable(out), "\n\n")
	if known == nil {
		sum = "\n" + sum
	}
	found = make(map[string]bool)
	for _, each := range regexp.MustCompile(`\n\b`).Split(report, -1) {
		key := strings.Join(strings.Fields(each), " ")
		if found[key] = true; !known[key] {
			shown += each + "\n"
		}
	}
	for line := range strings.Lines(errs) {
		sum += "! " + line
	}
	return shown + sum, code, found
}

// NoteMetrics adds the metrics of a page to the transcript, but none of Go and of the process.
func (w *World) NoteMetrics(page string) {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "natsleader_") {
			w.Notef("  %s", line)
		}
	}
}

// Exported adds to the transcript what the exporter serves.
func (w *World) Exported() {
	w.Helper()
	for _, path := range []string{"/metrics", "/connected", "/live"} {
		status, body := w.Get(path)
		w.Notef("GET %s: %d\n", path, status)
		if path == "/metrics" {
			w.NoteMetrics(body)
		} else {
			w.Notef("  %s", body)
		}
	}
}

// Response sends a request to the command that serves. Each header is "Name: value".
func (w *World) Response(method, path, body string, headers ...string) *http.Response {
	w.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: w.Served.dial}}
	request, err := http.NewRequestWithContext(w.Context(), method, "http://127.0.0.1"+path, strings.NewReader(body))
	expect.OK(w.T, err)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if request.Header.Set(name, value); name == "Host" {
			request.Host = value
		}
	}
	response, err := client.Do(request)
	expect.OK(w.T, err)
	return response
}

// Ask sends a request, and reads the answer.
func (w *World) Ask(method, path, body string, headers ...string) (response *http.Response, text string) {
	w.Helper()
	response = w.Response(method, path, body, headers...)
	defer response.Body.Close() //nolint:errcheck // nothing is written
	all, err := io.ReadAll(response.Body)
	expect.OK(w.T, err)
	return response, string(all)
}

// Get reads a page of the command that serves.
func (w *World) Get(path string) (status int, body string) {
	w.Helper()
	response, text := w.Ask(http.MethodGet, path, "")
	return response.StatusCode, text
}

// SlowAPI answers with the prefix SLOW of the JetStream API, each request after a moment, and counts those for records.
func (w *World) SlowAPI() *gets {
	n, nc := new(gets), w.Js.Conn()
	w.Made(nc.Subscribe("SLOW.>", func(m *nats.Msg) {
		get := strings.Contains(m.Subject, ".GET.")
		if get {
			n.All.Add(1)
			n.Most.Store(max(n.Most.Load(), n.now.Add(1)))
		}
		time.AfterFunc(10*time.Millisecond, func() {
			if get {
				n.now.Add(-1)
			}
			expect.OK(w, nc.PublishRequest("$JS.API"+strings.TrimPrefix(m.Subject, "SLOW"), m.Reply, m.Data))
		})
	}))
	expect.OK(w, nc.Flush())
	return n
}

// Briefly calls a command, interrupts it after a minute, and returns its exit code.
func (w *World) Briefly(line string) int {
	ctx, stop := context.WithTimeout(w.Context(), time.Minute)
	defer stop()
	process := front.Stdio{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Dial: w.InProcess(), Life: ctx}
	return Execute(strings.Fields(line), process)
}

// Joins starts a member, and waits until it has its share.
func (w *World) Joins(id string, cfg shard.Config) *worker {
	w.Helper()
	nc := w.Connect()
	bucket := expect.Got(leader.OpenBucket(expect.Got(jetstream.New(nc))(w), "elections"))(w)
	cfg.ID, cfg.Shards = id, 8
	w.Cleanup(nc.Close)
	m := Works(w, bucket, "orders", cfg)
	m.nc = nc
	time.Sleep(11 * time.Second) // no renewal is due
	return m
}

// NoteKey adds what is in a key of the bucket to the transcript. record is what was written to it.
func (w *World) NoteKey(election, record string) {
	w.Helper()
	stream := expect.Got(w.Js.Stream(w.Context(), "KV_elections"))(w)
	m := expect.Got(stream.GetLastMsgForSubject(w.Context(), "$KV.elections."+election))(w)
	text := map[string]string{record: "the record", "": "nothing"}[string(m.Data)]
	if op := m.Header.Get("KV-Operation"); op != "" {
		text = "the marker " + op + " with " + text
	}
	w.Notef("# the key of %s holds %s\n", election, text)
}

// Timed is prompt, and adds how long the command took.
func (w *World) Timed(lines ...string) {
	for _, line := range lines {
		began := time.Now()
		w.Prompt(line)
		w.Notef("# after %v\n", time.Since(began))
	}
}

// StepsDown is prompt for a command whose lines come in any order, apart from the last.
func (w *World) StepsDown(line string) {
	synctest.Wait()
	out, errs, code := w.Run(line)
	lines := strings.SplitAfter(out+errs, "\n")
	slices.Sort(lines[:max(0, len(lines)-2)])
	w.Notef("$ natsleader %s\n%s[exit code %d]\n", line, strings.Join(lines, ""), code)
}

// Asks sends a request to the command that serves, and adds the answer to the transcript. Each header is "Name: value".
func (w *World) Asks(method, path, body string, headers ...string) {
	w.Helper()
	response, text := w.Ask(method, path, body, headers...)
	request := strings.Join(append([]string{method + " " + path, body}, headers...), " ")
	note := fmt.Sprintf("%s: %d\n  %s\n", strings.TrimSpace(request), response.StatusCode, strings.TrimSuffix(text, "\n"))
	_, _ = NoteWriter{w, ""}.Write([]byte(note))
}

// Reads follows a stream of the page until the command ends. It adds to the transcript why the page is not up to
// date, or that it is again, and when. It adds each head, each change, each roster, and each row that differs from the one before
// in more than a renewal.
func (w *World) Reads(path string) {
	w.Helper()
	response := w.Response(http.MethodGet, path, "")
	note := NoteWriter{w, path + ": "}
	go func() {
		defer response.Body.Close()     //nolint:errcheck // nothing is written
		var head atomic.Pointer[string] // to be noted
		trouble, rows := "", make(map[string]string)
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			data, _ := strings.CutPrefix(lines.Text(), "data: ")
			var m struct {
				Now        int64
				Error      string
				Since      int64
				Head       *webpage.Head
				Rows       []webpage.Row
				Changes    []json.RawMessage
				Candidates json.RawMessage
			}
			if json.Unmarshal([]byte(data), &m) != nil {
				continue // the line after a message
			}
			if m.Candidates != nil {
				_, _ = fmt.Fprintln(note, data)
				continue
			}
			if m.Error != trouble {
				trouble = m.Error
				_, _ = fmt.Fprintf(note, "%d %s\n", m.Now, cmp.Or(trouble, "up to date"))
				if m.Since != 0 {
					_, _ = fmt.Fprintf(note, "since %d\n", m.Since)
				}
			}
			if m.Head != nil && m.Head.Server != "" && m.Head.Checked {
				text, _ := json.Marshal(m.Head)
				last := head.Swap(new(strings.ReplaceAll(string(text), m.Head.Server, "SERVER")))
				if last == nil {
					go func() { // how many come at one moment, and in which order, is a race
						time.Sleep(time.Nanosecond)
						_, _ = fmt.Fprintln(note, *head.Swap(nil))
					}()
				}
			}
			for _, c := range m.Changes {
				_, _ = fmt.Fprintf(note, "%s\n", c)
			}
			for _, row := range m.Rows {
				if row.Group != "" { // these depend on how its assigner publishes, and on what is not in the row
					row.Expires, row.Revision, row.Written = 0, 0, 0
				}
				text, _ := json.Marshal(row)
				row.Expires, row.Revision, row.Written = 0, 0, 0
				if is, _ := json.Marshal(row); rows[row.Key] != string(is) {
					_, _ = fmt.Fprintf(note, "%s\n", text)
					rows[row.Key] = string(is)
				}
			}
		}
	}()
	synctest.Wait()
}

// Secret returns what requests for actions carry, out of the link that was printed last.
func (w *World) Secret() string {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	text := w.Shown.String()
	_, link, _ := strings.Cut(text[strings.LastIndex(text, " http://127.0.0.1:80/#secret="):], "#secret=")
	return link[:26]
}

// Later calls f while a command runs.
func (w *World) Later(after time.Duration, f func()) {
	time.AfterFunc(after, f)
}

// CutOff lets the server answer for a time as one that leads the stream, or knows no leader, and does not hear from a
// majority.
func (w *World) CutOff(from, until time.Duration, c *jetstream.ClusterInfo) {
	info := expect.Got(w.Js.Stream(w.Context(), "KV_elections"))(w).CachedInfo()
	info.Cluster = c
	nc := w.Connect()
	w.Cleanup(nc.Close)
	_, err := nc.Subscribe("cut.off", func(m *nats.Msg) {
		info.TimeStamp = time.Now()
		_ = m.Respond(expect.Got(json.Marshal(info))(w))
	})
	expect.OK(w, err)
	expect.OK(w, nc.Flush())
	w.Later(from, func() {
		expect.OK(w, w.S.GlobalAccount().AddMapping("$JS.API.STREAM.INFO.KV_elections", "cut.off"))
	})
	w.Later(until, func() { w.S.GlobalAccount().RemoveMapping("$JS.API.STREAM.INFO.KV_elections") })
}
