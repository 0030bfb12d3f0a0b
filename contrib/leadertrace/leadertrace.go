// Package leadertrace makes a span of OpenTelemetry for each term of a candidate.
package leadertrace

import (
	"context"
	"errors"
	"iter"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/natsleader/natsleader/leader"
)

// Terms is the loop over [leader.Candidate.Terms] with a span for each term:
//
//	for lead, term := range leadertrace.Terms(candidate, tracer) {
//		work(lead, term.Token())
//	}
//
// The context is that of the term with the span in it, so spans of the work are its children. Its
// Err asks the clock, as that of the term does. The span begins with the body of the loop. It ends
// with the context of the term, or with the body if that ends first. While work is drained, the
// span is over.
//
// The attributes of the span are leader.election, leader.candidate, leader.token and leader.seat.
// The token is text, because attributes have no unsigned integers.
// The event "elected" begins it. The event "deposed" ends it and has the attribute leader.cause.
// A term that was not handed over, because it was lost, has the status Error.
//
// The span has ended when the loop ends. Shut down the provider of the tracer after that.
func Terms(c *leader.Candidate, tracer trace.Tracer) iter.Seq2[context.Context, *leader.Term] {
	return func(yield func(context.Context, *leader.Term) bool) {
		for term := range c.Terms() {
			if !traced(c, tracer, term, yield) {
				return
			}
		}
	}
}

// traced calls the body of the loop for one term.
func traced(c *leader.Candidate, tracer trace.Tracer, term *leader.Term, yield func(context.Context, *leader.Term) bool) bool {
	lead, span := tracer.Start(term.Context(), "leader.term", trace.WithAttributes(
		attribute.String("leader.election", c.Election()),
		attribute.String("leader.candidate", c.ID()),
		attribute.String("leader.token", strconv.FormatUint(term.Token(), 10)),
		attribute.Int("leader.seat", term.Seat()),
	))
	span.AddEvent("elected")
	ended := make(chan struct{})
	stop := context.AfterFunc(term.Context(), func() {
		defer close(ended)
		end(span, leader.Err(term.Context()))
	})
	defer func() { // also if the body panics
		if !stop() {
			<-ended // the span ends in its own goroutine
			return
		}
		cause := leader.Err(term.Context())
		if cause == nil {
			cause = leader.ErrResigned // the end of the body hands over
		}
		end(span, cause)
	}()
	return yield(lead, term)
}

// end ends the span of a term.
func end(span trace.Span, cause error) {
	span.AddEvent("deposed", trace.WithAttributes(attribute.String("leader.cause", cause.Error())))
	if !errors.Is(cause, leader.ErrResigned) && !errors.Is(cause, leader.ErrStopped) {
		span.SetStatus(codes.Error, cause.Error())
	}
	span.End()
}
