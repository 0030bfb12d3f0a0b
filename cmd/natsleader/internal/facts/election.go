package facts

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// ElectionStatus is the newest revision of an election's key.
type ElectionStatus struct {
	Election string
	Entry    backend.Entry
	Holder   leader.Holder
	Gone     time.Time // when a key that had a record was found without one; zero: it was not
	MayLead  time.Time // the key is missing, and its holder may lead until then; zero: it is not
	Note     Note      // as far as it was read
}

// Takes reports whether a leader of an election is another member of a group than that of the key, and so has taken the key
// only to end the term of that member.
func Takes(election, id string) bool {
	member := group.MemberOf(election)
	return member != "" && member != id
}

// NewElectionStatus returns the election of an entry.
func NewElectionStatus(election string, e backend.Entry) ElectionStatus {
	return ElectionStatus{Election: election, Entry: e, Holder: leader.HolderOf(natskv.KeyValue(e, election))}
}

// At returns the state at a moment of the server's time.
func (s ElectionStatus) At(now time.Time) State {
	return StateOf(s.Entry, s.Holder, s.Gone, now)
}

// Remaining is how long the lease keeps other candidates out; negative when it is over.
func (s ElectionStatus) Remaining(now time.Time) time.Duration {
	return s.Expires().Sub(now)
}

// Expires returns when the lease ends, by the server's clock.
func (s ElectionStatus) Expires() time.Time { return s.Holder.Renewed.Add(s.Holder.Lease) }

// LeadsBy returns when no other lease can be valid any more, at the latest, so that the pending holder of the key may lead. A
// pending record names the longest of these leases. A renewal of it moves this moment, and a PendingPeriod may be longer.
// It is zero in any other state.
func (s ElectionStatus) LeadsBy(st State) time.Time {
	if st != Pending {
		return time.Time{}
	}
	return s.Expires()
}

// KeptLease returns the lease for which candidates wait: that of the record, or that of the delete marker which
// step-down --force leaves.
func (s ElectionStatus) KeptLease() time.Duration {
	e := s.Entry
	e.Marker, e.Created = false, time.Time{}
	return NewElectionStatus(s.Election, e).Holder.Lease
}

// LastTerm is the last term of an election without a leader, as far as the key's newest
// record tells.
type LastTerm struct {
	ID        string    `json:"id"`
	Token     uint64    `json:"token,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Ended     time.Time `json:"ended"`               // by the server's clock
	Reason    string    `json:"reason"`              // released, expired or taken
	Successor string    `json:"successor,omitempty"` // the candidate that the leader left the key to
	Value     string    `json:"value,omitempty"`     // the last one, unless it is that of the holder
	Value64   string    `json:"value64,omitempty"`   // one that is not UTF-8, in base64
}

// ReasonTaken is the reason for the end of a term that another member of a group has begun with the key of a silent
// member, to end the term of that one.
const ReasonTaken = "taken"

// Last returns the last term, if it has ended and the newest record names its leader. A record does
// not tell why a leader handed over.
func (s ElectionStatus) Last() *LastTerm {
	h := s.Holder
	switch {
	case !s.Gone.IsZero():
		return nil
	case h.Last != nil:
		t := &LastTerm{ID: h.Last.ID, Token: h.Last.Token, Ended: h.Last.Renewed.UTC(), Reason: h.Last.State.String()}
		t.Value, t.Value64 = Value64(h.Last.Value)
		var record struct{ To string }
		if json.Unmarshal(s.Entry.Value, &record) == nil {
			t.Successor = record.To
		}
		switch member := group.MemberOf(s.Election); {
		case member == "":
			return t
		case s.Member() == MemberLeft: // another member has perhaps taken the key after that
			t.ID, t.Token, t.Reason = member, 0, string(Released)
		case Takes(s.Election, t.ID):
			t.Reason = ReasonTaken
		}
		t.Value, t.Value64 = "", "" // that of a member is for the group
		return t
	case h.State != leader.HolderLeading:
		return nil
	}
	return &LastTerm{ID: h.ID, Token: h.Token, Since: h.Since.UTC(), Ended: s.Expires().UTC(), Reason: string(Expired)}
}

// Since returns when the election came into this state, by the server's time. It is
// zero if that is not known.
func (s ElectionStatus) Since(st State) time.Time {
	h := s.Holder
	switch {
	case !s.Gone.IsZero():
		return s.Gone
	case st == Expired:
		return s.Expires()
	case st == Leading && !h.Since.IsZero():
		return h.Since
	}
	return s.Entry.Created
}

// Member returns the state of the member whose key it is.
func (s ElectionStatus) Member() string {
	value := s.Holder.Value
	if s.Holder.Last != nil {
		value = s.Holder.Last.Value
	}
	return MemberState(shard.Peer{ID: group.MemberOf(s.Election), Holder: s.Holder, Leaves: group.HasLeft(value)})
}

// Value64 returns a value for JSON: as it is, or in base64 if it is not UTF-8.
func Value64(b []byte) (plain, base string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return "", base64.StdEncoding.EncodeToString(b)
}
