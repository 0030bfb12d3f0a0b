package proof_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/proof"
)

// skipper records what Skip does with a test.
type skipper struct{ said []any }

func (*skipper) Helper()               {}
func (*skipper) Name() string          { return "TestX/a_b" }
func (s *skipper) Skip(reason ...any)  { s.said = append(s.said, reason...) }
func (s *skipper) Fatal(reason ...any) { s.said = append(s.said, "fatal") }

func TestSkip_WritesTestAndReason(t *testing.T) {
	name := filepath.Join(t.TempDir(), "skips")
	t.Setenv(proof.SkipsFile, name)
	var s skipper
	proof.Skip(&s, "no browser:\n", os.ErrNotExist)
	proof.Skip(&s, "again")
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if want := "proof\tTestX/a_b\tno browser: file does not exist\nproof\tTestX/a_b\tagain\n"; string(got) != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
	if len(s.said) != 3 || s.said[2] != "again" {
		t.Errorf("the test got %q", s.said)
	}
	t.Setenv(proof.SkipsFile, t.TempDir()) // cannot be written
	s.said = nil
	if proof.Skip(&s, "x"); len(s.said) == 0 || s.said[0] != "fatal" {
		t.Errorf("the test got %q, want a failure", s.said)
	}
}

// inRepository skips a test that needs the rest of the repository, which is not there in the
// module cache.
func inRepository(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../../.ci/skips"); err != nil {
		proof.Skip(t, "the repository is not here")
	}
}

// No test of the repository skips itself without proof.Skip.
func TestSkip_IsTheOnlyWay(t *testing.T) {
	inRepository(t)
	plain := regexp.MustCompile(`\b(t|b|f|tb)\.Skip(f|Now)?\(`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "../..":
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if found := plain.Find(text); found != nil {
			t.Errorf("%s: %s) instead of proof.Skip", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// scripts/skips fails for a test that is not listed, for an entry that is not used, and with
// the command.
func TestSkips_ListAndTests(t *testing.T) {
	inRepository(t)
	if _, err := exec.LookPath("bash"); err != nil {
		proof.Skip(t, err)
	}
	const list = "# a comment\nprove leader TestA reason\nprove leader TestB/*_c reason\nrace leader TestD reason\n"
	const a, b = `leader\tTestA\tx\n`, `leader\tTestB/1_c\tx\n`
	for _, tt := range []struct {
		name, step, skipped string
		command             int
		code                int
		prints              string
	}{
		{"as listed", "prove", a + b + a, 0, 0, "skipped, as listed: leader TestB/1_c: x\n"},
		{"nothing is listed or skipped", "test", "", 0, 0, ""},
		{"of another step", "race", `leader\tTestD\tx\n` + a, 0, 1, "not listed for race in .ci/skips: leader TestA: x\n"},
		{"of another package", "prove", a + b + `fence\tTestA\tx\n`, 0, 1, "not listed for prove in .ci/skips: fence TestA: x\n"},
		{"with a name that is longer", "prove", a + b + `leader\tTestA/b\tx\n`, 0, 1, "not listed for prove in .ci/skips: leader TestA/b: x\n"},
		{"an entry is not used", "prove", a, 0, 1, "not skipped, but listed for prove in .ci/skips: leader TestB/*_c\n"},
		{"the command fails", "prove", a + b, 7, 7, "skipped, as listed: leader TestA: x\n"},
		{"both fail", "prove", a, 7, 7, "not skipped, but listed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			script, err := os.ReadFile("../../scripts/skips")
			if err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{"scripts/skips": string(script), ".ci/skips": list} {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("bash", filepath.Join(root, "scripts/skips"), tt.step, "bash", "-c", `printf "$1" >>"$NATSLEADER_SKIPS"; exit "$2"`, "-", tt.skipped, strconv.Itoa(tt.command))
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.prints) || tt.prints == "" && len(out) > 0 {
				t.Errorf("code %d, want %d and %q:\n%s", code, tt.code, tt.prints, out)
			}
		})
	}
}
