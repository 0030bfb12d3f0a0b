package webpage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// All pages that show an election share one observer of its roster, which ends with the last of them.
func TestRoster_Shared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := make(chan []roster.Entry)
		observers, ended := 0, 0
		s := serve(t, NewState(), Options{Roster: func(ctx context.Context, election string) (<-chan []roster.Entry, error) {
			check.Equal(t, election, "billing", "%v")
			observers++
			context.AfterFunc(ctx, func() { ended++ })
			return lists, nil
		}})
		const path = "/api/roster?election=billing"
		first, second := s.open(path), s.open(path)
		a, b := bufio.NewReader(first), bufio.NewReader(second)
		stands := func(id string) {
			lists <- []roster.Entry{{ID: id, Priority: 2, Preempt: true, Since: time.UnixMilli(3), Value: []byte{0xff}}, {ID: " ", Denied: true}}
		}
		long := strings.Repeat("v", mostValue)
		lists <- []roster.Entry{{ID: long, Value: []byte(long + "v")}}
		want := `{"kept":true,"candidates":[{"id":"` + long[:mostID] + `…","priority":0,"preempt":false,"since":0,"value":"` + long + `…"}]}` + "\n"
		x, y := s.next(a), s.next(b)
		check.That(t, x == want && y == want, "%s and %s, want %s", x, y, want)
		stands("x")
		want = `{"kept":true,"candidates":[{"id":"x","priority":2,"preempt":true,"since":3,"value":"/w=="},` +
			`{"id":"\" \"","priority":0,"preempt":false,"denied":true,"since":0}]}` + "\n"
		x, y = s.next(a), s.next(b)
		check.That(t, x == want && y == want, "%s and %s, want %s", x, y, want)
		stands("y")
		_ = first.Close()
		got := s.next(b)
		check.That(t, strings.Contains(got, `"id":"y"`), "%v", got)
		third := s.open(path)
		c := bufio.NewReader(third)
		if got := s.next(c); !strings.Contains(got, `"id":"y"`) || observers != 1 || ended != 0 {
			t.Errorf("%s; %d observers, %d ended", got, observers, ended)
		}
		synctest.Wait() // a page that sent y twice would do so now
		stands("z")
		if got := s.next(c); !strings.Contains(got, `"id":"z"`) {
			t.Errorf("the third page gets %s after y", got)
		}
		_, _ = second.Close(), third.Close()
		synctest.Wait()
		check.That(t, ended == 1, "the observer goes on without a page")
		last := s.open(path)
		check.Equal(t, observers, 2, "%d observers")
		close(lists)
		_ = last.SetReadDeadline(time.Now().Add(mostWrite))
		if answer, err := io.ReadAll(last); !strings.Contains(string(answer), "Content-Length: 0\r\n") { // there was no message
			t.Errorf("the end of the roster does not end the page: %v\n%s", err, answer)
		}
	})
}

// A page hears why there is no roster: the stream ends if it is worth asking again.
func TestRoster_Errors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		s := serve(t, NewState(), Options{Roster: func(_ context.Context, election string) (<-chan []roster.Entry, error) {
			if election == "kept" {
				asked++
				return nil, errors.New("away")
			}
			return nil, leader.ErrNoRoster
		}})
		for i := range 2 {
			conn := s.open("/api/roster?election=kept")
			_ = conn.SetReadDeadline(time.Now().Add(mostWrite))
			r := bufio.NewReader(conn)
			check.Equal(t, s.next(r), `{"kept":true,"error":"away","candidates":[]}`+"\n", "%v")
			for line := ""; line != "0\r\n"; { // the end of the answer
				var err error
				line, err = r.ReadString('\n')
				check.Must(t, err == nil, "%v", err)
			}
			check.Equal(t, asked, i+1, "it has asked %d times")
		}
		for i := range mostRosters {
			r := bufio.NewReader(s.open(fmt.Sprint("/api/roster?election=", i)))
			got := s.next(r)
			check.That(t, strings.HasPrefix(got, `{"kept":false,`), "%v", got)
		}
		got := s.get("/api/roster?election=one-more")
		check.That(t, got.StatusCode == http.StatusServiceUnavailable, "%v", got.Status)
		s.next(bufio.NewReader(s.open("/api/roster?election=1"))) // which is observed already
	})
}

// A roster that has ended is observed anew by the next page, and a page of the old one that leaves late
// ends nothing of the new one.
func TestRoster_LatePageOfEndedRoster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observers, ended := 0, 0
		s := serve(t, NewState(), Options{Roster: func(ctx context.Context, _ string) (<-chan []roster.Entry, error) {
			observers++
			if observers == 1 {
				return nil, errors.New("away")
			}
			lists := make(chan []roster.Entry)
			context.AfterFunc(ctx, func() {
				ended++
				close(lists)
			})
			return lists, nil
		}})
		const path = "/api/roster?election=e"
		late := s.open(path) // it does not read, so its handler goes on
		s.open(path)
		_ = late.Close()
		synctest.Wait()
		s.open(path)
		check.That(t, observers == 2 && ended == 0, "%d observers, %d ended", observers, ended)
	})
}
