package page

import (
	"cmp"
	"fmt"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	"github.com/natsleader/natsleader/internal/webpage"
)

// runbook is the page to which an election in trouble links.
const runbook = "https://github.com/natsleader/natsleader/blob/main/docs/runbook.md#"

// advise says in a row why its election is in trouble, and what to do. The bucket may be gone.
func advise(x *view.Watched, row *webpage.Row, gone bool) {
	id := front.Printable(x.Now.Holder.ID)
	row.Do, row.Link = "start its candidates; if they run, see their logs", runbook+"natsleadernoleader"
	t := view.Trouble(row.Trouble)
	if t == view.TroubleUnknown && x.As.Held() {
		row.Since = webpage.Milliseconds(x.Now.Expires())
	}
	switch {
	case t == view.TroubleUnknown && !x.MayLead.IsZero():
		row.Why = fmt.Sprintf("the bucket is gone, and a leader may lead until %s", front.FormatZoned(x.MayLead))
		row.Do, row.Link = "wait for that, and make the bucket again", runbook+"bucket-deleted"
	case t == view.TroubleUnknown:
		row.Why = "the lease of " + id + " is over by what was read last, and the bucket does not answer"
		row.Do, row.Link = "bring back a majority of the servers, or the server that is cut off", runbook+"natsleadernomajority"
	case t == view.TroubleForeign:
		row.Why = "the key holds something that natsleader did not write"
		row.Do, row.Link = "stop the program that writes to the key; candidates take it one lease after the last write", runbook+"natsleaderfaulted"
	case t == view.TroubleDeleted && gone:
		row.Why = "the bucket is gone, and every lease in it is over"
		row.Do, row.Link = "make the bucket again", runbook+"bucket-deleted"
		return // its owner has no part in that
	case t == view.TroubleDeleted:
		row.Why = "the key was deleted or has expired"
		row.Do = "start its candidates; those that run take the key one lease later"
	case t == view.TroubleExpired:
		row.Why = id + " has not renewed its lease: " + view.Silence
	default:
		row.Do, row.Link = "", ""
	}
	if t == view.TroubleUnknown || row.Do == "" { // its owner has no part in that
		return
	}
	if owner := x.Now.Note.Owner; owner != "" {
		row.Do += "; its owner is " + front.Printable(owner)
	}
	row.Link = cmp.Or(x.Now.Note.Runbook, row.Link)
}
