package view

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/run"
)

const (
	// hookLimit is how long one command of --exec may take.
	hookLimit = time.Minute
	// hookPatience is the time from SIGTERM to SIGKILL for such a command.
	hookPatience = 5 * time.Second
)

// hooks runs a command for each change, one after the other. The watcher never waits for it: of the changes of one
// election that come meanwhile, the newest counts.
type hooks struct {
	textLines
	bucket string
	run    func(ctx context.Context, c ElectionChange, was facts.State) error

	mu      sync.Mutex
	order   []string // the elections whose change waits
	waiting map[string]ElectionChange
	bell    chan struct{} // one mark while changes wait

	stop context.CancelFunc
	done chan struct{}

	shell run.Shell
}

func newHooks(g *front.Globals, command string) *hooks {
	h := &hooks{textLines: newTextLines(g), bucket: g.Bucket, waiting: map[string]ElectionChange{}, bell: make(chan struct{}, 1)}
	h.shell.Patience, h.shell.Warn = hookPatience, h.Warn
	h.run = func(ctx context.Context, c ElectionChange, was facts.State) error {
		return h.runHook(ctx, command, c, was)
	}
	return h
}

func (h *hooks) begin() error {
	ctx, stop := context.WithCancel(context.Background())
	h.stop, h.done = stop, make(chan struct{})
	go h.runAll(ctx)
	return nil
}

// end ends the command that runs.
func (h *hooks) end() {
	h.stop()
	<-h.done
}

func (h *hooks) Changed(changes ...Change) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range changes {
		c := c.(ElectionChange) // of a watcher
		if _, waits := h.waiting[c.Now.Election]; !waits {
			h.order = append(h.order, c.Now.Election)
		}
		h.waiting[c.Now.Election] = c
	}
	select {
	case h.bell <- struct{}{}:
	default:
	}
	return nil
}

// next returns the change that has waited for the longest time.
func (h *hooks) next() (ElectionChange, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.order) == 0 {
		return ElectionChange{}, false
	}
	c := h.waiting[h.order[0]]
	delete(h.waiting, h.order[0])
	h.order = h.order[1:]
	return c, true
}

func (h *hooks) runAll(ctx context.Context) {
	defer close(h.done)
	was := map[string]facts.State{} // that the command has seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.bell:
		}
		for c, ok := h.next(); ok && ctx.Err() == nil; c, ok = h.next() {
			limited, cancel := context.WithTimeout(ctx, hookLimit)
			err := h.run(limited, c, was[c.Now.Election])
			switch {
			case ctx.Err() != nil:
			case limited.Err() != nil:
				err = fmt.Errorf("it was ended after %v", hookLimit)
				fallthrough
			case err != nil:
				h.Warn("the command of --exec for %s (%s): %s", c.Now.Election, c.State, front.ErrorText(err))
			}
			cancel()
			was[c.Now.Election] = c.State
		}
	}
}

// runHook runs the command for a change. Nothing of it is left when runHook returns.
func (h *hooks) runHook(ctx context.Context, command string, c ElectionChange, was facts.State) error {
	var object bytes.Buffer
	if err := front.PrintJSON(&object, c.object(), ""); err != nil {
		return err
	}
	return h.shell.Run(ctx, command, hookEnvironment(h.bucket, c, was), object.Bytes())
}

// hookEnvironment returns the variables in which the command finds the change.
func hookEnvironment(bucket string, c ElectionChange, was facts.State) (env []string) {
	value, _ := facts.Value64(c.Now.Holder.Value)
	token := ""
	if c.Now.Holder.Token > 0 {
		token = fmt.Sprint(c.Now.Holder.Token)
	}
	for _, v := range [][2]string{
		{"BUCKET", bucket},
		{"ELECTION", c.Now.Election},
		{"STATE", string(c.State)},
		{"WAS", string(was)},
		{"ID", c.Now.Holder.ID},
		{"TOKEN", token},
		{"VALUE", value},
	} {
		env = append(env, "NATSLEADER_"+v[0]+"="+strings.ReplaceAll(v[1], "\x00", "")) // others write it, and a zero byte ends a variable
	}
	return env
}
