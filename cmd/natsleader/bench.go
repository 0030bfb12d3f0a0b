package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

const benchHelp = `Two candidates, each on a connection of its own, are elected and hand over,
round after round, each time in an election of its own, in a bucket that is
made for this and deleted in the end, also after Ctrl-C. It is set as --bucket
is, if that exists; otherwise it has one replica on file.

Beside each figure stands what the same writes cost without an election, taken
in turns in the same run: a renewal is one conditional update; a handover is an
update, its delivery to a subscriber, and an update by that one.

A handover that is forced by a crash takes the rest of the lease, and is not
measured. All that is left after kill -9 is the bucket, natsleader_bench_...`

// benchOptions are the flags of bench.
type benchOptions struct {
	rounds, replicas int
	lease            time.Duration
	storage          string
	json             bool
}

func registerBench(app *fisk.Application, g *globals) {
	var o benchOptions
	cmd := app.Command("bench", "Measure elections and handovers beside the bare writes").HelpLong(benchHelp)
	cmd.Flag("rounds", "Rounds").Default("100").IntVar(&o.rounds)
	cmd.Flag("lease", "Lease of the candidates").Default(wire.DefaultLease.String()).DurationVar(&o.lease)
	cmd.Flag("replicas", "Replicas of the bucket: 1, 3 or 5; those of --bucket by default").PlaceHolder("N").IntVar(&o.replicas)
	cmd.Flag("storage", "Storage of the bucket: file or memory; that of --bucket by default").PlaceHolder("KIND").EnumVar(&o.storage, "file", "memory")
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&o.json)
	cmd.Action(func(*fisk.ParseContext) error {
		if o.rounds < 1 {
			return usagef("--rounds %d is not positive", o.rounds)
		}
		if o.lease <= 0 {
			return usagef("--lease %v is not positive", o.lease)
		}
		return g.bench(o)
	})
}

// bench makes the bucket, measures, deletes the bucket, and prints the result. After a
// signal it prints the measurements so far. After a second signal there is no time for
// that.
func (g *globals) bench(o benchOptions) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	b := &bench{patience: g.timeout + 2*o.lease, rows: newRows()}
	for i := range b.ends {
		nc, err := g.connect()
		if err != nil {
			return err
		}
		defer nc.Close()
		js, err := g.jetStream(nc)
		if err != nil {
			return err
		}
		b.ends[i].nc, b.ends[i].js = nc, js
	}
	cfg, like, err := g.benchBucket(ctx, b.ends[0].js, o)
	if err != nil {
		return err
	}
	measured := make(chan error, 1)
	go func() { measured <- b.measure(ctx, cfg, o) }()
	select {
	case err = <-measured:
	case s := <-signals:
		signal.Stop(signals)
		cancel()
		if err = <-measured; errors.Is(err, context.Canceled) {
			err = nil
		}
		number, _ := s.(syscall.Signal)
		err = exitError{exitSignal + int(number), err}
	}
	if len(b.rows[rowElection].ours) == 0 {
		return err
	}
	if failed := b.print(os.Stdout, cfg, like, o.rounds, o.json); failed != nil {
		return failed
	}
	return err
}

// exitSignal plus the number of a signal is the exit code of a program that the signal
// ended.
const exitSignal = 128

// benchBucket returns the settings of a bucket for the benchmark, and the name of the
// bucket from which they were taken.
func (g *globals) benchBucket(ctx context.Context, js jetstream.JetStream, o benchOptions) (cfg leader.BucketConfig, like string, err error) {
	model, err := leader.OpenBucket(js, g.bucket)
	if err != nil {
		return cfg, "", err
	}
	ctx, cancel := g.withTimeout(ctx)
	defer cancel()
	info, err := model.Info(ctx)
	switch {
	case err == nil:
		cfg, like = leader.BucketConfig{Replicas: info.Replicas, Storage: info.Storage, Placement: info.Placement}, g.bucket
	case errors.Is(err, leader.ErrNoBucket), errors.Is(err, leader.ErrIncompatibleBucket), errors.Is(err, leader.ErrPermission):
		cfg.Replicas = 1
	default:
		return cfg, "", err
	}
	if o.replicas != 0 {
		cfg.Replicas, like = o.replicas, ""
	}
	if o.storage != "" {
		cfg.Storage, like = jetstream.FileStorage, ""
		if o.storage == "memory" {
			cfg.Storage = jetstream.MemoryStorage
		}
	}
	cfg.Name = "natsleader_bench_" + strings.ToLower(rand.Text()[:8])
	cfg.Description = "made by natsleader bench, can be deleted"
	cfg.MaxLease = o.lease
	return cfg, like, nil
}

// measure runs all rounds in a bucket that it makes and deletes.
func (b *bench) measure(ctx context.Context, cfg leader.BucketConfig, o benchOptions) (err error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.patience)
	defer cancel()
	if _, err = leader.CreateBucket(limited, b.ends[0].js, cfg); err != nil {
		return err
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.patience)
		defer cancel()
		if gone := b.ends[0].js.DeleteKeyValue(late, cfg.Name); gone != nil {
			gone = fmt.Errorf("bucket %s is left behind: %w", cfg.Name, gone)
			if err != nil {
				gone = fmt.Errorf("%w; %w", err, gone)
			}
			err = gone
		}
	}()
	for i := range b.ends {
		if err = b.ends[i].open(limited, cfg.Name); err != nil {
			return err
		}
	}
	b.feed = wire.FeedPrefix + cfg.Name + "."
	for n := range o.rounds {
		if err = b.round(ctx, fmt.Sprintf("round.%d", n), o.lease); err != nil {
			return err
		}
	}
	return nil
}
