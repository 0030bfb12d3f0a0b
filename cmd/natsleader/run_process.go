//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/leader"
)

// run is the process of `natsleader run`, from the connection to the exit code.
func (r *run) run() error {
	makeThreads()
	adoptOrphans()
	signals, reset := catchSignals()
	defer reset()
	var waited <-chan time.Time
	if r.wait > 0 {
		waited = time.After(r.wait)
	}

	listener, err := r.listen()
	if err != nil {
		return err
	}
	if listener != nil {
		defer func() { _ = listener.Close() }()
	}
	path, err := newLeaseFile()
	if err != nil {
		return err
	}
	defer removeLeaseFile(path)
	c := &runLoop{run: r, signals: signals, waited: waited, command: newCommandMetrics(r.bucket, r.election), conf: supervision{
		Election: r.election, Bucket: r.bucket, LeaseFile: []byte(path),
		StopSignal: int(r.stopSignal), Drain: r.drain, Won: int(r.won), Lost: int(r.lost),
	}}
	if err = c.startSupervisor(); err != nil { // it gets ready during the connect
		return err
	}
	defer func() { c.supervisor.shutDown() }()
	reapAdopted(&c.supervisorPID)

	var out io.Writer = os.Stderr
	if r.quiet {
		out = nil
	}
	c.log = newRunLog(out, r.election)
	defer c.log.close()
	nc, bucket, err := r.reach(signals, waited, c.log.followConnection()...)
	if err != nil {
		return err
	}
	defer nc.Close()
	if c.candidate, err = leader.Campaign(context.Background(), bucket, r.election, r.config(c.log)); err != nil {
		return err
	}
	if listener != nil {
		if err = serve(listener, c.candidate, c.command); err != nil {
			return err
		}
		if strings.HasSuffix(r.http, ":0") {
			c.log.say("serves http://%s", listener.Addr())
		}
	}
	return c.loop()
}

// catchSignals returns the signals to natsleader, and a function that gives those that end
// it their usual effect.
func catchSignals() (signals chan os.Signal, reset func()) {
	signals = make(chan os.Signal, 8)
	catch(signals, append(endings, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH)...)
	catch(make(chan os.Signal, 1), unix.SIGPIPE) // the reader of the messages has ended
	return signals, func() {
		for _, sig := range endings { // nothing is left that has to end in order
			signal.Reset(sig)
		}
	}
}

// reach connects, reads the settings of the bucket, and checks that they fit. A signal or
// --wait can interrupt it.
func (r *run) reach(signals <-chan os.Signal, waited <-chan time.Time, opts ...nats.Option) (*nats.Conn, *leader.Bucket, error) {
	type reached struct {
		nc     *nats.Conn
		bucket *leader.Bucket
		err    error
	}
	done := make(chan reached, 1)
	go func() {
		nc, _, bucket, err := r.open(opts...)
		if err == nil {
			ctx, cancel := r.withTimeout(context.Background())
			defer cancel()
			var info leader.BucketInfo
			if info, err = bucket.Info(ctx); err == nil {
				err = r.succession.fit(info, r.lease)
			}
			if err != nil {
				nc.Close()
				err = r.explain(err)
			}
		}
		done <- reached{nc, bucket, err}
	}()
	for {
		select {
		case d := <-done:
			return d.nc, d.bucket, d.err
		case <-waited:
			return nil, nil, exitError{exitWaited, fmt.Errorf("not connected within --wait %v", r.wait)}
		case sig := <-signals:
			if sig, ends := ending(sig); ends {
				return nil, nil, exitError{code: 128 + int(sig)}
			}
		}
	}
}

// ending reports whether a signal ends the run.
func ending(sig os.Signal) (unix.Signal, bool) {
	s, _ := sig.(unix.Signal)
	return s, slices.Contains(endings, s)
}
