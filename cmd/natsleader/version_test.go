package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
)

func TestVersion_OfTheBuild(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		for _, build := range []*debug.BuildInfo{nil, {
			Main:     debug.Module{Version: "v1.2.3"},
			Deps:     []*debug.Module{{Path: "github.com/nats-io/nats.go", Version: "v1.55.0"}, {Path: "x", Version: "v1"}},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.modified", Value: "true"}},
		}} {
			text := strings.Join(front.Columns(versionsOf(build).rows()), "\n")
			w.Notef("%s\n", strings.NewReplacer(runtime.Version(), "GO", runtime.GOOS+"/"+runtime.GOARCH, "PLATFORM").Replace(text))
		}
	})
}

func TestVersion_JSON(t *testing.T) {
	var out, text bytes.Buffer
	expect.Equal(t, execute([]string{"--version", "--json"}, front.Stdio{Stdout: &out}), 0, "exit code %d")
	expect.Equal(t, execute([]string{"--version"}, front.Stdio{Stdout: &text}), 0, "exit code %d")
	expect.That(t, strings.HasPrefix(text.String(), "Version:  "+version().Version+"\n"), "%s", &text)
	var v versionSummary
	expect.OK(t, json.Unmarshal(out.Bytes(), &v))
	expect.That(t, v.Go == runtime.Version() && strings.HasPrefix(v.Client, "v1."), "%+v", v)
}
