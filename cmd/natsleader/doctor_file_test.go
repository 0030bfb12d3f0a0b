package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/doctor"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// A file of --save is judged as the bucket is, without a connection. It is new, and only its owner may read it. What is
// no such file, or another question, is wrong usage.
func TestDoctor_SavesFacts(t *testing.T) {
	t.Chdir(t.TempDir())
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{ID: "a", Value: []byte("\xff")})
		for _, form := range []string{"", " --json"} {
			_ = os.Remove("facts.json")
			out, errs, code := w.Run("doctor --read-only --save facts.json" + form)
			again, none, same := w.Run("doctor --from facts.json -s nats://nowhere:1" + form)
			expect.That(w, again == out && same == code && strings.HasPrefix(none, "natsleader: facts.json was read of bucket elections at ") && strings.Count(none, "\n") == 1, "exit codes %d, %d\n%s\n%s%s", code, same, out, again, none)
			if form == "" {
				w.Notef("%s%s[exit code %d]\n", out, errs, code)
			}
		}
		info := expect.Got(os.Stat("facts.json"))(w)
		text := string(expect.Got(os.ReadFile("facts.json"))(w))
		expect.That(w, info.Mode().Perm() == 0o600 && strings.Contains(text, `"program": "natsleader doctor"`), "%v\n%s", info.Mode(), text)
		expect.OK(w, os.WriteFile("junk.json", []byte("junk"), 0o600))
		expect.OK(w, os.WriteFile("later.json", []byte(strings.Replace(text, `"format": 1`, `"format": 2`, 1)), 0o600))
		expect.OK(w, os.WriteFile("half.json", []byte(text[:len(text)/2]), 0o600))
		w.Prompt("doctor --save facts.json", "doctor --from none.json", "doctor --from junk.json", "doctor --from later.json", "doctor --from half.json",
			"doctor --from facts.json --lease 3s", "doctor --from facts.json --bucket other", "doctor --from facts.json --save other.json",
			"doctor --save away.json -s nats://localhost:1", "doctor --from away.json", "doctor --save usage.json --bucket a*b")
		_, err := os.Stat("usage.json")
		expect.That(w, os.IsNotExist(err), "a file is left: %v", err)
		b := new(doctor.Environment).Unreached(fmt.Errorf("%w: %w", front.ErrUnreachable, nats.ErrAuthorization))
		report(w, "the user is revoked", b, "server")
	})
}

// The file of an incident: the disk of one server of three was full, while two elections were led and a third was not.
func TestDoctor_Incident(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) { w.Prompt("doctor --from testdata/incident.json") })
}
