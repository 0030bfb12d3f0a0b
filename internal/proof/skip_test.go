package proof_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
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
	check.OK(t, err)
	want := "proof\tTestX/a_b\tno browser: file does not exist\nproof\tTestX/a_b\tagain\n"
	check.That(t, string(got) == want, "wrote %q, want %q", got, want)
	check.That(t, len(s.said) == 3 && s.said[2] == "again", "the test got %q", s.said)
	t.Setenv(proof.SkipsFile, t.TempDir()) // cannot be written
	s.said = nil
	proof.Skip(&s, "x")
	check.That(t, len(s.said) != 0 && s.said[0] == "fatal", "the test got %q, want a failure", s.said)
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
		found := plain.Find(text)
		check.That(t, found == nil, "%s: %s) instead of proof.Skip", path, found)
		return err
	})
	check.OK(t, err)
}
