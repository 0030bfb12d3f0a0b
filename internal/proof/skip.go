package proof

import (
	"fmt"
	"os"
	"strings"
)

// SkipsFile is the environment variable with the name of a file to which [Skip] appends.
// scripts/skips reads it.
const SkipsFile = "NATSLEADER_SKIPS"

// Skip skips a test that cannot run here, for the reason that the arguments give. It appends
// the name of the test binary, the test and the reason to the file that [SkipsFile] names.
// The tests of this repository skip themselves in no other way, so CI knows what it has not
// run. It need not know the tests of [Only], because it runs them with the build tag.
func Skip(tb TB, reason ...any) {
	tb.Helper()
	if name := os.Getenv(SkipsFile); name != "" {
		why := strings.Join(strings.Fields(fmt.Sprint(reason...)), " ")
		if err := appendTo(name, fmt.Sprintf("%s\t%s\t%s\n", binary(), tb.Name(), why)); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Skip(reason...)
}
