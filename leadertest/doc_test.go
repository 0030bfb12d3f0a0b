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
	doc, err := os.ReadFile("doc.go")
	check.OK(t, err)
	service, err := os.ReadFile("service_test.go")
	check.OK(t, err)
	shown := regexp.MustCompile(`(?s)//\t(// A leader.*?\n//\t\})\n`).FindStringSubmatch(string(doc))
	check.Must(t, shown != nil, "it shows no test")
	code := regexp.MustCompile(`(?m)^//\t?`).ReplaceAllString("//\t"+shown[1], "")
	check.That(t, strings.Contains(string(service), "\n"+code+"\n"), "service_test.go has no\n%s", code)
}
