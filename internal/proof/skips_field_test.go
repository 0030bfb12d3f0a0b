//go:build field

package proof_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

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
			check.OK(t, err)
			for path, text := range map[string]string{"scripts/skips": string(script), ".ci/skips": list} {
				path = filepath.Join(root, path)
				check.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
				check.OK(t, os.WriteFile(path, []byte(text), 0o600))
			}
			cmd := exec.Command("bash", filepath.Join(root, "scripts/skips"), tt.step, "bash", "-c", `printf "$1" >>"$NATSLEADER_SKIPS"; exit "$2"`, "-", tt.skipped, strconv.Itoa(tt.command))
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.prints) || tt.prints == "" && len(out) > 0 {
				t.Errorf("code %d, want %d and %q:\n%s", code, tt.code, tt.prints, out)
			}
		})
	}
}
