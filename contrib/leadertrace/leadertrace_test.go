package leadertrace_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/contrib/leadertrace"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recording returns a tracer and what it records.
func recording() (trace.Tracer, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test"), recorder
}

// expect fails the test unless the span is a root of that name and time with these attributes, and a link to each of the spans.
func expect(t *testing.T, span sdktrace.ReadOnlySpan, name string, at time.Time, attributes map[string]string, links ...sdktrace.ReadOnlySpan) {
	t.Helper()
	if span.Name() != name || span.Parent().IsValid() || !span.StartTime().Equal(at) || !span.EndTime().Equal(at) {
		t.Errorf("the span %s of %v is from %v to %v, want %s at %v", span.Name(), span.Parent(), span.StartTime(), span.EndTime(), name, at)
	}
	got := attribute.NewSet(span.Attributes()...)
	for key, want := range attributes {
		if v, _ := got.Value(attribute.Key(key)); v.String() != want {
			t.Errorf("%s: %s is %q, want %q", name, key, v.String(), want)
		}
	}
	if len(span.Links()) != len(links) {
		t.Fatalf("%s has %d links", name, len(span.Links()))
	}
	for i, to := range links {
		if !span.Links()[i].SpanContext.Equal(to.SpanContext()) {
			t.Errorf("%s has a link to %v, want %s", name, span.Links()[i].SpanContext, to.Name())
		}
	}
}

// The beginning of a term and its end are spans, and each item is a trace of its own, although a span was open when the
// candidate began.
func TestTerms_SpansForEachTerm(t *testing.T) {
	for name, test := range map[string]struct {
		end    func(*leader.Candidate, *leadertest.Link) // ends the term
		cause  error
		status codes.Code
	}{
		"body ends": {func(*leader.Candidate, *leadertest.Link) {}, leader.ErrResigned, codes.Unset},
		"stop": {func(c *leader.Candidate, _ *leadertest.Link) {
			go func() { _ = c.Stop() }()
			synctest.Wait()
		}, leader.ErrStopped, codes.Unset},
		"cut off": {func(c *leader.Candidate, link *leadertest.Link) {
			link.Cut()
			term, _ := c.Term()
			<-term.Context().Done()
		}, leader.ErrLeaseExpired, codes.Error},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tracer, recorder := recording()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ctx, program := tracer.Start(ctx, "program")
				link := leadertest.NewStore(nil).Link("a")
				c, err := leader.Campaign(ctx, link, "billing", leader.Config{ID: "a"})
				if err != nil {
					t.Fatal(err)
				}
				of := map[string]string{"leader.election": "billing", "leader.candidate": "a", "leader.seat": "1"}
				var began, item, over time.Time
				for lead, term := range leadertrace.Terms(c, tracer) {
					of["leader.token"] = strconv.FormatUint(term.Token(), 10)
					if of, ok := leader.FromContext(lead); !ok || of != term {
						t.Error("the context is not that of the term")
					}
					began = time.Now()
					if n := len(recorder.Ended()); n != 1 {
						t.Errorf("%d spans have ended when the term begins", n)
					}
					time.Sleep(time.Minute)
					item = time.Now()
					_, span := tracer.Start(lead, "item", leadertrace.Link(lead))
					span.End()
					test.end(c, link)
					over = time.Now()
					if lead.Err() != nil {
						time.Sleep(time.Second) // work that is drained comes after the span
					}
					break
				}
				ended := recorder.Ended()
				if len(ended) != 3 {
					t.Fatalf("%d spans have ended", len(ended))
				}
				expect(t, ended[0], "leader.elected", began, of)
				expect(t, ended[1], "item", item, nil, ended[0])
				of["leader.cause"] = test.cause.Error()
				expect(t, ended[2], "leader.deposed", over, of, ended[0])
				if ended[2].Status().Code != test.status {
					t.Errorf("status %v", ended[2].Status())
				}
				cancel()
				<-c.Done()
				program.End()
			})
		})
	}
}

// A shard that moves to a member has spans in both.
func TestServe_SpansForEachShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer, recorder := recording()
		store := leadertest.NewStore(nil)
		served := make(chan error)
		join := func(id string) (leave func()) {
			ctx, cancel := context.WithCancel(context.Background())
			m, err := shard.Join(ctx, store.Link(id), "orders", shard.Config{Shards: 1, ID: id})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				served <- leadertrace.Serve(m, tracer, func(lead context.Context, _ *shard.Shard) {
					_, span := tracer.Start(lead, "item", leadertrace.Link(lead))
					span.End()
					<-lead.Done()
				})
			}()
			time.Sleep(time.Minute)
			return func() {
				cancel()
				if err := <-served; err != nil {
					t.Error(err)
				}
			}
		}
		leaveA := join("a")
		leaveB := join("b")
		if err := shard.Move(t.Context(), store, "orders", 0, "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		leaveA() // first, so that it does not take the shard that b releases
		leaveB()
		ended := recorder.Ended()
		if len(ended) != 6 {
			t.Fatalf("%d spans have ended", len(ended))
		}
		for i, want := range []struct {
			id    string
			cause error
		}{{"a", shard.ErrMoved}, {"b", leader.ErrStopped}} {
			spans := ended[3*i:]
			of := map[string]string{"leader.group": "orders", "leader.candidate": want.id, "leader.shard": "0"}
			expect(t, spans[0], "leader.elected", spans[0].StartTime(), of)
			expect(t, spans[1], "item", spans[1].StartTime(), nil, spans[0])
			of["leader.cause"] = want.cause.Error()
			expect(t, spans[2], "leader.deposed", spans[2].StartTime(), of, spans[0])
			if s := spans[2].Status(); s.Code != codes.Unset {
				t.Errorf("status %v", s)
			}
		}
	})
}

// The context of no term has no link.
func TestLink_NoTerm(t *testing.T) {
	tracer, recorder := recording()
	_, span := tracer.Start(t.Context(), "item", leadertrace.Link(t.Context()))
	span.End()
	if n := len(recorder.Ended()[0].Links()); n != 0 {
		t.Errorf("%d links", n)
	}
}

func ExampleTerms() {
	recorder := tracetest.NewSpanRecorder() // in production an exporter
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("billing")
	c, err := leader.Campaign(context.Background(), leadertest.NewStore(nil), "billing", leader.Config{ID: "a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for lead := range leadertrace.Terms(c, tracer) {
		_, item := tracer.Start(lead, "item", leadertrace.Link(lead)) // a trace of its own
		item.End()
		break
	}
	_ = c.Stop()
	for _, span := range recorder.Ended() {
		fmt.Println(span.Name(), len(span.Links()))
	}
	// Output:
	// leader.elected 0
	// item 1
	// leader.deposed 1
}
