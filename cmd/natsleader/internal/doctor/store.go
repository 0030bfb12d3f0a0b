package doctor

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
)

// scratch is a stream of doctor that holds one message for a moment.
type scratch struct{ name, subject string }

// Codes of nats-server (jetstream_errors_generated.go) for a server that has no room.
const (
	CodeAccountResources  = 10002
	CodeInsufficient      = 10023
	CodeMemoryResources   = 10028
	CodeStorageResources  = 10047
	CodeStreamCreate      = 10049
	CodeStreamStoreFailed = 10077
)

// ReadStore stores a message of the size of a record in a stream beside the bucket's, and
// deletes that stream. The bucket itself has no place for it: a purge-protected bucket would
// keep it for ever.
func (e *Environment) ReadStore(context.Context) {
	switch {
	case e.readOnly:
		e.Store.Set(facts.Store{Skipped: "nothing is stored with --read-only"}, e.from())
		return
	case !strings.HasPrefix(e.Api, "$JS.") || !strings.HasSuffix(e.Api, ".API."):
		// A domain keeps subjects. Behind an import, the stream's subject may have another name here.
		e.Store.Set(facts.Store{Skipped: "whether a message can be stored behind " + strings.TrimSuffix(e.Api, ".")}, e.from())
		return
	}
	id := rand.Text()[:12]
	s := scratch{"natsleader_doctor_" + id, "natsleader.doctor." + strings.ToLower(id)}
	// Without one of these permissions doctor creates nothing: a stream that it may not delete
	// would stay. It waits for the answer to the deletion. The server may handle two requests in
	// either order, and would otherwise delete the stream that is created next.
	switch err := e.removeScratch(s, true); {
	case errors.Is(err, nats.ErrTimeout):
		e.Store.Set(facts.Store{Silent: "a request for a stream was not answered"}, e.from())
		return
	case err != nil:
		e.lose(&e.Store, err)
		return
	}
	if err := e.Try(e.publish(s.subject)); err != nil {
		e.lose(&e.Store, err)
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	got, created, err := e.createScratch(s)
	if err == nil && got == (facts.Store{}) {
		got = e.storeInScratch(s)
	}
	if left := e.removeScratch(s, created); left != nil {
		got.Left, got.LeftWhy = s.name, front.ErrorText(left)
	}
	if e.Store.Set(got, e.from()); err != nil {
		e.lose(&e.Store, err)
	}
	select {
	case got := <-signals:
		number, _ := got.(syscall.Signal)
		e.ended = front.ExitError{Code: front.ExitSignal + int(number)}
	default:
	}
}

// createScratch creates the stream like that of the bucket. It reports whether the stream may
// exist now. The fact is empty if it does.
func (e *Environment) createScratch(s scratch) (got facts.Store, created bool, err error) {
	c := e.Info.Config
	like := jetstream.StreamConfig{
		Name: s.name, Subjects: []string{s.subject}, Description: "made by natsleader doctor, can be deleted",
		Storage: c.Storage, Replicas: c.Replicas, Placement: c.Placement,
		MaxMsgs: 1, MaxBytes: -1, MaxConsumers: -1, MaxAge: time.Minute, Duplicates: time.Minute,
	}
	body, err := json.Marshal(like)
	if err != nil {
		return got, false, err
	}
	var info jetstream.StreamInfo
	err = e.Request(&nats.Msg{Subject: e.Api + "STREAM.CREATE." + s.name, Data: body}, &info)
	api, refused := errors.AsType[*jetstream.APIError](err)
	room := []int{CodeAccountResources, CodeInsufficient, CodeMemoryResources, CodeStorageResources, CodeStreamCreate, CodeStreamStoreFailed}
	switch {
	case err == nil:
		return got, true, nil
	case refused && slices.Contains(room, int(api.ErrorCode)):
		return facts.Store{Refused: front.ErrorText(api)}, false, nil
	case refused && api.ErrorCode == front.CodeNoPeers:
		return facts.Store{NoPlace: front.ErrorText(api)}, false, nil
	case errors.Is(err, nats.ErrTimeout):
		return facts.Store{Silent: "no stream was created"}, true, nil
	default:
		return got, false, err
	}
}

// storeInScratch stores a message. A stream that was just created may have no leader yet.
func (e *Environment) storeInScratch(s scratch) facts.Store {
	began := time.Now()
	for {
		var ack jetstream.PubAck
		err := e.Request(&nats.Msg{Subject: s.subject, Data: make([]byte, judge.RecordSize)}, &ack)
		switch {
		case err == nil:
			return facts.Store{Size: judge.RecordSize, Took: time.Since(began)}
		case errors.Is(err, nats.ErrNoResponders) && time.Since(began) < e.Wait:
			time.Sleep(50 * time.Millisecond)
		case errors.Is(err, nats.ErrTimeout):
			return facts.Store{Refused: fmt.Sprintf("a message was not acknowledged in %v", e.Wait)}
		default:
			return facts.Store{Refused: front.ErrorText(err)}
		}
	}
}

// removeScratch deletes the stream, if it may exist.
func (e *Environment) removeScratch(s scratch, created bool) error {
	if !created {
		return nil
	}
	err := e.Request(&nats.Msg{Subject: e.Api + "STREAM.DELETE." + s.name}, &struct{}{})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return err
}
