package doctor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
)

// ReadClock asks the host about its clock.
func (e *Environment) ReadClock(context.Context) {
	synced, err := e.HostSync()
	c := facts.Clock{Synced: synced}
	if err != nil {
		c.Silent = front.ErrorText(err)
	}
	e.Clock.Set(c, e.from())
}

// LeastPace and mostPace are for how long the rates of clocks are compared, at least and at most.
const LeastPace, mostPace = 100 * time.Millisecond, 2 * time.Second

// readPace asks the server for its time again.
func (e *Environment) readPace(context.Context) {
	first, _ := e.Stream.Get()
	time.Sleep(min(mostPace, max(LeastPace, 20*first.Took)) - time.Since(e.infoAt))
	again, err := e.aboutBucket()
	if err == nil && again.Refusal != nil {
		err = errors.New(again.Refusal.Text)
	}
	switch {
	case err != nil:
		e.lose(&e.Pace, err)
	case again.Info.TimeStamp.IsZero() || e.Info.TimeStamp.IsZero() || inspect.StreamLeader(again.Info) != inspect.StreamLeader(e.Info):
		e.lose(&e.Pace, errors.New("the server does not tell its time, or another one leads the stream now"))
	default:
		e.Pace.Set(facts.Pace{Server: again.Info.TimeStamp.Sub(e.Info.TimeStamp), Host: again.At.Sub(e.infoAt), Uncertain: (first.Took + again.Took) / 2}, e.from())
	}
}

// readClient takes the options of the connection.
func (e *Environment) readClient(context.Context) {
	e.Client.Set(facts.Client{Ping: e.Nc.Opts.PingInterval, Flush: e.Nc.Opts.FlusherTimeout}, e.from())
}

// Answers are measured until there are manyTrips, or for longTrips if there are
// someTrips.
const (
	manyTrips, someTrips = 15, 3
	longTrips            = time.Second
)

// readPings measures how long answers take, of the server and of the leader of the stream.
func (e *Environment) readPings(context.Context) {
	pings, err := e.times(e.Nc.RTT)
	if err != nil {
		e.lose(&e.Pings, err)
		return
	}
	e.Pings.Set(pings, e.from())
	if !e.Fit { // no stream answers writes
		return
	}
	_, err = e.Ask(e.Impossible(e.Name, e.Election))
	var answers []time.Duration
	if err == nil {
		answers, err = e.times(func() (time.Duration, error) {
			began := time.Now()
			_, late := e.Nc.RequestMsg(e.Impossible(e.Name, e.Election), e.Wait)
			return time.Since(began), late
		})
	}
	if err != nil {
		e.lose(&e.Answers, err)
		return
	}
	e.Answers.Set(answers, e.from())
}

// times measures something several times, and sorts the results.
func (e *Environment) times(measure func() (time.Duration, error)) ([]time.Duration, error) {
	var took []time.Duration
	for began := time.Now(); len(took) < manyTrips && (len(took) < someTrips || time.Since(began) < longTrips); {
		d, err := measure()
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	return took, nil
}
