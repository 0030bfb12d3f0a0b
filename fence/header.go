package fence

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// The names of the headers that a guarded write depends on: those of its condition and
// its batch, and the one that has it stored once. Servers before 2.11.11, and 2.12.0 and
// 2.12.1, look for a header's name, up to the colon, anywhere among the headers. If they
// find it within another name or within a value first, they see no such header
// (nats-server, client.go, sliceHeader). The order of headers is that of a Go map. So
// these names may occur nowhere else.
var dependedOn = []string{jetstream.ExpectedLastSubjSeqHeader, jetstream.MsgIDHeader, "Nats-Batch-"}

// hides returns the name that a guarded write depends on and that the text contains, or
// an empty string.
func hides(text string) string {
	for _, name := range dependedOn {
		if strings.Contains(text, name) {
			return name
		}
	}
	return ""
}

// checkHeader rejects headers of the caller that contradict the guard, or could hide the
// headers that the writer adds.
func checkHeader(h nats.Header) error {
	for name, values := range h {
		switch name {
		case jetstream.ExpectedLastSeqHeader, jetstream.ExpectedLastMsgIDHeader, batchIDHeader, batchSequenceHeader, batchCommitHeader:
			return fmt.Errorf("%w: the header %s does not go with a guard", leader.ErrInvalidConfig, name)
		case jetstream.ExpectedLastSubjSeqHeader, jetstream.ExpectedLastSubjSeqSubjHeader, jetstream.MsgIDHeader, jetstream.MsgRollup:
			if len(values) != 1 {
				return fmt.Errorf("%w: the header %s has %d values", leader.ErrInvalidConfig, name, len(values))
			}
		default:
			if hidden := hides(name); hidden != "" {
				return fmt.Errorf("%w: the header %s: nats-server may take its name for %s", leader.ErrInvalidConfig, name, hidden)
			}
		}
		if strings.HasPrefix(name, "Nats-Schedule") {
			return fmt.Errorf("%w: the header %s: what is stored later carries no guard", leader.ErrInvalidConfig, name)
		}
		for _, value := range values {
			if hidden := hides(value); hidden != "" {
				return fmt.Errorf("%w: the header %s: nats-server may take its value %q for %s", leader.ErrInvalidConfig, name, value, hidden)
			}
		}
	}
	// Servers read the value in upper or lower case, without the space around it.
	if roll := strings.TrimSpace(h.Get(jetstream.MsgRollup)); roll != "" && !strings.EqualFold(roll, jetstream.MsgRollupSubject) {
		return fmt.Errorf("%w: the header %s: %s would remove the guard", leader.ErrInvalidConfig, jetstream.MsgRollup, roll)
	}
	if h.Get(jetstream.ExpectedLastSubjSeqHeader) == "" && h.Get(jetstream.ExpectedLastSubjSeqSubjHeader) != "" {
		return fmt.Errorf("%w: the header %s goes with %s", leader.ErrInvalidConfig, jetstream.ExpectedLastSubjSeqSubjHeader, jetstream.ExpectedLastSubjSeqHeader)
	}
	return nil
}
