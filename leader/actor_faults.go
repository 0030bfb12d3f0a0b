package leader

import (
	"errors"
	"slices"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
)

// faultFilter remembers which faults were reported, so that each is reported once, and not
// with every try.
type faultFilter struct {
	reported map[string]machine.InputKind // the faults reported, and the kind of reply that reported each
	outage   bool                         // reported, and nothing has succeeded since
	kinds    uint8                        // of errors of the connection that were reported in the outage
	told     bool                         // reported, and no sign of a majority has come since
	differs  string                       // the last difference of the bucket from the settings of EnsureBucket that was reported
	misfit   string                       // the last fault reported of settings that were received; empty: none since they last fitted
}

// isNews reports whether a fault has not been reported since the same kind of
// request last succeeded. An outage is one fault, not one for every try, nor one
// for every kind of request that fails; and one more for each kind of error of the connection.
func (f *faultFilter) isNews(in *machine.Input, err error) bool {
	text := err.Error()
	if in.Err == nil {
		if in.Kind != machine.InSettings || !isMisfit(err) {
			return true
		}
		known := f.misfit == text
		f.misfit = text
		return !known
	}
	_, known := f.reported[text]
	if !known {
		if f.reported == nil || len(f.reported) >= 16 {
			f.reported = make(map[string]machine.InputKind)
		}
		f.reported[text] = in.Kind
	}
	unreachable := errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrNoFeed)
	var why backend.ConnError
	found := unreachable && errors.As(err, &why) && f.kinds&why.Bit() == 0
	if known || unreachable && f.outage && !found {
		return false
	}
	if found {
		f.kinds |= why.Bit()
	}
	f.outage = f.outage || unreachable
	return true
}

// succeeded records that a request of that kind has succeeded.
func (f *faultFilter) succeeded(kind machine.InputKind) {
	f.outage, f.kinds = false, 0
	for text, k := range f.reported {
		if k == kind || k == machine.InFeedLost && kind == machine.InFeed {
			delete(f.reported, text)
		}
	}
}

// isDifferent reports whether a difference of the bucket from the settings of EnsureBucket is
// to be reported. nil stands for none.
func (f *faultFilter) isDifferent(err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	news := text != "" && text != f.differs
	f.differs = text
	return news
}

// received records that the settings of the bucket were received, with what the machine noted, and reports whether they
// fit. A leader goes on with settings that do not fit, so they are known all the same.
func (f *faultFilter) received(notes []machine.Note) (fit bool) {
	if slices.ContainsFunc(notes, func(n machine.Note) bool { return n.Event == machine.NoteFaulted && isMisfit(n.Err) }) {
		return false
	}
	f.misfit = ""
	return true
}

// isMisfit reports whether a fault that settings have caused means that they do not fit.
func isMisfit(err error) bool {
	return !errors.Is(err, ErrRegressed) && !errors.Is(err, ErrCongested) && !errors.Is(err, ErrClock)
}
