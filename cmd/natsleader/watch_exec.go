package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
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
	run    func(ctx context.Context, c electionChange, was state) error

	mu      sync.Mutex
	order   []string // the elections whose change waits
	waiting map[string]electionChange
	bell    chan struct{} // one mark while changes wait

	stop context.CancelFunc
	done chan struct{}

	adopts        sync.Once
	supervisorPID atomic.Int64 // of the command that runs, or of the last one
}

func (g *globals) newHooks(command string) *hooks {
	h := &hooks{textLines: g.newTextLines(), bucket: g.bucket, waiting: map[string]electionChange{}, bell: make(chan struct{}, 1)}
	h.run = func(ctx context.Context, c electionChange, was state) error { return h.runHook(ctx, command, c, was) }
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

func (h *hooks) changed(changes ...change) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range changes {
		c := c.(electionChange) // of a watcher
		if _, waits := h.waiting[c.now.election]; !waits {
			h.order = append(h.order, c.now.election)
		}
		h.waiting[c.now.election] = c
	}
	select {
	case h.bell <- struct{}{}:
	default:
	}
	return nil
}

// next returns the change that has waited for the longest time.
func (h *hooks) next() (electionChange, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.order) == 0 {
		return electionChange{}, false
	}
	c := h.waiting[h.order[0]]
	delete(h.waiting, h.order[0])
	h.order = h.order[1:]
	return c, true
}

func (h *hooks) runAll(ctx context.Context) {
	defer close(h.done)
	was := map[string]state{} // that the command has seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.bell:
		}
		for c, ok := h.next(); ok && ctx.Err() == nil; c, ok = h.next() {
			limited, cancel := context.WithTimeout(ctx, hookLimit)
			err := h.run(limited, c, was[c.now.election])
			switch {
			case ctx.Err() != nil:
			case limited.Err() != nil:
				err = fmt.Errorf("it was ended after %v", hookLimit)
				fallthrough
			case err != nil:
				h.warn("the command of --exec for %s (%s): %s", c.now.election, c.state, errorText(err))
			}
			cancel()
			was[c.now.election] = c.state
		}
	}
}

// runHook runs the command for a change. Nothing of it is left when runHook returns.
func (h *hooks) runHook(ctx context.Context, command string, c electionChange, was state) error {
	var object bytes.Buffer
	if err := printJSON(&object, c.object(), ""); err != nil {
		return err
	}
	return h.runShell(ctx, command, hookEnvironment(h.bucket, c, was), object.Bytes())
}

// hookEnvironment returns the variables in which the command finds the change.
func hookEnvironment(bucket string, c electionChange, was state) (env []string) {
	value, _ := text(c.now.holder.Value)
	token := ""
	if c.now.holder.Token > 0 {
		token = fmt.Sprint(c.now.holder.Token)
	}
	for _, v := range [][2]string{
		{"BUCKET", bucket},
		{"ELECTION", c.now.election},
		{"STATE", string(c.state)},
		{"WAS", string(was)},
		{"ID", c.now.holder.ID},
		{"TOKEN", token},
		{"VALUE", value},
	} {
		env = append(env, "NATSLEADER_"+v[0]+"="+strings.ReplaceAll(v[1], "\x00", "")) // others write it, and a zero byte ends a variable
	}
	return env
}
