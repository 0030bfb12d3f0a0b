package webpage

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Past is who led an election, or what has changed in all.
type Past struct {
	Kept  bool     `json:"kept"`            // there is a history that can be read
	Spans any      `json:"spans"`           // as natsleader history --json prints them; of all elections the lines, the oldest first
	Lines any      `json:"lines,omitempty"` // of one election, what has changed, the oldest first
	Notes []string `json:"notes"`           // about what is not certain; or why none is kept, if that is not so
	// Unworked are the elections for which nobody worked since Asked.Since, or of which more is not known than of all. Unknown
	// is for how much of the time since then an election is not known, at most, in ms, and Blind that it grows. Before From
	// nothing is known.
	Unworked []Unworked `json:"unworked,omitempty"`
	Unknown  int64      `json:"unknown,omitempty"`
	Blind    bool       `json:"blind,omitempty"`
	From     time.Time  `json:"from,omitzero"`
}

// Unworked is for how long nobody worked for an election, or for some, together.
type Unworked struct {
	Election string `json:"election,omitempty"`
	Others   int    `json:"others,omitempty"` // elections for which there is no room
	Least    int64  `json:"least"`            // in ms
	Most     int64  `json:"most"`
	Unknown  int64  `json:"unknown,omitempty"` // for how long it is not known, of the others at most
	Goes     int    `json:"goes,omitempty"`    // in how many of them it goes on
	Blind    bool   `json:"blind,omitempty"`   // the time that is not known goes on
}

// Asked is what a page asks of the past.
type Asked struct {
	Election string // empty: all
	Last     time.Duration
	Since    time.Time // of all elections also for how long nobody worked since then
}

// mostReads is how many reads of the past go on at once, and mostRead how long one may take.
const (
	mostReads = 4
	mostRead  = 20 * time.Second
)

// servePast sends who led an election in the last hours, or what has changed in all.
func (p *Page) servePast(w http.ResponseWriter, r *http.Request) {
	const week = 7 * 24
	hours, err := strconv.Atoi(r.FormValue("hours"))
	if err != nil || hours < 1 || hours > week {
		http.Error(w, "hours is a number from 1 to 168", http.StatusBadRequest)
		return
	}
	asked := Asked{Election: r.FormValue("election"), Last: time.Duration(hours) * time.Hour}
	if since := r.FormValue("since"); since != "" {
		ms, unfit := strconv.ParseInt(since, 10, 64)
		if unfit != nil {
			http.Error(w, "since is a number of milliseconds", http.StatusBadRequest)
			return
		}
		asked.Since = time.UnixMilli(ms)
	}
	ctx, stop := context.WithTimeout(r.Context(), mostRead)
	defer stop()
	var past Past
	select {
	case p.reads <- struct{}{}:
		past, err = p.Past(ctx, asked)
		<-p.reads
	case <-ctx.Done():
		err = errors.New("other pages are reading it")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	data, _ := inJSON(past) // it has only texts, numbers and times
	to := p.memory.open(w, perPage+len(data))
	if to == nil {
		return
	}
	defer to.close()
	w.Header().Set("Content-Type", "application/json")
	_, _ = to.Write(data)
}
