package hazards

import (
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// diverts reports whether a transform may store a message of kept elsewhere, or another message there.
func diverts(t jetstream.SubjectTransformConfig, kept string) bool {
	return t.Source == "" || meet(t.Source, kept) || meet(yields(t.Destination), kept)
}

// reaches reports whether a message of that source may be stored at a subject of kept.
func reaches(src *jetstream.StreamSource, kept string) bool {
	if len(src.SubjectTransforms) == 0 {
		return src.FilterSubject == "" || meet(src.FilterSubject, kept)
	}
	return slices.ContainsFunc(src.SubjectTransforms, func(t jetstream.SubjectTransformConfig) bool {
		if t.Destination == "" { // it only filters
			return t.Source == "" || meet(t.Source, kept)
		}
		return meet(yields(t.Destination), kept)
	})
}

// yields returns a pattern of all subjects in which the destination of a transform can result.
func yields(destination string) string {
	tokens := strings.Split(destination, ".")
	for i, tok := range tokens {
		numbered := len(tok) > 1 && tok[0] == '$' && '0' <= tok[1] && tok[1] <= '9'
		if numbered || strings.ContainsAny(tok, "*>{") { // the rest depends on the transformed subject
			return strings.Join(append(tokens[:i:i], ">"), ".")
		}
	}
	return destination
}

// meet reports whether a subject matches both patterns.
func meet(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		switch {
		case x[i] == ">" || y[i] == ">":
			return true
		case x[i] != y[i] && x[i] != "*" && y[i] != "*":
			return false
		}
	}
	return len(x) == len(y)
}
