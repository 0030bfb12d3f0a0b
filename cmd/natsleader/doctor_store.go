package main

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
)

// scratch is a stream of doctor that holds one message for a moment.
type scratch struct{ name, subject string }

// Codes of nats-server (jetstream_errors_generated.go) for a server that has no room.
const (
	codeAccountResources  = 10002
	codeInsufficient      = 10023
	codeMemoryResources   = 10028
	codeStorageResources  = 10047
	codeStreamCreate      = 10049
	codeStreamStoreFailed = 10077
)

// checkStore stores a message of the size of a record in a stream beside the bucket's, and
// deletes that stream. The bucket itself has no place for it: a purge-protected bucket would
// keep it for ever.
func checkStore(_ context.Context, e *environment) []finding {
	switch {
	case e.readOnly:
		return []finding{unread("nothing is stored with --read-only")}
	case !strings.HasPrefix(e.api, "$JS.") || !strings.HasSuffix(e.api, ".API."):
		// A domain keeps subjects. Behind an import, the stream's subject may have another name here.
		return []finding{unread("whether a message can be stored behind %s", strings.TrimSuffix(e.api, "."))}
	}
	id := rand.Text()[:12]
	s := scratch{"natsleader_doctor_" + id, "natsleader.doctor." + strings.ToLower(id)}
	// Without one of these permissions doctor creates nothing: a stream that it may not delete
	// would stay. It waits for the answer to the deletion. The server may handle two requests in
	// either order, and would otherwise delete the stream that is created next.
	switch err := e.removeScratch(s, true); {
	case errors.Is(err, nats.ErrTimeout):
		return []finding{e.noStream("a request for a stream was not answered")}
	case err != nil:
		return []finding{notStored(err)}
	}
	if err := e.try(func() error { return e.nc.Publish(s.subject, nil) }); err != nil {
		return []finding{notStored(err)}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	f, created := e.createScratch(s)
	if created {
		if f.Text == "" {
			f = e.storeInScratch(s)
		}
	}
	found := []finding{f}
	if left := e.removeScratch(s, created); left != nil {
		found = append(found, severityWarning.of("stream %s of doctor may be left behind: %v", s.name, left).
			advise("delete it with: nats stream rm "+s.name))
	}
	select {
	case got := <-signals:
		number, _ := got.(syscall.Signal)
		e.ended = exitError{code: exitSignal + int(number)}
	default:
	}
	return found
}

// notStored is the finding if a connection may not create, fill or delete the scratch stream.
func notStored(err error) finding {
	if errors.Is(err, nats.ErrPermissionViolation) {
		return unread("%s (to store a message in a stream of its own; candidates need not)", violation(err)).
			advise("run doctor as a user who may create streams, too: only that finds a full disk")
	}
	return unanswered("whether a message can be stored: %v", err)
}

func refusesToStore(e *environment, why error) finding {
	return severityCritical.of("the servers can store nothing in %s storage now: %s", storageName(e.info.Config.Storage), errorText(why)).
		advise("make room on the disks of the stream's servers, or raise the limits of the account; a server whose disk was full refuses writes until it is restarted")
}

// noStream is the finding if the servers have not answered in time.
func (e *environment) noStream(what string) finding {
	if names, vacant := e.missing(); len(names)+vacant > 0 {
		return unread("whether a message can be stored: servers are missing, and %s in %v", what, e.wait)
	}
	return refusesToStore(e, fmt.Errorf("%s in %v", what, e.wait))
}

// createScratch creates the stream like that of the bucket. It reports whether the stream may
// exist now. The finding is empty if it does.
func (e *environment) createScratch(s scratch) (f finding, created bool) {
	c := e.info.Config
	like := jetstream.StreamConfig{
		Name: s.name, Subjects: []string{s.subject}, Description: "made by natsleader doctor, can be deleted",
		Storage: c.Storage, Replicas: c.Replicas, Placement: c.Placement,
		MaxMsgs: 1, MaxBytes: -1, MaxConsumers: -1, MaxAge: time.Minute, Duplicates: time.Minute,
	}
	body, err := json.Marshal(like)
	if err != nil {
		return unanswered("%v", err), false
	}
	var info jetstream.StreamInfo
	err = e.request(&nats.Msg{Subject: e.api + "STREAM.CREATE." + s.name, Data: body}, &info)
	api, refused := errors.AsType[*jetstream.APIError](err)
	room := []int{codeAccountResources, codeInsufficient, codeMemoryResources, codeStorageResources, codeStreamCreate, codeStreamStoreFailed}
	switch {
	case err == nil:
		return finding{}, true
	case refused && slices.Contains(room, int(api.ErrorCode)):
		return refusesToStore(e, api), false
	case errors.Is(err, nats.ErrTimeout):
		return e.noStream("no stream was created"), true
	default:
		return notStored(err), false
	}
}

// storeInScratch stores a message. A stream that was just created may have no leader yet.
func (e *environment) storeInScratch(s scratch) finding {
	began := time.Now()
	for {
		var ack jetstream.PubAck
		err := e.request(&nats.Msg{Subject: s.subject, Data: make([]byte, recordSize)}, &ack)
		switch {
		case err == nil:
			return fine("a message of %d bytes is stored in %v, in a stream like the bucket's", recordSize, roundish(time.Since(began)))
		case errors.Is(err, nats.ErrNoResponders) && time.Since(began) < e.wait:
			time.Sleep(50 * time.Millisecond)
		case errors.Is(err, nats.ErrTimeout):
			return refusesToStore(e, fmt.Errorf("a message was not acknowledged in %v", e.wait))
		default:
			return refusesToStore(e, err)
		}
	}
}

// removeScratch deletes the stream, if it may exist.
func (e *environment) removeScratch(s scratch, created bool) error {
	if !created {
		return nil
	}
	err := e.request(&nats.Msg{Subject: e.api + "STREAM.DELETE." + s.name}, &struct{}{})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return err
}
