package leadertrace_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/contrib/leadertrace"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// attributes returns the attributes of a span and of its last event.
func attributes(span sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, a := range span.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	events := span.Events()
	for _, a := range events[len(events)-1].Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// The span lasts as long as the term, and its attributes name the term and the cause of its end.
func TestTerms_SpanForEachTerm(t *testing.T) {
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
				recorder := tracetest.NewSpanRecorder()
				provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				link := leadertest.NewStore(nil).Link("a")
				c, err := leader.Campaign(ctx, link, "billing", leader.Config{ID: "a"})
				if err != nil {
					t.Fatal(err)
				}
				token := uint64(0)
				var began, over time.Time
				for lead, term := range leadertrace.Terms(c, provider.Tracer("test")) {
					token = term.Token()
					if of, ok := leader.FromContext(lead); !ok || of != term {
						t.Error("the context is not that of the term")
					}
					if !trace.SpanFromContext(lead).IsRecording() {
						t.Error("the context carries no span")
					}
					began = time.Now()
					time.Sleep(time.Minute)
					test.end(c, link)
					over = time.Now()
					if lead.Err() != nil {
						time.Sleep(time.Second) // work that is drained is not in the span
					}
					break
				}
				ended := recorder.Ended()
				if len(ended) != 1 {
					t.Fatalf("%d spans have ended", len(ended))
				}
				span := ended[0]
				if !span.StartTime().Equal(began) || !span.EndTime().Equal(over) {
					t.Errorf("the span is from %v to %v, the term from %v to %v", span.StartTime(), span.EndTime(), began, over)
				}
				got := attributes(span)
				for key, want := range map[string]string{
					"leader.election": "billing", "leader.candidate": "a", "leader.token": strconv.FormatUint(token, 10),
					"leader.cause": test.cause.Error(),
				} {
					if got[key] != want {
						t.Errorf("%s is %q, want %q", key, got[key], want)
					}
				}
				if span.Status().Code != test.status {
					t.Errorf("status %v", span.Status())
				}
				cancel()
				<-c.Done()
			})
		})
	}
}

func ExampleTerms() {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	c, err := leader.Campaign(context.Background(), leadertest.NewStore(nil), "billing", leader.Config{ID: "a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for lead := range leadertrace.Terms(c, provider.Tracer("billing")) {
		_, item := provider.Tracer("billing").Start(lead, "item") // a child of the term's span
		item.End()
		break
	}
	_ = c.Stop()
	for _, span := range recorder.Ended() {
		fmt.Println(span.Name(), span.Parent().IsValid())
	}
	// Output:
	// item true
	// leader.term false
}
