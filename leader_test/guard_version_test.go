package leader_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// Guards on servers that are too old for them. The tests of oldserver_prove_field_test.go
// show the same with real servers.

// findsNamesAnywhere is a rule for a link that hides from the server the headers that
// nats-server 2.11.0 to 2.11.6 do not find. These servers look only at the first place
// at which a name occurs. Without the sequence they do not look for the subject.
func findsNamesAnywhere(f frame) treatment {
	if f.dir != up || f.head == 0 {
		return pass
	}
	hidden := func(name string) bool {
		i := bytes.Index(f.raw, []byte(name))
		return i > 0 && (f.raw[i-1] != '\n' || f.raw[i+len(name)] != ':')
	}
	sequence, subject := hidden(jetstream.ExpectedLastSubjSeqHeader), hidden(jetstream.ExpectedLastSubjSeqSubjHeader)
	if sequence {
		renames(jetstream.ExpectedLastSubjSeqHeader)(f)
	}
	if sequence || subject {
		renames(jetstream.ExpectedLastSubjSeqSubjHeader)(f)
	}
	return pass
}

// The probe finds a server that looks for the names of headers anywhere in a message. The
// header that hides the other comes first by chance. Every check must detect that.
func TestGuardVersion_Probe(t *testing.T) {
	inSealed(t, func(w *world) {
		w.stream(jetstream.StreamConfig{Subjects: []string{"orders.>"}})
		cl := w.dial("a")
		w.ok(checked(w.Context(), cl.openStream(t)))
		cl.filter(findsNamesAnywhere)
		for i := range 100 {
			err := checked(w.Context(), cl.openStream(t))
			if !errors.Is(err, leader.ErrIncompatibleBucket) || !strings.Contains(err.Error(), "does not heed a condition on another subject") {
				t.Fatalf("check %d: %v", i, err)
			}
		}
		a := w.guarding(cl, cl.openStream(t))
		w.at(time.Minute)
		a.saw(t, "0s faulted unfit")
	})
}
