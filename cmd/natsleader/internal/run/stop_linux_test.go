package run

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
)

// withPipe gives a supervisor without a process the pipe of its reports.
func withPipe(t *testing.T, r *reports) (out, in *os.File) {
	t.Helper()
	out, in, err := os.Pipe()
	expect.OK(t, err)
	t.Cleanup(func() { _, _ = out.Close(), in.Close() })
	r.pipe = expect.Got(out.SyscallConn())(t)
	return out, in
}

// Orders that a supervisor has not read wait for it: the last one of each kind.
func TestSend_KeepsLastOfEachKind(t *testing.T) {
	o := &supervisorProcess{orders: make(chan []order, 1)}
	const many = 1000
	for token := range uint64(many) {
		o.send(order{Do: orderLost})
		o.send(order{Do: orderLease, Token: token + 1})
		o.send(order{Do: orderSignal, Signal: 2})
		o.send(order{Do: orderSignal, Signal: 1})
	}
	o.send(order{Do: orderStop})
	close(o.orders)
	out, in, err := os.Pipe()
	expect.OK(t, err)
	o.writeOrders(in)
	text, err := io.ReadAll(out)
	_ = out.Close()
	const want = `{"Do":"lost"}
{"Do":"lease","Token":1000}
{"Do":"signal","Signal":2}
{"Do":"signal","Signal":1}
{"Do":"stop"}
`
	expect.That(t, err == nil && string(text) == want, "%s, %v", text, err)
}

// Lines may arrive in pieces, or several at once.
func TestReports_AreLines(t *testing.T) {
	var r reports
	out, in := withPipe(t, &r)
	long := strings.Repeat("x", 10_000)
	go func() {
		for _, piece := range []string{`{"What":`, `"started"}` + "\n" + `{"What":"stuck","Error":"` + long, `"}` + "\nnoise\n{}\n"} {
			_, _ = in.WriteString(piece)
		}
		_ = in.Close()
	}()
	var all []supervisorReport
	r.each(out, func(b supervisorReport) { all = append(all, b) })
	expect.That(t, len(all) == 3 && all[0].What == reportStarted && all[1].Error == long && all[2].What == "",
		"%d reports", len(all))
}

// If a command is late, the run loop first reads a report that is unread.
func TestRunLoop_ReadsReportsFirst(t *testing.T) {
	o := &supervisorProcess{process: &os.Process{}, inbox: make(chan supervisorReport, 1)}
	out, in := withPipe(t, &o.reports)
	c := &runLoop{run: &run{}, supervisor: o, current: &commandRun{leaseBy: 1}}
	late := func(where string, killed bool) {
		t.Helper()
		c.look(ClockNow())
		expect.That(t, (o.killed != 0) == killed && c.current.hung == killed, "a report is %s: killed at %d", where, o.killed)
	}
	expect.OK(t, expect.Err(fmt.Fprintln(in, `{"What":"ended","Stopped":true}`)))
	late("in the pipe", false)
	taken, proceed, ended := make(chan supervisorReport), make(chan bool), make(chan bool)
	go func() {
		o.reports.each(out, func(b supervisorReport) {
			taken <- b
			<-proceed
			o.inbox <- b
		})
		close(ended)
	}()
	expect.Deep(t, <-taken, supervisorReport{What: reportEnded, Stopped: true})
	late("on its way", false)
	proceed <- true
	expect.Soon(t, "the report is delivered", func() bool { return len(o.inbox) != 0 }, runtime.Gosched)
	late("delivered", false)
	<-o.inbox
	expect.Soon(t, "nothing is unread", func() bool { return !o.unread() }, runtime.Gosched)
	late("read", true)
	_ = in.Close()
	<-ended
}
