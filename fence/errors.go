package fence

import "errors"

// ErrUnknownOutcome is returned for a guarded write that was sent and not answered. It may
// have been written, or may yet be written as long as the guard of its term stands, but not
// after a later write of the same term has been acknowledged.
var ErrUnknownOutcome = errors.New("fence: the outcome of the write is not known")
