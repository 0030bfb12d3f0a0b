package recipes_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page shows code that is tested: each block of Go is in the tests word for word.
func TestThePage_CodeIsTested(t *testing.T) {
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, name := range []string{"recipes_test.go", "recipes_field_test.go", "grpc_test.go", "otel_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	for _, b := range blocks {
		if !strings.Contains(source.String(), "\n"+b[1]+"\n") {
			t.Errorf("not in the tests, word for word and as a whole:\n%s", b[1])
		}
	}
	if len(blocks) == 0 {
		t.Error("the page shows no code")
	}
}
