package main

// report is a line that a candidate's process prints. Instants are in Unix ns of the host's clock,
// which all processes share.
type report struct {
	At       int64  `json:"at"`
	State    string `json:"state,omitempty"`
	Token    uint64 `json:"token,omitempty"`
	Left     int64  `json:"left,omitempty"`     // of the lease, or of the time until a pending candidate may lead, in ms
	Patience int64  `json:"patience,omitempty"` // until the candidate takes the lease that it sees for over, in ms

	// From and To are the first and the last instant at which the term was known to be valid; 0: never.
	From int64 `json:"from,omitempty"`
	To   int64 `json:"to,omitempty"`

	Event string `json:"event,omitempty"` // of the candidate or of its worker: see below
	Text  string `json:"text,omitempty"`  // the cause, error or broken rule
}

// The events of a report. Those of the library have its names.
const (
	pending  = "pending"
	elected  = "elected"
	fenced   = "fenced"
	deposed  = "deposed"
	wrote    = "wrote"   // a write was stored, which was sent after From
	refused  = "refused" // the guard refused a write
	violated = "violated"
)
