package jsapi

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
)

func TestAcknowledgement_WithoutJSON(t *testing.T) {
	a := &Stream{Name: "KV_E", ack: []byte(`{"stream":"KV_E","seq":`)}
	for reply, want := range map[string]uint64{
		`{"stream":"KV_E","seq":10}`:                   10,
		`{"stream":"KV_E","seq":7}`:                    7,
		`{"stream":"KV_E","seq":1e}`:                   0,
		`{"stream":"KV_E","seq":`:                      0,
		`{"stream":"KV_E","seq":9999999999999999999}`:  9999999999999999999,
		`{"stream":"KV_E","seq":18446744073709551615}`: 0, // left to JSON, as are the others
		`{"stream":"KV_E","seq":0}`:                    0,
		`{"stream":"KV_E","seq":}`:                     0,
		`{"stream":"KV_E","seq":12`:                    0,
		`{"stream":"KV_E","seq":-1}`:                   0,
		`{"stream":"KV_E","seq":1,"duplicate":true}`:   0,
		`{"stream":"KV_F","seq":12}`:                   0,
		`{"error":{"code":400}}`:                       0,
		``:                                             0,
	} {
		got := a.acknowledged([]byte(reply))
		check.That(t, got == want, "%s: %d, want %d", reply, got, want)
	}
}

// The usual acknowledgement is decoded without an allocation: each renewal has one.
func TestDecodeAck_AllocatesNothing(t *testing.T) {
	a, reply := &Stream{Name: "KV_E", ack: []byte(`{"stream":"KV_E","seq":`)}, []byte(`{"stream":"KV_E","seq":12}`)
	n := testing.AllocsPerRun(100, func() { _, _ = a.DecodeAck("$KV.E.e", reply) })
	check.Equal(t, n, 0, "%v allocations")
	ack := check.Got(a.DecodeAck("$KV.E.e", reply))(t)
	check.Equal(t, ack, jetstream.PubAck{Stream: "KV_E", Sequence: 12}, "the acknowledgement is %+v")
}
