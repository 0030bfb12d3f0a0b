package view

import (
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
)

const (
	// EnterScreen selects the alternate screen, hides the cursor and wraps no lines.
	EnterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	// LeaveScreen takes that back.
	LeaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// liveView draws a view on a terminal again every second, after every change, and when the
// terminal has changed its size.
type liveView struct {
	err    error // of the connection
	drawn  time.Time
	fresh  bool // nothing has changed since
	colour bool
	on     screen

	input   chan string
	frames  chan string // at most one waits: a terminal may take nothing for as long as it likes
	written chan error  // closed when the last frame is written
	before  *term.State // of standard input; nil: it is no terminal
	hangup  chan os.Signal
	left    sync.Once
}

func newLiveView() *liveView {
	return &liveView{colour: front.Colourful(os.Stdout), input: make(chan string), frames: make(chan string, 1), written: make(chan error, 1)}
}

// begin takes the terminal. From then on end must be called in every case.
func (l *liveView) begin() error {
	if fd := int(os.Stdin.Fd()); term.IsTerminal(fd) {
		if before, err := term.MakeRaw(fd); err == nil { // else the terminal has been lost, or is not ours
			l.before = before
			go l.read()
		}
	}
	l.hangup = make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(l.hangup, syscall.SIGHUP)
		go l.hungUp()
	}
	go l.write()
	l.frames <- EnterScreen
	return nil
}

// read passes on what the user types. The terminal is lost when it ends.
func (l *liveView) read() {
	defer l.restoreAfterPanic()
	b := make([]byte, 64)
	for {
		n, err := os.Stdin.Read(b)
		if n > 0 {
			l.input <- string(b[:n])
		}
		if err != nil {
			l.input <- "q"
			return
		}
	}
}

func (l *liveView) hungUp() {
	if _, hungUp := <-l.hangup; hungUp {
		l.input <- "q"
	}
}

// write writes frames until there are no more. A terminal that takes nothing must not keep
// the command from ending.
func (l *liveView) write() {
	defer close(l.written)
	defer l.restoreAfterPanic()
	for frame := range l.frames {
		if _, err := os.Stdout.WriteString(frame); err != nil {
			l.written <- err
			return
		}
	}
}

// restoreAfterPanic restores the terminal before the runtime prints a panic of this goroutine.
func (l *liveView) restoreAfterPanic() {
	if p := recover(); p != nil {
		_, _ = os.Stdout.WriteString(LeaveScreen)
		l.restore()
		panic(p)
	}
}

// restore gives standard input its settings back.
func (l *liveView) restore() {
	if l.before != nil {
		_ = term.Restore(int(os.Stdin.Fd()), l.before) // the terminal may have been lost
	}
}

// end leaves the terminal as it was, also in a panic.
func (l *liveView) end() {
	l.left.Do(func() {
		signal.Stop(l.hangup)
		close(l.frames)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range l.written { // until the last frame is written
			}
			_, _ = os.Stdout.WriteString(LeaveScreen) // the terminal may have been lost
		}()
		front.WaitBriefly(done)
		l.restore()
	})
}

func (l *liveView) keys() <-chan string { return l.input }

// typed handles keys. A terminal sends an escape sequence in one piece.
func (l *liveView) typed(keys string) error {
	l.fresh = false
	if strings.HasPrefix(keys, "\x1b") {
		switch keys { // no other key has a meaning here
		case "\x1b":
			l.on.filter, l.on.editing, l.on.offset = "", false, 0
		case "\x1b[A", "\x1bOA":
			l.scroll(-1)
		case "\x1b[B", "\x1bOB":
			l.scroll(1)
		case "\x1b[5~":
			l.scroll(-l.on.height / 2)
		case "\x1b[6~":
			l.scroll(l.on.height / 2)
		case "\x1b[H", "\x1bOH", "\x1b[1~":
			l.on.offset = 0
		case "\x1b[F", "\x1bOF", "\x1b[4~":
			l.on.offset = lastRow
		}
		return nil
	}
	for _, r := range keys {
		switch {
		case r == 3 || r == 4: // Control-C and Control-D: the terminal sends no signals
			return errQuit
		case l.on.editing:
			l.edit(r)
		case r == 'q' || r == 'Q':
			return errQuit
		case r == '/':
			l.on.editing, l.on.filter = true, ""
		case r == 'k':
			l.scroll(-1)
		case r == 'j':
			l.scroll(1)
		case r == 'g':
			l.on.offset = 0
		case r == 'G':
			l.on.offset = lastRow
		case r == '?':
			l.on.help = !l.on.help
		}
	}
	return nil
}

// mostFilter bounds the filter, in bytes.
const mostFilter = 200

func (l *liveView) edit(r rune) {
	l.on.offset = 0
	switch f := l.on.filter; {
	case r == '\r' || r == '\n':
		l.on.editing = false
	case r == '\b' || r == 0x7f:
		_, last := utf8.DecodeLastRuneInString(f)
		l.on.filter = f[:len(f)-last]
	case r == 'U'-'@': // Control-U
		l.on.filter = ""
	case r >= ' ' && r != utf8.RuneError && len(f) < mostFilter:
		l.on.filter += string(r)
	}
}

// lastRow is more than any offset: shown takes the last one.
const lastRow = 1 << 30

func (l *liveView) scroll(by int) { l.on.offset = max(0, l.on.offset+by) }

func (l *liveView) Changed(...Change) error {
	l.fresh = false
	return nil
}

func (l *liveView) NoteTrouble(err error) { l.err, l.fresh = err, false }

func (l *liveView) Shown(now time.Time, of Viewer) error {
	select {
	case err := <-l.written:
		return err
	default:
	}
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	same := width == l.on.width && height == l.on.height
	if l.fresh && same && l.drawn.Truncate(time.Second).Equal(now.Truncate(time.Second)) {
		return nil
	}
	l.on.width, l.on.height = width, height
	v := of.view(now, l.err, l.on.filter)
	l.on.offset = min(l.on.offset, v.lastOffset(l.on))
	select {
	case l.frames <- frame(v.draw(l.on), width, l.colour):
		l.drawn, l.fresh = now, true
	default: // the terminal has not taken the frame before
		l.fresh = false
	}
	return nil
}

// frame returns the output that replaces the screen by the lines. An erasure in the last
// column would take the last character with it.
func frame(lines []front.Line, width int, colour bool) string {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(l.Paint(colour))
		if l.Cells() < width {
			b.WriteString("\x1b[K")
		}
	}
	return b.String()
}
