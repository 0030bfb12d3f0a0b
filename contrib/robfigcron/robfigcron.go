// Package leadercron lets one of several processes run the jobs of a github.com/robfig/cron/v3
// schedule.
//
// A slot that no process leads at is left out. For a job whose slots must not be lost, use a line of
// cron as the calendar of package schedule: see the example.
package leadercron

import (
	"github.com/robfig/cron/v3"

	"github.com/natsleader/natsleader/leader"
)

// WhileLeading returns a wrapper that runs a job if the candidate leads when the run begins, and
// otherwise leaves the run out:
//
//	schedule := cron.New(cron.WithChain(leadercron.WhileLeading(candidate)))
//
// A run that goes on after the leadership has ended may overlap with a run of the next leader. A
// job that may take longer than Config.GracePeriod asks [leader.Err] before each effect, or
// writes through a guard.
func WhileLeading(c *leader.Candidate) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			if c.IsLeader() {
				job.Run()
			}
		})
	}
}
