// Package leadercron lets one of several processes run the jobs of a github.com/robfig/cron/v3
// schedule.
//
// It knows no slots: a run that is due while none leads is lost, and one at a change of leaders may come twice. A daily job has
// package schedule, with schedule.Daily, or a line of cron as its calendar: see the example.
package leadercron

import (
	"context"

	"github.com/robfig/cron/v3"

	"github.com/natsleader/natsleader/leader"
)

// WhileLeading returns a wrapper that runs a job if the candidate leads when the run begins, and
// otherwise leaves the run out, also while candidate returns nil. It is called for each run, so the schedule can be
// made before the candidate:
//
//	var candidate atomic.Pointer[leader.Candidate]
//	jobs := cron.New(cron.WithChain(leadercron.WhileLeading(candidate.Load)))
//
// A run is work of the term ([leader.Term.Go]): at an orderly end the candidate keeps the key for it, up to
// Config.GracePeriod, so that no run of the next leader begins beside it. A run that goes on after a loss, or for
// longer, may overlap: such a job writes through a guard.
func WhileLeading(candidate func() *leader.Candidate) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			c := candidate()
			if c == nil {
				return
			}
			term, ok := c.Term()
			ended := make(chan struct{})
			if ok && term.Go(func(context.Context) { <-ended }) {
				defer close(ended)
				job.Run() // on the goroutine of cron, where cron.Recover expects a panic
			}
		})
	}
}
