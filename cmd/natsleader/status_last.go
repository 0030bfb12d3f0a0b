package main

import (
	"encoding/json"
	"fmt"
	"time"
)

// lastTerm is the last term of an election without a leader, as far as the key's newest
// record tells.
type lastTerm struct {
	ID        string    `json:"id"`
	Token     uint64    `json:"token,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Ended     time.Time `json:"ended"`               // by the server's clock
	Reason    string    `json:"reason"`              // released or expired
	Successor string    `json:"successor,omitempty"` // the candidate that the leader left the key to
}

// last returns the term that the newest record belongs to, if that term has ended and the
// record names its leader. A record does not tell why a leader handed over.
func (s electionStatus) last() *lastTerm {
	h := s.holder
	switch {
	case !s.gone.IsZero() || h.Foreign || h.Pending: // a pending holder has not led
		return nil
	case h.Released:
		var record struct{ ID, To string }
		if json.Unmarshal(s.entry.Value, &record) != nil || record.ID == "" {
			return nil
		}
		return &lastTerm{ID: record.ID, Token: h.Token, Ended: s.entry.Created.UTC(), Reason: string(stateReleased), Successor: record.To}
	case h.ID == "":
		return nil
	}
	return &lastTerm{
		ID: h.ID, Token: h.Token, Since: h.Since.UTC(), Ended: s.expires().UTC(), Reason: string(stateExpired),
	}
}

// lastDetails returns who led last and why the term ended, for people.
func (s electionStatus) lastDetails(st state, moment func(time.Time) string) [][]string {
	unknown := func(why string) [][]string { return [][]string{{"Last:", "not known: " + why}} }
	switch l := s.last(); {
	case st == stateNever:
		return nil
	case st == stateDeleted && l == nil:
		return unknown("the record of the last term is gone with the key")
	case st == stateForeign:
		return unknown("another program has overwritten the record of the last term")
	case s.holder.Pending:
		return [][]string{{"Last:", "not known: " + printable(s.holder.ID) + " took the key, and its lease ended before it led"}}
	case l == nil:
		return unknown("the record does not name the leader")
	default:
		rows := [][]string{{"Last:", printable(l.ID)}}
		if l.Token > 0 {
			rows[0][1] += fmt.Sprintf(" with token %d", l.Token)
		}
		if !l.Since.IsZero() {
			rows = append(rows, []string{"Since:", moment(l.Since)})
		}
		why := "it did not renew its lease: it has died, hangs, or cannot write to the bucket"
		if st != stateExpired {
			why = "it handed over in order"
			if l.Successor != "" {
				why += ", to " + printable(l.Successor)
			}
		}
		return append(rows, []string{"Ended:", moment(l.Ended) + ": " + why})
	}
}
