package webpage

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// Four pages read the past at once. Another waits for 20 s at most, as a read may take, and does not when one has ended.
// What an answer has is held until it was read.
func TestPast_FourReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := 21 * time.Second
		read := Past{Kept: true, Spans: strings.Repeat("x", 1<<20), Notes: []string{}}
		s := serve(t, NewState(), Options{Past: func(ctx context.Context, asked Asked) (Past, error) {
			limit, _ := ctx.Deadline()
			check.That(t, asked == Asked{"e", 168 * time.Hour, time.UnixMilli(7)} && time.Until(limit) > 0 && time.Until(limit) <= mostRead, "%v, %v", asked, time.Until(limit))
			time.Sleep(takes)
			return read, nil
		}})
		begun := time.Now()
		answers := make(chan string)
		all := func(n int) {
			for range n {
				conn := s.open("/api/past?election=e&hours=168&since=7")
				go func() {
					response := check.Got(http.ReadResponse(bufio.NewReader(conn), nil))(t)
					held := s.held() > 1<<20
					text := string(check.Got(io.ReadAll(response.Body))(t))
					answers <- fmt.Sprint(response.Status, " ", response.Header.Get("Content-Type"), " ", text[:min(len(text), 27)], " ", held, time.Since(begun))
				}()
			}
		}
		all(5)
		check.Equal(t, <-answers, "503 Service Unavailable text/plain; charset=utf-8 other pages are reading it\n false 20s", "the fifth gets %q")
		for range 4 {
			check.Equal(t, <-answers, "200 OK application/json {\"kept\":true,\"spans\":\"xxxxx true 21s", "a page gets %q")
		}
		takes = 19 * time.Second
		all(4)
		time.Sleep(18 * time.Second)
		all(1)
		for range 5 {
			check.That(t, strings.HasPrefix(<-answers, "200 OK"), "a page gets nothing")
		}
		synctest.Wait()
		check.Equal(t, s.held(), 0, "%d bytes are held")
	})
}
