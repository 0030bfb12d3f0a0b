// Package record has the values that candidates store: the record of a holder, the guard of a term,
// and the announcement in a roster. It decodes what others have stored, and bounds what it believes.
//
// Its files:
//
//	record.go        the record of a holder: fields, encoding, decoding, bounds
//	plain.go         the fast encoder and decoder for records without escapes
//	last.go          the last leader before the writer of a record
//	line.go          the line of successors in a record
//	entry.go         what was observed under a key: a record, a marker, or something else
//	guard.go         the record of a guard
//	cordon.go        the names of a cordon, and which candidates they mean
//	announcement.go  the announcement of a waiting candidate in the roster
//	view.go          View: the roster as its reader has it, in order
package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/wire"
)

const (
	// Format is the format that this version writes.
	Format = 1
	// MaxToken is the greatest token that a record or a guard may have. No candidate writes
	// a greater one, so a record with a greater one is not a candidate's.
	MaxToken = 1 << 62
	// MaxMinToken is the bound of Config.MinToken. It leaves room for more terms than
	// there will be.
	MaxMinToken = 1 << 61
	// LastToken is the greatest token that candidates count up from. No term comes near it,
	// so a greater one is junk. A candidate that followed it would leave a record of its own
	// that no candidate can follow, and deleting the junk would mend nothing.
	LastToken = MaxToken - 1<<32
	// MaxLease bounds how long a damaged record can make candidates wait.
	MaxLease = 366 * 24 * time.Hour
	// MaxID keeps records small.
	MaxID = 256
	// maxRecordSize is more than the size of any record of this package: JSON turns one byte
	// into six at most, and two values are much of the record.
	maxRecordSize = 16 * wire.MaxValue
)

// Phase is the stage that the writer of a record had reached when it sent the record.
type Phase uint8

// Phases of a record.
const (
	PhaseNone     Phase = iota
	PhasePending        // holds the key, must not lead yet
	PhaseElect          // this very write elects its writer, once it is acknowledged
	PhaseLeading        // a renewal of a term
	PhaseReleased       // gave the key up
)

// Record is the value of the key. It is a plain value, and so is every state
// of the machine that holds one.
type Record struct {
	Phase    Phase
	NeverLed bool // PhaseReleased: its writer has not led since it won the key
	ID       string
	Session  string        // a nonce for every Campaign call
	Counter  uint64        // number of this write in its session
	Lease    time.Duration // how long others must wait from receiving it
	Token    uint64        // of the term; 0 until the term has begun
	Least    uint64        // least token of the term to come; 0 once it has begun
	Since    int64         // server's time of the write that began the term, Unix nanoseconds; 0: not known
	Seats    int           // number of leaders that its writer is set to; 0: one
	Value    string
	Priority int        // of its writer
	Next     Line       // the successors, in this order
	To       string     // PhaseReleased: the named successor, an ID or a session
	Last     PackedLast // PhasePending, and with NeverLed: the last leader before its writer
}

// KnownToken returns the token to remember when its record is gone: the token itself, or
// 0 if it is junk.
func KnownToken(token uint64) uint64 {
	if token > LastToken {
		return 0
	}
	return token
}

// TermToken returns the token of the term that the record belongs to, if the record was
// stored at revision. A term's token is its least token or the revision of the write that
// elected, whichever is greater. For a pending record the result is a lower bound.
func (r Record) TermToken(revision uint64) uint64 {
	switch r.Phase {
	case PhaseElect, PhasePending:
		return max(r.Least, revision)
	case PhaseNone, PhaseLeading, PhaseReleased:
	}
	return r.Token
}

// Names reports whether the record is in favour of that candidate.
func (r *Record) Names(id, session string) bool { return r.To == session || r.To == id }

// Asks returns the token that the record names: the part of TermToken that its writer chose.
func (r Record) Asks() uint64 { return r.TermToken(0) }

// wireRecord is the record as it is stored. Later formats keep Session and
// Lease as they are.
type wireRecord struct {
	Format   int       `json:"v"`
	State    string    `json:"state"`
	ID       string    `json:"id"`
	Session  string    `json:"session"`
	Counter  uint64    `json:"n"`
	Lease    string    `json:"lease"`
	Seats    int       `json:"seats,omitempty"`
	Token    uint64    `json:"token,omitempty"`
	Least    uint64    `json:"least,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	At       time.Time `json:"at,omitzero"`
	Value    string    `json:"value,omitempty"`
	Binary   string    `json:"value64,omitempty"` // a value that is not UTF-8, in base64
	Priority int       `json:"priority,omitempty"`
	Next     []string  `json:"next,omitempty"`
	To       string    `json:"to,omitempty"`
	Last     *wireLast `json:"last,omitempty"` // with PhaseReleased: NeverLed
}

// PhaseNames has the texts of the phases in a stored record.
var PhaseNames = map[Phase]string{
	PhasePending: "pending", PhaseElect: "elected", PhaseLeading: "leading", PhaseReleased: "released",
}

// Encode returns the record as JSON. at is the server's time when it is sent, as its writer reckons it, in Unix
// nanoseconds; 0: not known. It is stored in milliseconds, rounded up. No candidate looks at it.
func (r Record) Encode(at int64) []byte {
	const unit = int64(time.Millisecond)
	at = (at + unit - 1) / unit * unit // not before an event that the server has stamped
	if plain(r.ID) && plain(r.Session) && plain(r.Value) && plain(string(r.Next)) && plain(r.To) && r.Last.Unpack().plain() {
		return r.encodePlain(at)
	}
	w := wireRecord{
		Format: Format, State: PhaseNames[r.Phase], ID: r.ID, Session: r.Session,
		Counter: r.Counter, Lease: r.Lease.String(), Seats: r.Seats, Token: r.Token, Least: r.Least, Priority: r.Priority, Next: r.Next.sessions(), To: r.To,
	}
	if r.Since != 0 {
		w.Since = time.Unix(0, r.Since).UTC()
	}
	if at != 0 {
		w.At = time.Unix(0, at).UTC()
	}
	w.Value, w.Binary = WireValue(r.Value)
	if r.hasLast() {
		w.Last = r.Last.Unpack().wire()
	}
	var b bytes.Buffer
	b.Grow(256)
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // people read it
	if err := enc.Encode(&w); err != nil {
		panic(err) // strings, numbers and a time in range
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Decode decodes a record. A record of a later format decodes as long as it has a
// session and a lease. If its state is not known here, it counts as held. Any other error
// means that the record is foreign.
func Decode(data []byte) (Record, error) {
	if len(data) > maxRecordSize {
		return Record{}, fmt.Errorf("%w: %d bytes", backend.ErrForeignRecord, len(data))
	}
	w, ok := decodePlain(data)
	if !ok {
		var err error
		if w, err = decodeJSON(data); err != nil {
			return Record{}, fmt.Errorf("%w: %w", backend.ErrForeignRecord, err)
		}
	}
	lease, err := time.ParseDuration(w.Lease)
	switch {
	case w.Format < Format:
		return Record{}, fmt.Errorf("%w: format %d", backend.ErrForeignRecord, w.Format)
	case w.Session == "":
		return Record{}, fmt.Errorf("%w: no session", backend.ErrForeignRecord)
	case len(w.Session) > maxSession:
		return Record{}, fmt.Errorf("%w: session of %d bytes", backend.ErrForeignRecord, len(w.Session))
	case len(w.ID) > MaxID && w.Format == Format:
		return Record{}, fmt.Errorf("%w: ID of %d bytes", backend.ErrForeignRecord, len(w.ID))
	case err != nil:
		return Record{}, fmt.Errorf("%w: lease: %w", backend.ErrForeignRecord, err)
	case lease <= 0 || lease > MaxLease:
		return Record{}, fmt.Errorf("%w: lease %v", backend.ErrForeignRecord, lease)
	case w.Token > MaxToken || w.Least > MaxToken:
		return Record{}, fmt.Errorf("%w: token out of range", backend.ErrForeignRecord)
	}
	r := Record{
		ID: w.ID, Session: w.Session, Counter: w.Counter, Lease: lease,
		Token: w.Token, Least: w.Least, Seats: w.Seats, Priority: w.Priority, To: w.To,
	}
	if len(r.To) > MaxID {
		r.To = ""
	}
	if !slices.ContainsFunc(w.Next, unfitForLine) {
		r.Next = LineOf(w.Next)
	}
	r.Since = instantOf(w.Since)
	if r.Value, err = ValueOf(w.Value, w.Binary); err != nil {
		return Record{}, fmt.Errorf("%w: value: %w", backend.ErrForeignRecord, err)
	}
	for p := PhasePending; p <= PhaseReleased; p++ { // without the cost of a range over the map
		if PhaseNames[p] == w.State {
			r.Phase = p
		}
	}
	switch {
	case r.Phase == PhaseNone && w.Format > Format:
		r.Phase = PhaseLeading // the careful reading: the key is held for that lease
	case r.Phase == PhaseNone:
		return Record{}, fmt.Errorf("%w: state %q", backend.ErrForeignRecord, w.State)
	}
	if r.Phase == PhasePending || r.Phase == PhaseReleased {
		r.NeverLed = r.Phase == PhaseReleased && w.Last != nil
		r.Last = w.Last.pack()
	}
	r.cloneTexts()
	return r, nil
}

// WrittenAt returns when a record was sent, by the server's time as its writer reckons it; zero: not known.
func WrittenAt(data []byte) time.Time {
	w, ok := decodePlain(data)
	if !ok {
		w, _ = decodeJSON(data)
	}
	return w.At
}

// decodeJSON decodes any form of a record.
func decodeJSON(data []byte) (wireRecord, error) {
	var w wireRecord
	err := json.Unmarshal(data, &w)
	if err == nil {
		return w, nil
	}
	var head struct {
		Format  int    `json:"v"`
		Session string `json:"session"`
		Lease   string `json:"lease"`
	}
	if json.Unmarshal(data, &head) != nil || head.Format <= Format {
		return wireRecord{}, err
	}
	return wireRecord{Format: head.Format, Session: head.Session, Lease: head.Lease}, nil
}

// cloneTexts puts the strings into one of their own, because decodePlain cuts them out of the
// stored text, which would stay in memory as long as the record.
func (r *Record) cloneTexts() {
	all := strings.Join([]string{r.ID, r.Session, r.Value, string(r.Next), r.To}, "")
	for _, s := range []*string{&r.ID, &r.Session, &r.Value, (*string)(&r.Next), &r.To} {
		n := len(*s)
		*s, all = all[:n], all[n:]
	}
}
