package inspect

import (
	"encoding/json"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

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
		t.Value, t.Value64 = front.Text(h.Last.Value)
		var record struct{ To string }
		if json.Unmarshal(s.Entry.Value, &record) == nil {
			t.Successor = record.To
		}
		switch member := group.MemberOf(s.Election); {
		case member == "":
			return t
		case s.Member() == MemberLeft: // another member has perhaps taken the key after that
			t.ID, t.Token, t.Reason = member, 0, string(StateReleased)
		case t.ID != member:
			t.Reason = ReasonTaken
		}
		t.Value, t.Value64 = "", "" // that of a member is for the group
		return t
	case h.State != leader.HolderLeading:
		return nil
	}
	return &LastTerm{ID: h.ID, Token: h.Token, Since: h.Since.UTC(), Ended: s.Expires().UTC(), Reason: string(StateExpired)}
}

// Since returns when the election came into this state, by the server's time. It is
// zero if that is not known.
func (s ElectionStatus) Since(st State) time.Time {
	h := s.Holder
	switch {
	case !s.Gone.IsZero():
		return s.Gone
	case st == StateExpired:
		return s.Expires()
	case st == StateLeading && !h.Since.IsZero():
		return h.Since
	}
	return s.Entry.Created
}
