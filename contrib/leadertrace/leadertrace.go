// Package leadertrace makes spans of OpenTelemetry for the terms of a candidate, and of the shards of a member.
//
// A term may last for weeks, and a span is exported at its end. So the span "leader.elected" is the beginning of a term
// alone, and the span "leader.deposed" its end. Each item of work is a trace of its own, with a link to the first:
//
//	for lead, term := range leadertrace.Terms(candidate, tracer) {
//		for lead.Err() == nil {
//			ctx, span := tracer.Start(lead, "item", leadertrace.Link(lead))
//			item(ctx, term.Token())
//			span.End()
//		}
//	}
//
// Both spans have the attributes leader.candidate and leader.token, that of a candidate leader.election and leader.seat,
// that of a shard leader.group and leader.shard. The token is text, because attributes have no unsigned integers.
// The span "leader.deposed" has leader.cause, a link to "leader.elected", and the status Error if the term was lost.
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
	"github.com/natsleader/natsleader/shard"
)

// Terms is the loop over [leader.Candidate.Terms] with spans for each term. The context is that of the term, without the
// span of the context given to Campaign. Its Err asks the clock, as that of the term does.
//
// The span "leader.elected" begins and ends before the body of the loop. The span "leader.deposed" is made when the
// context of the term ends, or the body if that ends first, and has ended when the loop does. Shut down the provider of
// the tracer after that.
func Terms(c *leader.Candidate, tracer trace.Tracer) iter.Seq2[context.Context, *leader.Term] {
	return func(yield func(context.Context, *leader.Term) bool) {
		for term := range c.Terms() {
			more := false
			traced(term.Context(), tracer, func(lead context.Context) { more = yield(lead, term) },
				attribute.String("leader.election", c.Election()), attribute.String("leader.candidate", c.ID()),
				token(term.Token()), attribute.Int("leader.seat", term.Seat()))
			if !more {
				return
			}
		}
	}
}

// Serve is [shard.Member.Serve] with spans for each shard, as [Terms] has them for each term.
func Serve(m *shard.Member, tracer trace.Tracer, work func(lead context.Context, s *shard.Shard)) error {
	return m.Serve(func(lead context.Context, s *shard.Shard) {
		traced(lead, tracer, func(lead context.Context) { work(lead, s) },
			attribute.String("leader.group", m.Group()), attribute.String("leader.candidate", m.ID()),
			token(s.Token()), attribute.Int("leader.shard", s.Number()))
	})
}

// linkKey is the key of the link to the span of the election.
type linkKey struct{}

// Link returns the option for the span of an item: a link to the span "leader.elected". lead is the context of [Terms] or
// [Serve], or one derived from it. For another one the option does nothing.
func Link(lead context.Context) trace.SpanStartOption {
	if link, ok := lead.Value(linkKey{}).(trace.Link); ok {
		return trace.WithLinks(link)
	}
	return trace.WithLinks()
}

// traced calls work between the spans of a term.
func traced(lead context.Context, tracer trace.Tracer, work func(lead context.Context), of ...attribute.KeyValue) {
	span := func(name string, options ...trace.SpanStartOption) trace.Span {
		_, s := tracer.Start(lead, name, append(options, trace.WithNewRoot(), trace.WithAttributes(of...))...)
		return s
	}
	elected := span("leader.elected")
	elected.End()
	link := trace.Link{SpanContext: elected.SpanContext()}
	end := func(cause error) {
		s := span("leader.deposed", trace.WithLinks(link), trace.WithAttributes(attribute.String("leader.cause", cause.Error())))
		if !isOrderly(cause) {
			s.SetStatus(codes.Error, cause.Error())
		}
		s.End()
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(lead, func() {
		defer close(ended)
		end(leader.Err(lead))
	})
	defer func() { // also if the work panics
		if !stop() {
			<-ended // it is made in its own goroutine
			return
		}
		cause := leader.Err(lead)
		if cause == nil {
			cause = leader.ErrResigned // the end of the work hands over
		}
		end(cause)
	}()
	none := trace.ContextWithSpanContext(lead, trace.SpanContext{}) // or an item would be a child of whatever called Campaign
	work(context.WithValue(none, linkKey{}, link))
}

func token(t uint64) attribute.KeyValue {
	return attribute.String("leader.token", strconv.FormatUint(t, 10))
}

// isOrderly reports whether a term was handed over, and not lost.
func isOrderly(cause error) bool {
	return errors.Is(cause, leader.ErrResigned) || errors.Is(cause, leader.ErrStopped) || errors.Is(cause, shard.ErrMoved)
}
