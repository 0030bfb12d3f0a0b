package webpage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

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
		stands := func(id string) { lists <- []leader.RosterEntry{{ID: id, Value: []byte{0xff}}} }
		stands("x")
		want := `{"kept":true,"candidates":[{"id":"x","priority":0,"preempt":false,"since":0,"value":"/w=="}]}` + "\n"
		if x, y := s.next(a), s.next(b); x != want || y != want {
			t.Errorf("%s and %s, want %s", x, y, want)
		}
		stands("y")
		_ = first.Close()
		if got := s.next(b); !strings.Contains(got, `"id":"y"`) {
			t.Error(got)
		}
		third := s.open(path)
		if got := s.next(bufio.NewReader(third)); !strings.Contains(got, `"id":"y"`) || observers != 1 || ended != 0 {
			t.Errorf("%s; %d observers, %d ended", got, observers, ended)
		}
		_, _ = second.Close(), third.Close()
		synctest.Wait()
		if ended != 1 {
			t.Error("the observer goes on without a page")
		}
		s.open(path)
		if observers != 2 {
			t.Errorf("%d observers", observers)
		}
		close(lists)
	})
}

// A page hears why there is no roster: the stream ends if it is worth asking again.
func TestRoster_Errors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, NewState(), Options{Roster: func(_ context.Context, election string) (<-chan []leader.RosterEntry, error) {
			if election == "kept" {
				return nil, errors.New("away")
			}
			return nil, leader.ErrNoRoster
		}})
		r := bufio.NewReader(s.open("/api/roster?election=kept"))
		if got := s.next(r); got != `{"kept":true,"error":"away","candidates":[]}`+"\n" {
			t.Error(got)
		}
		for line := ""; line != "0\r\n"; { // the end of the answer
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		for i := range mostRosters {
			r = bufio.NewReader(s.open(fmt.Sprint("/api/roster?election=", i)))
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
