package record

import (
	"testing"
	"time"
)

var benchRecord = Record{
	Phase: PhaseLeading, ID: "host-7f9c_4711_ab12cd34", Session: "Xk29fLmQ0aZ81bTnVw3Rty", Counter: 4711, Lease: 15 * time.Second,
	Token: 123456, Since: 1_700_000_000_123_456_789, Value: "http://10.0.0.1:8080",
}

// BenchmarkDecode decodes a usual record, in both ways.
func BenchmarkDecode(b *testing.B) {
	data := benchRecord.Encode(1_700_000_000_123_456_789)
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	spaced := append(data[:len(data):len(data)], '\n')
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(spaced); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			benchRecord.Encode(1_700_000_000_123_456_789)
		}
	})
	r := benchRecord
	r.Value = "http://10.0.0.1:808\n"
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Encode(0)
		}
	})
}
