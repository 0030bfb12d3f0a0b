package inspect

import (
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
)

// The answers about the account of a connection and about its user name the account, by its ID if it has no name. Those of
// servers about themselves, or of more than one account, do not.
func TestStatusOf_Account(t *testing.T) {
	for reply, want := range map[string]string{
		`{"data":{"account_statz":[{"acc":"ABC","name":"APP"}]}}`:                "APP",
		`{"data":{"account_statz":[{"acc":"ABC"}]}}`:                             "ABC",
		`{"data":{"account_statz":[{"acc":"ABC"},{"acc":"DEF"}]}}`:               "",
		`{"data":{"user":"u","account":"ABC","account_name":"APP"}}`:             "APP",
		`{"data":{"user":"u","account":"ABC"}}`:                                  "ABC",
		`{"server":{"name":"n1"},"data":{"config":{"sync_interval":120000000}}}`: "",
		`{"server":{"name":"n1"}}`:                                               "",
		``:                                                                       "",
	} {
		expect.Equal(t, string(StatusOf([]byte(reply)).Account()), want, reply+": the account is %q")
	}
}
