package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxElection is the limit for the key of an election in bytes, with the suffix of its seat.
// Package jsapi has the limits of the other names, and the reason for them (names.go).
const MaxElection = 512

// CordonKey is the key of a bucket's cordon. No election has this name.
const CordonKey = "natsleader.cordon"

// CheckElection returns an error that names the rule if key is not the key of an election or
// of one of its seats.
func CheckElection(key string) error {
	switch {
	case len(key) > MaxElection:
		return fmt.Errorf("election of %d bytes is more than %d", len(key), MaxElection)
	case key == CordonKey:
		return fmt.Errorf("election %q has the name of the bucket's cordon", key)
	case !ValidKey(key):
		return fmt.Errorf("election %q may contain only letters, digits and -/_=., and no empty part", key)
	}
	return nil
}

// ValidKey applies the rules of KV keys (jetstream/kv.go, keyValid, and ADR-8 of
// nats-architecture-and-design).
func ValidKey(key string) bool {
	if key == "" || key[0] == '.' || key[len(key)-1] == '.' {
		return false
	}
	for i, r := range key {
		if !alphanumeric(r) && r != '-' && r != '/' && r != '_' && r != '=' && (r != '.' || key[i-1] == '.') {
			return false
		}
	}
	return true
}

func alphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// SeatInfix separates an election and the number of a seat in the key of a seat.
const SeatInfix = ".seat."

// SeatKey returns the key of seat n of an election, which is the election's own for the first.
func SeatKey(election string, n int) string {
	if n <= 1 {
		return election
	}
	return election + SeatInfix + strconv.Itoa(n)
}

// SeatOf returns the election and the number of the seat that a key belongs to.
func SeatOf(key string) (election string, n int) {
	if i := strings.LastIndex(key, SeatInfix); i > 0 {
		if n, err := strconv.Atoi(key[i+len(SeatInfix):]); err == nil && n > 1 && SeatKey(key[:i], n) == key {
			return key[:i], n
		}
	}
	return key, 1
}
