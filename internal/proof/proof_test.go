package proof_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

type tests func() int

func (t tests) Run() int { return t() }

func TestMain_WritesTotals(t *testing.T) {
	name := filepath.Join(t.TempDir(), "totals")
	t.Setenv(proof.TotalsFile, name)
	code := proof.Main(tests(func() int {
		proof.Ran(2, "seeds")
		proof.Ran(60, "situations")
		proof.Ran(3, "seeds")
		return 7
	})).Run()
	got, err := os.ReadFile(name)
	check.OK(t, err)
	want := "proof ran 5 seeds, 60 situations\n"
	check.That(t, code == 7 && string(got) == want, "code %d, wrote %q, want code 7, %q", code, got, want)
}

func TestSize_FollowsTheTag(t *testing.T) {
	want := 1
	if proof.Long {
		want = 2
	}
	check.Equal(t, proof.Size(1, 2), want, "Size(1, 2) = %d")
}
