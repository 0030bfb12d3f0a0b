package fence

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/jsapi"
)

// A stream whose settings are not known is written as one that has replicas, takes no batches, and
// remembers an ID as long as the server's default.
func TestReplicated_Settings(t *testing.T) {
	for _, k := range []struct {
		known               *jetstream.StreamConfig
		replicated, batches bool
		window              time.Duration
	}{
		{nil, true, false, 2 * time.Minute},
		{&jetstream.StreamConfig{Replicas: 1}, false, false, 2 * time.Minute},
		{&jetstream.StreamConfig{Replicas: 2, AllowAtomicPublish: true, Duplicates: 1}, true, true, 1},
	} {
		var s guardedStream
		s.api.Known.Store(k.known)
		check.That(t, s.replicated() == k.replicated && s.batches() == k.batches && s.window() == k.window,
			"%+v: replicated %v, batches %v, a window of %v", k.known, s.replicated(), s.batches(), s.window())
	}
}

// The reply to a write has one meaning. Only one that is not understood leaves the outcome open.
func TestSort_Replies(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		for _, k := range []struct {
			reply []byte
			want  string
		}{
			{refusal(400, jsapi.CodeBatchIncomplete, ""), "not now, incomplete, 10176"},
			{refusal(503, jsapi.CodeClusterNotAvailable, ""), "not now, unreachable, 10008"},
			{refusal(503, jsapi.CodeClusterNotLeader, ""), "not now, unreachable, 10009"},
			{refusal(429, jsapi.CodeTooManyRequests, ""), "not now, 10167"},
			{refusal(429, jsapi.CodeBatchesInflight, ""), "not now, 10210"},
			{refusal(409, jsapi.CodeIDInProcess, ""), "not now, 10158"},
			{known, "stored before, 10201"},
			{refusal(400, jsapi.CodeBatchDisabled, ""), "not staged, unfit, 10174"},
			{refused, "refused"},
			{named("7"), "refused"},
			{refusal(400, jsapi.CodeMessageTooLarge, ""), "too large, 10054"},
			{refusal(500, 10099, "broken"), "10099"},
			{[]byte("junk"), "unknown outcome"},
			{[]byte(`{"stream":"OTHER","seq":7}`), "unknown outcome, unfit"},
		} {
			_, err := d.bucket.sort(d.Context(), &nats.Msg{Subject: "x"}, k.reply)
			check.Equal(t, namesOf(err), k.want, "%q for %s", k.reply)
		}
		ack, err := d.bucket.sort(d.Context(), &nats.Msg{Subject: "x"}, []byte(`{"stream":"KV_B","seq":7}`))
		check.That(t, err == nil && ack.Sequence == 7, "%+v, %v", ack, err)
	})
}
