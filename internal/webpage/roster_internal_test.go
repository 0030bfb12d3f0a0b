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

	"github.com/natsleader/natsleader/leader"
)

// All pages that show an election share one observer of its roster, which ends with the last of them.
func TestRoster_Shared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := make(chan []leader.RosterEntry)
		observers, ended := 0, 0
		s := serve(t, NewState(), Options{Roster: func(ctx context.Context, election string) (<-chan []leader.RosterEntry, error) {
			if election != "billing" {
				t.Error(election)
			}
			observers++
			context.AfterFunc(ctx, func() { ended++ })
			return lists, nil
		}})
		const path = "/api/roster?election=billing"
		first, second := s.open(path), s.open(path)
		a, b := bufio.NewReader(first), bufio.NewReader(second)
		stands := func(id string) {
			lists <- []leader.RosterEntry{{ID: id, Priority: 2, Preempt: true, Since: time.UnixMilli(3), Value: []byte{0xff}}, {ID: "denied", Denied: true}}
		}
		stands("x")
		want := `{"kept":true,"candidates":[{"id":"x","priority":2,"preempt":true,"since":3,"value":"/w=="},` +
			`{"id":"denied","priority":0,"preempt":false,"denied":true,"since":0}]}` + "\n"
		if x, y := s.next(a), s.next(b); x != want || y != want {
			t.Errorf("%s and %s, want %s", x, y, want)
		}
		stands("y")
		_ = first.Close()
		if got := s.next(b); !strings.Contains(got, `"id":"y"`) {
			t.Error(got)
		}
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
		if ended != 1 {
			t.Error("the observer goes on without a page")
		}
		last := s.open(path)
		if observers != 2 {
			t.Errorf("%d observers", observers)
		}
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
		s := serve(t, NewState(), Options{Roster: func(_ context.Context, election string) (<-chan []leader.RosterEntry, error) {
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
			if got := s.next(r); got != `{"kept":true,"error":"away","candidates":[]}`+"\n" {
				t.Error(got)
			}
			for line := ""; line != "0\r\n"; { // the end of the answer
				var err error
				if line, err = r.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			if asked != i+1 {
				t.Errorf("it has asked %d times", asked)
			}
		}
		for i := range mostRosters {
			r := bufio.NewReader(s.open(fmt.Sprint("/api/roster?election=", i)))
			if got := s.next(r); !strings.HasPrefix(got, `{"kept":false,`) {
				t.Error(got)
			}
		}
		if got := s.get("/api/roster?election=one-more"); got.StatusCode != http.StatusServiceUnavailable {
			t.Error(got.Status)
		}
		s.next(bufio.NewReader(s.open("/api/roster?election=1"))) // which is observed already
	})
}

// A roster that has ended is observed anew by the next page, and a page of the old one that leaves late
// ends nothing of the new one.
func TestRoster_LatePageOfEndedRoster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observers, ended := 0, 0
		s := serve(t, NewState(), Options{Roster: func(ctx context.Context, _ string) (<-chan []leader.RosterEntry, error) {
			observers++
			if observers == 1 {
				return nil, errors.New("away")
			}
			lists := make(chan []leader.RosterEntry)
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
		if observers != 2 || ended != 0 {
			t.Errorf("%d observers, %d ended", observers, ended)
		}
	})
}
