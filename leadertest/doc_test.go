package leadertest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// The test that the package documentation shows is that of service_test.go.
func TestDoc_ShowsTheServiceTest(t *testing.T) {
	doc := check.Got(os.ReadFile("doc.go"))(t)
	service := check.Got(os.ReadFile("service_test.go"))(t)
	shown := regexp.MustCompile(`(?s)//\t(// A leader.*?\n//\t\})\n`).FindStringSubmatch(string(doc))
	check.Must(t, shown != nil, "it shows no test")
	code := regexp.MustCompile(`(?m)^//\t?`).ReplaceAllString("//\t"+shown[1], "")
	check.That(t, strings.Contains(string(service), "\n"+code+"\n"), "service_test.go has no\n%s", code)
}
