//go:build field

package main

import (
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// A mistake in the command line is named, with what may have been meant. None of them is
// taken for an outage.
func TestUsageErrors_NameTheMistake(t *testing.T) {
	for _, x := range []struct {
		args []string
		says string
	}{
		{[]string{"staus"}, `natsleader has no command "staus": did you mean status?`},
		{[]string{"step-dwon"}, "did you mean step-down?"},
		{[]string{"bucket", "ad"}, `natsleader bucket has no command "ad": did you mean add?`},
		{[]string{"xyzzy"}, `natsleader has no command "xyzzy"; try --help`},
		{[]string{"status", "--jsn"}, "natsleader status has no flag --jsn: did you mean --json?"},
		{[]string{"--sever", "x", "status"}, "did you mean --server?"},
		{[]string{"run", "--dran", "5s", "a", "--", "true"}, "did you mean --drain?"},
		{[]string{"run", "a", "./report", "--fast"}, "natsleader run has no flag --fast: if it is a flag of the command, put -- before the command"},
		{[]string{"run", "a", "sh", "-c", "true"}, "no flag -c: if it is a flag of the command, put -- before the command"},
		{[]string{"run", "a", "grep", "-q", "x"}, "--quiet stands after the command, and it is not clear whose it is"},
		{[]string{"run", "a"}, "no command: natsleader run [flags] ELECTION -- COMMAND"},
		{[]string{"run", "--wait", "0s", "a", "--", "true"}, "--wait 0s: --try leads now or never"},
		{[]string{"run", "--try", "--wait", "1s", "a", "--", "true"}, "--try does not wait: leave out --wait 1s"},
		{[]string{"run", "--try", "--retry-connect", "a", "--", "true"}, "leave out --retry-connect"},
		{[]string{"run", "--hold=-1s", "a", "--", "true"}, "--hold -1s is negative"},
		{[]string{"run", "--restart", "1001", "a", "--", "true"}, "--restart 1001 is not from 0 to 1000"},
		{[]string{"run", "--log-format", "xml", "a", "--", "true"}, `--log-format "xml"`},
		{[]string{"status", "--timeout", "abc"}, `--timeout "abc": invalid duration`},
		{[]string{"status", "--timeout", "0s"}, "--timeout 0s is not more than 0"},
		{[]string{"status", ""}, "the argument <election> is empty"},
		{[]string{"bucket", "add", ""}, "the argument <name> is empty"},
		{[]string{"bucket", "info", ""}, "the argument <name> is empty"},
	} {
		fails(t, natsleader(t, x.args...), exitUsage, x.says)
	}
	fails(t, withEnv(natsleader(t, "status"), "NATS_TIMEOUT=soon"), exitUsage, `NATS_TIMEOUT="soon": invalid duration`)
}

// Files for TLS that cannot work are named, and are not taken for a server that is gone.
func TestConnect_TLSFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key, text := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "text")
	writeFile(t, cert, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	writeFile(t, key, "no key")
	writeFile(t, text, "no certificate")
	for _, x := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--tlscert", cert}, "needs --tlskey"},
		{[]string{"--tlskey", key}, "needs --tlscert"},
		{[]string{"--tlscert", cert, "--tlskey", key}, "--tlscert " + cert + " with --tlskey " + key},
		{[]string{"--tlsca", text}, "--tlsca " + text + " has no PEM certificate in it"},
	} {
		fails(t, natsleader(t, append([]string{"status"}, x.flags...)...), exitUsage, x.says)
	}
}

// An account without JetStream is named by each command.
func TestConnect_AccountWithoutJetStream(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "server.conf")
	writeFile(t, conf, `jetstream: {store_dir: "`+t.TempDir()+`"}
accounts: {A: {users: [{user: a, password: a}]}, B: {jetstream: enabled, users: [{user: b, password: b}]}}`)
	o, err := server.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, func(to *server.Options) {
		to.Accounts, to.Users, to.StoreDir = o.Accounts, o.Users, o.StoreDir
	})
	for _, args := range [][]string{{"status"}, {"watch"}, {"bucket", "add"}, {"bucket", "info"}, {"step-down", "x"}, {"run", "x", "--", "true"}, {"hold", "x"}} {
		fails(t, withEnv(natsleader(t, args...), "NATS_URL="+s.ClientURL(), "NATS_USER=a", "NATS_PASSWORD=a"), exitUnreachable, "JetStream is not enabled for the account of this connection")
	}
}
