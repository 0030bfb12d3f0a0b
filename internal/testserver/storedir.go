package testserver

import "os"

// StoreDir returns a directory for the data of a test's server. The directory is removed
// at the end of the test. It lies in memory where the system has a file system for that. On
// a disk that is busy, for instance with building the tests, a server answers seconds late,
// and leases of the tests run out.
func StoreDir(tb TB) string {
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
