package leader

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/natsleader/natsleader/internal/wire"
)

const (
	recordFormat = 1
	// maxToken is the greatest token that a record or a guard may have. No candidate writes
	// a greater one, so a record with a greater one is not a candidate's.
	maxToken = 1 << 62
	// maxMinToken is the bound of Config.MinToken. It leaves room for more terms than
	// there will be.
	maxMinToken = 1 << 61
	// lastToken is the greatest token that candidates count up from. No term comes near it,
	// so a greater one is junk. A candidate that followed it would leave a record of its own
	// that no candidate can follow, and deleting the junk would mend nothing.
	lastToken = maxToken - 1<<32
	// maxRecordLease bounds how long a damaged record can make candidates wait.
	maxRecordLease = 366 * 24 * time.Hour
	// maxRecordSize is more than the size of any record of this package: JSON turns one byte
	// into six at most, and the value is much of the record.
	maxRecordSize = 8 * wire.MaxValue
)

// phase is the stage that the writer of a record had reached when it sent the record.
type phase uint8

const (
	phaseNone     phase = iota
	phasePending        // holds the key, must not lead yet
	phaseElect          // this very write elects its writer, once it is acknowledged
	phaseLeading        // a renewal of a term
	phaseReleased       // gave the key up
)

// record is the value of the key. It is a plain value, and so is every state
// of the machine that holds one.
type record struct {
	phase    phase
	id       string
	session  string        // a nonce for every Campaign call
	counter  uint64        // number of this write in its session
	lease    time.Duration // how long others must wait from receiving it
	token    uint64        // of the term; 0 until the term has begun
	least    uint64        // least token of the term to come; 0 once it has begun
	since    int64         // server's time of the write that began the term, Unix nanoseconds; 0: not known
	seats    int           // number of leaders that its writer is set to; 0: one
	value    string
	priority int    // of its writer
	next     line   // the successors, in this order
	to       string // phaseReleased: the named successor, an ID or a session
}

// knownToken returns the token to remember when its record is gone: the token itself, or
// 0 if it is junk.
func knownToken(token uint64) uint64 {
	if token > lastToken {
		return 0
	}
	return token
}

// termToken returns the token of the term that the record belongs to, if the record was
// stored at revision. A term's token is its least token or the revision of the write that
// elected, whichever is greater. For a pending record the result is a lower bound.
func (r record) termToken(revision uint64) uint64 {
	switch r.phase {
	case phaseElect, phasePending:
		return max(r.least, revision)
	case phaseNone, phaseLeading, phaseReleased:
	}
	return r.token
}

// asks returns the token that the record names: the part of termToken that its writer chose.
func (r record) asks() uint64 { return r.termToken(0) }

// wireRecord is the record as it is stored. Later formats keep Session and
// Lease as they are.
type wireRecord struct {
	Format   int        `json:"v"`
	State    string     `json:"state"`
	ID       string     `json:"id"`
	Session  string     `json:"session"`
	Counter  uint64     `json:"n"`
	Lease    string     `json:"lease"`
	Seats    int        `json:"seats,omitempty"`
	Token    uint64     `json:"token,omitempty"`
	Least    uint64     `json:"least,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	Value    string     `json:"value,omitempty"`
	Binary   string     `json:"value64,omitempty"` // a value that is not UTF-8, in base64
	Priority int        `json:"priority,omitempty"`
	Next     []string   `json:"next,omitempty"`
	To       string     `json:"to,omitempty"`
}

var phaseNames = map[phase]string{
	phasePending: "pending", phaseElect: "elected", phaseLeading: "leading", phaseReleased: "released",
}

// encode returns the record as JSON.
func (r record) encode() []byte {
	if plain(r.id) && plain(r.session) && plain(r.value) && plain(string(r.next)) && plain(r.to) {
		return r.encodePlain()
	}
	w := wireRecord{
		Format: recordFormat, State: phaseNames[r.phase], ID: r.id, Session: r.session,
		Counter: r.counter, Lease: r.lease.String(), Seats: r.seats, Token: r.token, Least: r.least, Priority: r.priority, Next: r.next.sessions(), To: r.to,
	}
	if r.since != 0 {
		since := time.Unix(0, r.since).UTC()
		w.Since = &since
	}
	if utf8.ValidString(r.value) {
		w.Value = r.value
	} else {
		w.Binary = base64.StdEncoding.EncodeToString([]byte(r.value))
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

// encodePlain returns what encode returns, for strings that need no escaping. It spares
// every renewal the cost of encoding/json.
func (r record) encodePlain() []byte {
	b := make([]byte, 0, 320+len(r.id)+len(r.session)+len(r.value)+len(r.next)+2*maxLine+len(r.to))
	text := func(name, value string) { b = append(append(append(append(b, name...), '"'), value...), '"') }
	number := func(name string, n uint64) { b = strconv.AppendUint(append(b, name...), n, 10) }
	number(`{"v":`, recordFormat)
	text(`,"state":`, phaseNames[r.phase])
	text(`,"id":`, r.id)
	text(`,"session":`, r.session)
	number(`,"n":`, r.counter)
	text(`,"lease":`, r.lease.String())
	if r.seats != 0 {
		b = strconv.AppendInt(append(b, `,"seats":`...), int64(r.seats), 10)
	}
	if r.token != 0 {
		number(`,"token":`, r.token)
	}
	if r.least != 0 {
		number(`,"least":`, r.least)
	}
	if r.since != 0 {
		b = append(time.Unix(0, r.since).UTC().AppendFormat(append(b, `,"since":"`...), time.RFC3339Nano), '"')
	}
	if r.value != "" {
		text(`,"value":`, r.value)
	}
	if r.priority != 0 {
		b = strconv.AppendInt(append(b, `,"priority":`...), int64(r.priority), 10)
	}
	if r.next != "" {
		b = append(append(b, `,"next":["`...), strings.ReplaceAll(string(r.next), " ", `","`)...)
		b = append(b, `"]`...)
	}
	if r.to != "" {
		text(`,"to":`, r.to)
	}
	return append(b, '}')
}

// plain reports whether JSON shows the string as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// decodeRecord decodes a record. A record of a later format decodes as long as it has a
// session and a lease. If its state is not known here, it counts as held. Any other error
// means that the record is foreign.
func decodeRecord(data []byte) (record, error) {
	if len(data) > maxRecordSize {
		return record{}, fmt.Errorf("%w: %d bytes", ErrForeignRecord, len(data))
	}
	var w wireRecord
	if err := json.Unmarshal(data, &w); err != nil {
		var head struct {
			Format  int    `json:"v"`
			Session string `json:"session"`
			Lease   string `json:"lease"`
		}
		if json.Unmarshal(data, &head) != nil || head.Format <= recordFormat {
			return record{}, fmt.Errorf("%w: %w", ErrForeignRecord, err)
		}
		w = wireRecord{Format: head.Format, Session: head.Session, Lease: head.Lease}
	}
	lease, err := time.ParseDuration(w.Lease)
	switch {
	case w.Format < recordFormat:
		return record{}, fmt.Errorf("%w: format %d", ErrForeignRecord, w.Format)
	case w.Session == "":
		return record{}, fmt.Errorf("%w: no session", ErrForeignRecord)
	case len(w.Session) > maxSession:
		return record{}, fmt.Errorf("%w: session of %d bytes", ErrForeignRecord, len(w.Session))
	case len(w.ID) > maxIDLength && w.Format == recordFormat:
		return record{}, fmt.Errorf("%w: ID of %d bytes", ErrForeignRecord, len(w.ID))
	case err != nil:
		return record{}, fmt.Errorf("%w: lease: %w", ErrForeignRecord, err)
	case lease <= 0 || lease > maxRecordLease:
		return record{}, fmt.Errorf("%w: lease %v", ErrForeignRecord, lease)
	case w.Token > maxToken || w.Least > maxToken:
		return record{}, fmt.Errorf("%w: token out of range", ErrForeignRecord)
	}
	r := record{
		id: w.ID, session: w.Session, counter: w.Counter, lease: lease,
		token: w.Token, least: w.Least, seats: w.Seats, value: w.Value, priority: w.Priority, to: w.To,
	}
	if len(r.to) > maxIDLength {
		r.to = ""
	}
	if !slices.ContainsFunc(w.Next, unfitForLine) {
		r.next = lineOf(w.Next)
	}
	if w.Since != nil {
		r.since = w.Since.UnixNano()
		if !time.Unix(0, r.since).Equal(*w.Since) { // a year that does not fit
			r.since = 0
		}
	}
	if w.Binary != "" {
		b, err := base64.StdEncoding.DecodeString(w.Binary)
		if err != nil {
			return record{}, fmt.Errorf("%w: value: %w", ErrForeignRecord, err)
		}
		r.value = string(b)
	}
	for p, name := range phaseNames {
		if name == w.State {
			r.phase = p
		}
	}
	switch {
	case r.phase == phaseNone && w.Format > recordFormat:
		r.phase = phaseLeading // the careful reading: the key is held for that lease
	case r.phase == phaseNone:
		return record{}, fmt.Errorf("%w: state %q", ErrForeignRecord, w.State)
	}
	return r, nil
}
