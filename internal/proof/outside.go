package proof

import "os"

// TreeHash is the environment variable in which .ci/run has a hash of the working tree.
const TreeHash = "NATSLEADER_TREE"

// Outside is for a test that depends on files of the repository which go test does not watch: those outside of its
// module, and those that a program reads which it starts. In .ci/run go test repeats it when the tree has changed.
func Outside() { _ = os.Getenv(TreeHash) }

// ReadOutside reads a file outside of the test's module.
func ReadOutside(name string) ([]byte, error) {
	Outside()
	return os.ReadFile(name)
}
