// Package leaderasynq lets one of several processes enqueue the periodic tasks of
// github.com/hibiken/asynq. Each Scheduler enqueues every task, so only one may run.
package leaderasynq

import (
	"context"

	"github.com/hibiken/asynq"
)

// Run runs a scheduler until the context of a term ends, and shuts it down:
//
//	for term := range candidate.Terms() {
//		if err := leaderasynq.Run(term.Context(), newScheduler); err != nil {
//			return err
//		}
//	}
//
// The function returns a new scheduler, on which it has registered the tasks, because a scheduler
// cannot be started again. It returns the scheduler not started, with a connection that the
// shutdown may close. Run returns nil when the context has ended and the scheduler enqueues
// nothing more, and otherwise the error of the function or of the start.
//
// A run that is due while no process leads is left out, and "@every" counts from the start of the
// term. A process that was paused for longer than its lease may enqueue a task once more than its
// successor, because the scheduler does not ask the term. Give tasks the option asynq.Unique with
// a time a little shorter than that between two runs. The servers that process the tasks run in
// all processes.
func Run(lead context.Context, newScheduler func() (*asynq.Scheduler, error)) error {
	if lead.Err() != nil {
		return nil
	}
	scheduler, err := newScheduler()
	if err != nil {
		return err
	}
	if err := scheduler.Start(); err != nil {
		return err
	}
	<-lead.Done()
	scheduler.Shutdown()
	return nil
}
