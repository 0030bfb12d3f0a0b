package main

import (
	"runtime"
	"runtime/debug"
)

// A build from sources without their repository, as in an image, does not know them, and the go command gets them
// as -ldflags "-X main.releaseVersion=v1.2.3 -X main.releaseCommit=...".
var releaseVersion, releaseCommit string

// versionSummary is what a build knows of itself.
type versionSummary struct {
	Version  string `json:"version"`            // "(devel)" where it was not installed as a module
	Commit   string `json:"commit,omitempty"`   // of a build in a checkout
	Modified bool   `json:"modified,omitempty"` // the checkout was not that of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Client   string `json:"nats_go"`
}

// version returns what the go command or its -ldflags have recorded.
func version() versionSummary {
	info, _ := debug.ReadBuildInfo()
	v := versionsOf(info)
	if releaseVersion != "" {
		v.Version = releaseVersion
	}
	if releaseCommit != "" && v.Commit == "" {
		v.Commit = releaseCommit
	}
	return v
}

// versionsOf reads what the Go linker has recorded, which is nil in a build without modules.
func versionsOf(info *debug.BuildInfo) versionSummary {
	v := versionSummary{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Client: "unknown"}
	if info == nil {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/nats-io/nats.go" {
			v.Client = m.Version
		}
	}
	return v
}

func (v versionSummary) rows() [][]string {
	rows := [][]string{{"Version:", v.Version}}
	if v.Commit != "" {
		commit := v.Commit
		if v.Modified {
			commit += ", and changes"
		}
		rows = append(rows, []string{"Commit:", commit})
	}
	return append(rows, []string{"Go:", v.Go + " " + v.Platform}, []string{"nats.go:", v.Client})
}
