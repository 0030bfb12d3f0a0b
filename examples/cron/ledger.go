package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

var (
	errStale = errors.New("a later leader has been here")
	errTaken = errors.New("this run is booked already")
)

// entry is the last run of the job.
type entry struct {
	Token uint64    `json:"token"` // of the term that ran it
	Slot  time.Time `json:"slot"`
	By    string    `json:"by"`
}

// ledger books the runs of the job, each once. It stands for the resource that a
// leader protects with its fencing token, often a row of a database with the same
// comparison in a WHERE clause.
type ledger struct {
	kv jetstream.KeyValue
}

const ledgerKey = "last-run"

// openLedger makes a bucket of its own. The bucket of the elections is for elections only.
func openLedger(ctx context.Context, js jetstream.JetStream) (*ledger, error) {
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucketName + "-ledger"})
	return &ledger{kv: kv}, err
}

// book books a run, if no later leader has booked any and no process has booked
// this one. The comparison and the write are one step: the update is refused if the
// entry has changed since it was read.
func (l *ledger) book(ctx context.Context, token uint64, slot time.Time, by string) error {
	var last entry
	var revision uint64
	switch got, err := l.kv.Get(ctx, ledgerKey); {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(got.Value(), &last); err != nil {
			return err
		}
		revision = got.Revision()
	}
	switch {
	case token < last.Token:
		return fmt.Errorf("%w: token %d", errStale, last.Token)
	case !slot.After(last.Slot):
		return fmt.Errorf("%w by %s", errTaken, last.By)
	}
	value, err := json.Marshal(entry{Token: token, Slot: slot, By: by})
	if err != nil {
		return err
	}
	_, err = l.kv.Update(ctx, ledgerKey, value, revision)
	return err
}
