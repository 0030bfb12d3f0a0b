package testserver

import (
	"os"
	"path/filepath"
)

// StoreDir returns a directory for the data of a test's server. The directory is removed
// at the end of the test. It lies in memory where the system has a file system for that. On
// a disk that is busy, for instance with building the tests, a server answers seconds late,
// and leases of the tests run out.
//
// In the directory the streams of each account in accounts have a neighbour. Without it the server
// (2.15.2, stream.go, stop) removes the directory of the account's streams after it has answered to
// the deletion of the last one. A stream that is made then may fail, because its directory has no
// parent: "error creating store for stream".
func StoreDir(tb TB, accounts ...string) string {
	tb.Helper()
	dir := storeDir(tb)
	for _, account := range append(accounts, "$G") {
		if err := os.MkdirAll(filepath.Join(dir, "jetstream", account, "streams", "neighbour"), 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

func storeDir(tb TB) string {
	tb.Helper()
	if !roomInMemory() {
		return tb.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "natsleader-test-")
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Fatal(err)
		}
	})
	return dir
}
