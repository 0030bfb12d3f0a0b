//go:build unix

package main

import (
	"context"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/leader"
)

// run is the process of `natsleader run`, from the connection to the exit code.
func (r *run) run() error {
	c := &runLoop{
		run: r, seen: seenBucket{name: r.bucket}, command: newCommandMetrics(r.bucket, r.election),
		log: newRunLog(r.errs(), r.election, r.logFormat, r.quiet), supervise: newSupervisorProcess, supervisor: &supervisorProcess{},
	}
	defer c.log.close()
	return c.log.outcome(r.explain(c.runAll()))
}

// runAll returns the error that ends the run. An exitError without one has been printed.
func (c *runLoop) runAll() error {
	r := c.run
	c.manager = newServiceManager()
	if !r.holder {
		makeThreads()
		adoptOrphans()
	}
	signals, reset := r.catchSignals()
	defer reset()
	c.signals = signals
	if r.wait > 0 {
		c.waited = time.After(r.wait)
	}

	var listener net.Listener
	var err error
	served := new(pages)
	if r.http != "" {
		if listener, err = r.listen("http", r.http); err != nil {
			return err
		}
		defer func() { _ = listener.Close() }()
		serveHTTP(listener, served)
	}
	if !r.holder {
		var path string
		if path, err = newLeaseFile(); err != nil {
			return err
		}
		defer func() { removeLeaseFile(string(c.conf.LeaseFile), c.conf.Socket) }()
		c.conf = supervision{
			Election: r.election, Bucket: r.bucket, LeaseFile: []byte(path),
			StopSignal: int(r.stopSignal), Drain: r.drain, Credentials: r.credentials, Won: int(r.won), Lost: int(r.lost),
		}
		if r.stall > 0 {
			var socket *net.UnixConn
			if socket, err = listenForSigns(filepath.Dir(path)); err != nil {
				return err
			}
			defer func() { _ = socket.Close() }()
			c.conf.Stall, c.conf.Socket, c.signs = r.stall, []byte(socket.LocalAddr().String()), signsOn(socket)
		}
		if err = c.startSupervisor(); err != nil { // it gets ready during the connect
			return err
		}
		defer func() { c.supervisor.shutDown() }()
		reapAdopted(&c.supervisorPID)
	}

	if r.retryConnect {
		c.manager.say("READY=1\nSTATUS=connecting")
	}
	nc, bucket, err := c.reach()
	if err != nil {
		return err
	}
	defer nc.Close()
	if c.candidate, err = leader.Campaign(context.Background(), r.succession.of(bucket), r.election, r.config(c.log)); err != nil {
		return err
	}
	id := c.candidate.ID()
	c.log.id.Store(&id)
	c.manager.say("READY=1\nSTATUS=stands in " + r.election)
	if listener != nil {
		h, err := answers(c.candidate, c.command)
		if err != nil {
			return err
		}
		served.ofCandidate.Store(&h)
		if strings.HasSuffix(r.http, ":0") {
			c.log.say("serves http://%s", listener.Addr())
		}
	}
	return c.loop()
}

// catchSignals returns the signals to natsleader, and a function that gives those that end
// it their usual effect. If a test has set life, its end takes the place of SIGINT, and no signal is caught.
func (r *run) catchSignals() (signals chan os.Signal, reset func()) {
	signals = make(chan os.Signal, 8)
	if r.life != nil {
		stop := context.AfterFunc(r.life, func() { signals <- unix.SIGINT })
		return signals, func() { stop() }
	}
	catch(signals, append(endings, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH)...)
	catch(make(chan os.Signal, 1), unix.SIGPIPE) // the reader of the messages has ended
	return signals, func() {
		for _, sig := range endings { // nothing is left that has to end in order
			signal.Reset(sig)
		}
	}
}

// ending reports whether a signal ends the run.
func ending(sig os.Signal) (unix.Signal, bool) {
	s, _ := sig.(unix.Signal)
	return s, slices.Contains(endings, s)
}
