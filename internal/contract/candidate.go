package contract

import "time"

// Kind is the kind of an [Event]. 0 is anything else that comes from the candidate.
type Kind uint8

// The events that a candidate offers to its application.
const (
	Pending  Kind = iota + 1 // Token, Seat, Until, At
	Elected                  // Token, Seat, At
	Fenced                   // Token, Cause, Context, Left
	Deposed                  // Token, Cause, Context, Left
	Observed                 // Seat, and Token of the leader that it names; 0: it names none
	Faulted
)

// What else is seen of a candidate.
const (
	Cancelled Kind = iota + 101 // the context of the open term has ended with Cause
	Over                        // the term with Token was found not to be valid
	Leads                       // the term with Token was found to be valid
	Stopped                     // the application asked the candidate to stop
	Ended                       // nothing will follow
)

// String returns the name of the event.
func (k Kind) String() string {
	return map[Kind]string{
		Pending: "Pending", Elected: "Elected", Fenced: "Fenced", Deposed: "Deposed", Observed: "Observed", Faulted: "Faulted",
		Cancelled: "the end of a context", Over: "the end of a term", Leads: "a claim to lead", Stopped: "a call of Stop", Ended: "the end",
	}[k]
}

// Event is what happened to a candidate, as far as the caller knows it.
type Event struct {
	Kind  Kind
	Who   string // the candidate, for the text of a violation
	Seat  int    // of Pending, Elected and Observed; 0: the election has no seats
	Token uint64 // of the term; 0 in all events: not known
	// Until is that of a Pending. At is by the same clock: exactly when Pending was offered,
	// and when Elected was offered or seen. Zero: not known.
	At, Until time.Time
	Cause     error
	// Context is the cause with which the term's context had ended when Fenced or Deposed
	// was seen. nil: it was alive, or the caller reports its end as Cancelled.
	Context error
	Left    time.Duration // until the lease ended, when Fenced or Deposed was seen
}

// Candidate checks the events of one candidate. Its zero value is a candidate that has
// just begun. It is comparable: two candidates that are equal accept the same events.
type Candidate struct {
	pending, open, fenced, over, cancelled, stopped, ended bool

	token    uint64 // of the open term
	least    uint64 // of the last Pending
	seat     int    // of the last Elected or Observed
	observed uint64 // the greatest token that it has named on that seat
	until    time.Time
	cause    error // with which the context ended
}

// Open reports whether a term is open: Elected was seen, and Deposed was not.
func (c *Candidate) Open() bool { return c.open }

// Alive reports whether the context of the open term is alive.
func (c *Candidate) Alive() bool { return c.open && !c.cancelled }

// Stopped reports whether the candidate was asked to stop.
func (c *Candidate) Stopped() bool { return c.stopped }

// Next takes the next event, and returns the rule that it breaks, or nil.
func (c *Candidate) Next(e Event) *Violation {
	if c.ended {
		return broken(NothingAfterEnd, "%s goes on with %s (token %d)", e.Who, e.Kind, e.Token)
	}
	switch e.Kind {
	case Pending:
		c.pending, c.least, c.until = true, e.Token, e.Until
		if c.open {
			return broken(OneTerm, "%s is pending within its term with token %d", e.Who, c.token)
		}
		if e.Until.Before(e.At) {
			return broken(UntilAhead, "%s is pending until %v before now, with token %d", e.Who, e.At.Sub(e.Until), e.Token)
		}
		if e.Seat == c.seat && e.Token != 0 && e.Token < c.observed { // tokens of two seats are not compared
			return broken(PendingRises, "%s is pending with token %d after it knew of %d", e.Who, e.Token, c.observed)
		}
	case Elected:
		return c.elect(e)
	case Cancelled:
		alive := c.Alive()
		c.cancelled, c.cause = true, e.Cause
		if !alive {
			return broken(OwnTerm, "%s ends a context that is not alive (%v)", e.Who, e.Cause)
		}
	case Over:
		c.over = c.over || e.Token == c.token
	case Leads:
		switch {
		case !c.open || e.Token != c.token:
			return broken(OwnTerm, "%s claims token %d, which is not its term", e.Who, e.Token)
		case c.over || c.cancelled:
			return broken(OverStaysOver, "%s: token %d was over and is good again", e.Who, e.Token)
		}
	case Fenced:
		twice := c.open && c.fenced && e.Token == c.token
		c.fenced = true
		if v := c.lose(e); v != nil || !twice {
			return v
		}
		return broken(FencedOnce, "%s with token %d", e.Who, e.Token)
	case Deposed:
		v := c.lose(e)
		if c.open && e.Token == c.token {
			c.end()
		}
		return v
	case Observed:
		observed := c.knows(e)
		if e.Token != 0 && e.Token < observed {
			return broken(ObservedRises, "%s names a leader with token %d after one with %d", e.Who, e.Token, observed)
		}
	case Stopped:
		c.stopped = true
	case Ended:
		c.ended = true
		if c.open {
			return broken(DeposedOnce, "%s ended without having lost token %d", e.Who, c.token)
		}
	case Faulted:
	}
	return nil
}

// knows returns the greatest token that the candidate has named on the seat of an event,
// and then counts that of the event.
func (c *Candidate) knows(e Event) uint64 {
	if c.seat != e.Seat { // tokens of two seats are not compared
		c.seat, c.observed = e.Seat, 0
	}
	observed := c.observed
	c.observed = max(c.observed, e.Token)
	return observed
}

func (c *Candidate) elect(e Event) (v *Violation) {
	observed := c.knows(e)
	switch {
	case c.open:
		v = broken(OneTerm, "%s was elected with token %d before it lost %d", e.Who, e.Token, c.token)
	case !c.pending:
		v = broken(PendingFirst, "%s was elected with token %d", e.Who, e.Token)
	case c.stopped:
		v = broken(NotAfterStop, "%s was elected with token %d", e.Who, e.Token)
	case e.Token < c.least:
		v = broken(PendingToken, "%s was elected with token %d, and Pending said %d", e.Who, e.Token, c.least)
	case !e.At.IsZero() && e.At.Before(c.until):
		v = broken(NotBeforeUntil, "%s was elected with token %d %v before it", e.Who, e.Token, c.until.Sub(e.At))
	case e.Token != 0 && e.Token <= observed:
		v = broken(TokensRise, "%s was elected with token %d after it knew of %d", e.Who, e.Token, observed)
	}
	c.end()
	c.open, c.token = true, e.Token
	return v
}

// end forgets the open term and the last Pending.
func (c *Candidate) end() {
	*c = Candidate{stopped: c.stopped, seat: c.seat, observed: c.observed}
}

// lose checks what Fenced and Deposed have in common.
func (c *Candidate) lose(e Event) *Violation {
	if !c.open || e.Token != c.token {
		return broken(OwnTerm, "%s offers %s for token %d, which is not its term", e.Who, e.Kind, e.Token)
	}
	with := e.Context
	if c.cancelled {
		with = c.cause
	}
	c.cancelled, c.cause = true, with
	switch {
	case with == nil:
		return broken(ContextFirst, "%s offers %s for token %d, and the context is alive", e.Who, e.Kind, e.Token)
	case e.Cause != with || e.Context != nil && e.Context != with: //nolint:errorlint // the same, not a like one
		return broken(SameCause, "%s offers %s for token %d with %v, and the context ended with %v (%v)", e.Who, e.Kind, e.Token, e.Cause, with, e.Context)
	case e.Left > 0:
		return broken(OverStaysOver, "%s offers %s for token %d, and %v of the lease remain", e.Who, e.Kind, e.Token, e.Left)
	}
	return nil
}
