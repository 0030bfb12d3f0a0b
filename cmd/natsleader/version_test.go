package main

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
)

func TestVersion_OfTheBuild(t *testing.T) {
	v := versionsOf(&debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Deps:     []*debug.Module{{Path: "github.com/nats-io/nats.go", Version: "v1.55.0"}, {Path: "x", Version: "v1"}},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.modified", Value: "true"}},
	})
	want := []string{"Version: v1.2.3", "Commit: 0123abcd, and changes", "Go: " + runtime.Version() + " " + v.Platform, "nats.go: v1.55.0"}
	var got []string
	for _, row := range v.rows() {
		got = append(got, strings.Join(row, " "))
	}
	expect.That(t, slices.Equal(got, want), "got\n%q\nwant\n%q", got, want)
	if v := versionsOf(nil); v.Version != "unknown" || v.Client != "unknown" {
		t.Errorf("%+v", v)
	}
}
