package leader_test

import (
	"os"
	"strings"
	"testing"
)

func TestTheQuickStartInTheReadmeIsTheExampleThatCompiles(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	shown, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the README has no block of Go")
	}
	_, rest, _ = strings.Cut(string(source), "func Example() {\n")
	body, _, ok := strings.Cut(rest, "\n}\n")
	if !ok {
		t.Fatal("example_test.go has no Example")
	}
	if got := strings.ReplaceAll("\n"+body+"\n", "\n\t", "\n")[1:]; got != shown {
		t.Errorf("Example is\n%s\nbut the README shows\n%s", got, shown)
	}
	if n := strings.Count(shown, "\n"); n > 20 {
		t.Errorf("the quick start has %d lines, more than 20", n)
	}
}
