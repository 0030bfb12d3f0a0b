package mutation_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// jsapiMutants are mutants of package jsapi. Tests of that package catch them.
var jsapiMutants = []struct{ name, file, old, new, caught string }{
	{
		name: "a shared STREAM.INFO answered from before the question",
		file: "shared.go",
		old:  "	r := s.next\n	if r == nil {\n",
		new:  "	r := s.next\n	if s.flying != nil {\n		r = s.flying\n	}\n	if r == nil {\n",

		caught: "TestShared_AnswersAreNewer",
	},
	{
		name: "a reply in a key believed",
		file: "entry.go",
		old:  "	case how.isReply(h):\n		e.Value = nil\n",
		new:  "",

		caught: "TestNewEntry_OfReplies",
	},
	{
		name: "a value without a condition believed",
		file: "entry.go",
		old:  "	case !how.sourced && len(h",
		new:  "	case how.sourced && len(h",

		caught: "TestNewEntry_OfReplies",
	},
}

func TestMutants_JSAPI(t *testing.T) {
	for _, m := range jsapiMutants {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join("../internal/jsapi", m.file))
			if err != nil {
				t.Fatal(err)
			}
			code, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(code), m.old); n != 1 {
				t.Fatalf("%s contains %q %d times", m.file, m.old, n)
			}
			dir := t.TempDir()
			mutated, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
			index, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
			if err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{mutated: strings.Replace(string(code), m.old, m.new, 1), overlay: string(index)} {
				if err = os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			test := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", overlay, "-run", "^"+m.caught+"$", "../internal/jsapi")
			if out, err := test.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL: "+m.caught) {
				t.Errorf("not caught: %v\n%s", err, out)
			}
		})
	}
}
