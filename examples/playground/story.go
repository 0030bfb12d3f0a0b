package main

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/link"
)

// story is one sentence or two on what has happened and why it was safe.
type story struct {
	N    int    `json:"n"`  // the first is 1
	At   int64  `json:"at"` // in Unix ms
	Text string `json:"text"`
	Link string `json:"link"` // to the part of docs/protocol.md that says more
}

// protocolPage is where the links of stories lead.
const protocolPage = "https://github.com/natsleader/natsleader/blob/main/docs/protocol.md#"

// The parts of docs/protocol.md to which stories link.
const (
	partAcquire  = "only-an-acknowledged-compare-and-set-decides"
	partSending  = "a-lease-counts-from-the-sending-of-a-write"
	partReceive  = "a-waiting-candidate-counts-from-receiving"
	partDeadline = "deadlines-come-first"
	partUnknown  = "read-before-concluding"
	partPending  = "when-the-winner-may-lead"
	partFenced   = "fenced"
	partWork     = "the-work-ends-before-the-next-term-begins"
	partContext  = "the-context-ends-first"
	partRelease  = "a-release-is-a-record"
	partDeleted  = "a-deleted-key"
	partHint     = "a-feed-is-a-hint"
	partGuards   = "guards"
)

// What a user does to a candidate, to the server or to the key.
const (
	doResign  = "resign"
	doKill    = "kill"
	doStart   = "start"
	doFreeze  = "freeze"
	doThaw    = "thaw"
	doRestore = "restore" // the link
	doRestart = "restart" // the server
	doOutage  = "outage"
	doUp      = "up"
	doDelete  = "delete" // the key
	doLease   = "lease"
)

// narrator tells what happens. It knows who led last, and what was done since.
type narrator struct {
	lease time.Duration

	leader   string // the ID; empty: nobody leads, as far as is known
	last     string // who led last
	over     time.Time
	done     string            // what was done to the last leader, to the server or to the key since its term began
	lifeless bool              // no candidate has led yet
	holder   string            // the pending candidate, which holds the key
	slept    map[string]bool   // the candidates that were frozen since they were elected last
	links    map[string]string // by candidate, the fault of its link
}

func newNarrator(lease time.Duration) *narrator {
	return &narrator{lease: lease, lifeless: true, slept: make(map[string]bool), links: make(map[string]string)}
}

// did tells what a user has done. id is the candidate that it was done to, or empty.
func (n *narrator) did(what, id string) (text, part string) {
	leads := id != "" && id == n.leader
	if leads || id == "" {
		n.done = what
	}
	role := "waits, so only its own place is lost"
	if leads {
		role = "leads"
	}
	switch what {
	case link.Cut, link.Held, link.HeldUp, link.HeldDown, link.Slow:
		n.links[id] = what
	}
	switch what {
	case doResign:
		if !leads {
			return fmt.Sprintf("%s was asked to resign. It does not lead, so it has nothing to hand over.", id), partRelease
		}
		return fmt.Sprintf("%s was asked to resign. It finishes its item, ends its context, and only then releases the key.", id), partContext
	case doKill:
		if leads {
			return fmt.Sprintf("%s was killed and released nothing. The others cannot know whether it is dead or slow, so each waits for the whole lease of %v.", id, n.lease), partReceive
		}
		if id == n.holder {
			return fmt.Sprintf("%s was killed while it held the key and did not lead yet. The others wait for its whole lease of %v.", id, n.lease), partReceive
		}
		return fmt.Sprintf("%s was killed. It did not lead, so nothing changes.", id), partReceive
	case doStart:
		return fmt.Sprintf("%s is a new process. It reads the key, finds it held or free, and waits without asking again.", id), partHint
	case doFreeze:
		n.slept[id] = true
		if leads {
			return fmt.Sprintf("%s is frozen in the middle of its work and cannot renew. Its lease runs out by its own clock, whether it looks or not.", id), partSending
		}
		if id == n.holder {
			return fmt.Sprintf("%s is frozen while it holds the key and does not lead yet. The others wait for its whole lease of %v.", id, n.lease), partReceive
		}
		return fmt.Sprintf("%s is frozen. It waits, so nobody misses it.", id), partReceive
	case doThaw:
		return fmt.Sprintf("%s goes on where it was frozen, and asks the clock before it believes that it leads.", id), partDeadline
	case doRestore:
		was := n.links[id]
		delete(n.links, id)
		switch was {
		case link.Cut:
			return fmt.Sprintf("%s can connect again, and reads the key before it believes anything. A write that it sends again has the revision on which it was made, so it changes nothing if another has written since.", id), partUnknown
		case link.Slow:
			return fmt.Sprintf("The link of %s is fast again. What is under way still arrives late, and changes nothing if another has written since.", id), partAcquire
		}
		return fmt.Sprintf("The link of %s works again, and what was under way arrives late. A late write has the revision on which it was sent, so it changes nothing if another has written since.", id), partAcquire
	case link.Cut:
		return fmt.Sprintf("The link of %s is cut. It %s. It tries to connect again, and nothing that it believes outlives its lease.", id, role), partDeadline
	case link.Held:
		return fmt.Sprintf("The link of %s swallows everything. It %s. Until its client misses replies to its pings, only the clock can tell that something is wrong.", id, role), partDeadline
	case link.HeldUp:
		return fmt.Sprintf("Nothing that %s sends arrives. It %s. A renewal that was not acknowledged extends no lease.", id, role), partSending
	case link.HeldDown:
		return fmt.Sprintf("%s hears nothing, but what it sends arrives. It %s. Its renewals may be stored, and it does not count them, because it cannot know.", id, role), partUnknown
	case link.Slow:
		return fmt.Sprintf("Every packet of %s takes %v each way. It %s. A lease counts from the sending of a renewal, so a slow reply makes it shorter and never longer.", id, link.Slowness, role), partSending
	case doRestart:
		return "The server was restarted on the same store. A leader goes on if it renews in time: the record and its revision have survived.", partUnknown
	case doOutage:
		return "The server is down. A leader cannot renew and ends its own term before its lease is over. No other candidate can take the key either.", partDeadline
	case doUp:
		return "The server is up again on the same store. A candidate that waits for a lease waits for what is left of it, and no longer.", partReceive
	case doDelete:
		return fmt.Sprintf("The key was deleted. A leader finds that its record is gone and ends its term. A deleted key names no lease, so the next waits for %v, the longest that the bucket allows.", longestLease), partDeleted
	case doLease:
		return fmt.Sprintf("All candidates stop and start again with a lease of %v. A leader ends its term first, and releases the key if the server is up.", n.lease), partRelease
	}
	return "", ""
}

// heard tells what a candidate reports. It returns no text if that is not worth a sentence.
func (n *narrator) heard(id string, r report) (text, part string) {
	at := time.Unix(0, r.At)
	switch r.Event {
	case pending:
		n.holder = id
		if n.done == doDelete {
			return fmt.Sprintf("%s has taken the key and does not lead yet: the lease of a leader that it has not seen may be running.", id), partPending
		}
	case elected:
		text, part = n.election(id, r.Token, at)
		n.leader, n.last, n.done, n.lifeless, n.holder = id, id, "", false, ""
		delete(n.slept, id)
		return text, part
	case fenced:
		if n.leader != "" && n.leader != id {
			return fmt.Sprintf("%s finds that its term is over (%s). By its own clock it was over before %s led, and its context had ended by then.", id, r.Text, n.leader), partContext
		}
		n.leader, n.over = "", at
		return fmt.Sprintf("%s has ended its term (%s). It ends before its lease does, so no other leads yet.", id, r.Text), partFenced
	case deposed:
		was := n.leader == id
		if was {
			n.leader, n.over = "", at
		}
		if was && n.done != doResign && n.done != doLease {
			return fmt.Sprintf("%s does not lead any more (%s). Its context has ended, and its work with it.", id, r.Text), partWork
		}
	case refused:
		what := "A late write of %s with token %d has arrived."
		if n.slept[id] {
			what = "%s woke up and wrote with token %d."
		}
		return fmt.Sprintf(what+" The guard stands at a greater token, so the server has refused the write.", id, r.Token), partGuards
	}
	return "", ""
}

// died tells the narrator that a process has ended without a report of the end of its term.
func (n *narrator) died(id string, at time.Time) {
	if n.leader == id {
		n.leader, n.over = "", at
	}
	if n.holder == id {
		n.holder = ""
	}
	delete(n.slept, id)
}

// election tells why the winner may lead.
func (n *narrator) election(id string, token uint64, at time.Time) (text, part string) {
	vacant := "at once"
	if n.leader == "" && !n.over.IsZero() {
		vacant = fmt.Sprintf("%.2f s after the term of %s had ended", max(0, at.Sub(n.over).Seconds()), n.last)
	}
	head := fmt.Sprintf("%s leads with token %d", id, token)
	switch {
	case n.lifeless:
		return head + ". The key was free, and the server let one of five candidates write it: the others were refused.", partAcquire
	case n.leader != "" && n.leader != id && n.done != doResign && n.done != doLease: // the one before has not reported its end: it is frozen or cut off
		return fmt.Sprintf("%s. %s has not said that its term is over. By its own clock the lease has ended, because it counts from the sending of a renewal and %s counted from receiving it.", head, n.leader, id), partReceive
	case n.done == doResign, n.done == doLease:
		return fmt.Sprintf("%s, %s. The context of %s had ended before its release was sent, and its token is less.", head, vacant, n.last), partRelease
	case n.done == doKill:
		return fmt.Sprintf("%s. %s might have been alive, so %s waited for its whole lease from the last renewal that it received.", head, n.last, id), partReceive
	case n.done == doDelete:
		return fmt.Sprintf("%s, %s. By then the longest lease that the bucket allows was over.", head, vacant), partPending
	case id == n.last:
		return fmt.Sprintf("%s, %s. It is a new term with a greater token, so a late write of its last term is still refused.", head, vacant), partFenced
	default:
		return fmt.Sprintf("%s, %s, and not before its lease was over. The tokens rise, so a guard refuses what comes late.", head, vacant), partReceive
	}
}
