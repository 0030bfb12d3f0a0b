package seats_test

import (
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/seats"
)

// A key gives the election and the seat that it was made of, and no other key does.
func TestKey(t *testing.T) {
	for n, want := range map[int]string{-1: "e", 0: "e", 1: "e", 2: "e.seat.2", 17: "e.seat.17"} {
		key := seats.Key("e", n)
		election, seat := wire.SeatOf(key)
		check.That(t, key == want && election == "e" && seat == max(n, 1), "seat %d is %q, which is seat %d of %q", n, key, seat, election)
	}
	election, seat := wire.SeatOf("a.seat.3.seat.2")
	check.That(t, election == "a.seat.3" && seat == 2, "seat %d of %q", seat, election)
	for _, key := range []string{".seat.2", "e.seat.1", "e.seat.0", "e.seat.-2", "e.seat.02", "e.seat.", "e.seat.x", "e.seat", "eseat.2"} {
		election, seat = wire.SeatOf(key)
		check.That(t, election == key && seat == 1, "%q is seat %d of %q", key, seat, election)
	}
}
