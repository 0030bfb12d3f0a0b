package main

import (
	"cmp"
	"fmt"

	"github.com/natsleader/natsleader/internal/webpage"
)

// runbook is the page to which an election in trouble links.
const runbook = "https://github.com/natsleader/natsleader/blob/main/docs/runbook.md#"

// advise says in a row why its election is in trouble, and what to do. The bucket may be gone.
func (x *watched) advise(row *webpage.Row, gone bool) {
	id := printable(x.now.holder.ID)
	row.Do, row.Link = "start its candidates; if they run, see their logs", runbook+"natsleadernoleader"
	t := trouble(row.Trouble)
	if t == troubleUnknown && x.as.held() {
		row.Since = webpage.Milliseconds(x.now.expires())
	}
	switch {
	case t == troubleUnknown && !x.mayLead.IsZero():
		row.Why = fmt.Sprintf("the bucket is gone, and a leader may lead until %s", formatZoned(x.mayLead))
		row.Do, row.Link = "wait for that, and make the bucket again", runbook+"bucket-deleted"
	case t == troubleUnknown:
		row.Why = "the lease of " + id + " is over by what was read last, and the bucket does not answer"
		row.Do, row.Link = "bring back a majority of the servers, or the server that is cut off", runbook+"natsleadernomajority"
	case t == troubleForeign:
		row.Why = "the key holds something that natsleader did not write"
		row.Do, row.Link = "stop the program that writes to the key; candidates take it one lease after the last write", runbook+"natsleaderfaulted"
	case t == troubleDeleted && gone:
		row.Why = "the bucket is gone, and every lease in it is over"
		row.Do, row.Link = "make the bucket again", runbook+"bucket-deleted"
		return // its owner has no part in that
	case t == troubleDeleted:
		row.Why = "the key was deleted or has expired"
		row.Do = "start its candidates; those that run take the key one lease later"
	case t == troubleExpired:
		row.Why = id + " has not renewed its lease: " + silence
	default:
		row.Do, row.Link = "", ""
	}
	if t == troubleUnknown || row.Do == "" { // its owner has no part in that
		return
	}
	if owner := x.now.note.Owner; owner != "" {
		row.Do += "; its owner is " + printable(owner)
	}
	row.Link = cmp.Or(x.now.note.Runbook, row.Link)
}
