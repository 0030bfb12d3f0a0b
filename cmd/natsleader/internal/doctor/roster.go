package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// rosterName returns the name of the roster's bucket, also if the roster is yet to be
// made.
func (e *Environment) rosterName() string {
	if e.Info != nil && e.Info.Config.Metadata[wire.RosterKey] != "" {
		return e.Info.Config.Metadata[wire.RosterKey]
	}
	return wire.RosterName(e.Name)
}

// ReadRoster reads the settings of the roster. Candidates use one that the bucket does not name, so it is looked for.
func (e *Environment) ReadRoster(context.Context) {
	name, kept := "KV_"+e.rosterName(), e.Info.Config.Metadata[wire.RosterKey] != ""
	if !kept {
		s, err := e.about(name)
		kept = err == nil && s.Info != nil
	}
	e.readSideStream(&e.Roster, kept, name)
}

// ReadHistory reads those of the history, if the bucket was made with one.
func (e *Environment) ReadHistory(context.Context) {
	name := facts.HistoryStream(e.Name)
	e.readSideStream(&e.History, e.Info.Config.Metadata[facts.HistoryKey] == name, name)
}

func (e *Environment) readSideStream(slot *facts.Fact[facts.Stream], kept bool, name string) {
	if !kept {
		slot.Set(facts.Stream{}, e.from())
		return
	}
	s, err := e.about(name)
	if err != nil {
		e.lose(slot, err)
		return
	}
	slot.Set(s, e.from())
	if s.Info != nil && s.Info.Cluster != nil && s.Info.Cluster.Name != "" { // a member of a stream without a leader answers, too
		if none := jsapi.Majority(s.Info); none != nil {
			slot.Lose(facts.NoMajority, strings.TrimPrefix(none.Error(), leader.ErrUnreachable.Error()+": "), e.from())
		}
	}
}

// rosterProbes are the permissions of a candidate, or of an operator, with a roster. Nothing is stored,
// and no consumer is made.
func (e *Environment) rosterProbes() []permissionProbe {
	name := e.rosterName()
	probes := []permissionProbe{
		{facts.ForRoster, e.Send("STREAM.INFO.KV_"+name, "")},
		{facts.ForSeeing, e.CreateNothing(name, "$KV."+name+"."+e.Election+".*")},
		{facts.ForTidiness, e.Send("CONSUMER.DELETE.KV_"+name+"."+inspect.NoConsumer, "")},
	}
	if e.As == facts.Operator {
		return probes
	}
	return slices.Insert(probes, 1, permissionProbe{facts.ForAnnouncing, func() error {
		return e.Nc.PublishMsg(e.Impossible(name, e.Election+"."+AnySession))
	}})
}

// AnySession is a session that no candidate has.
const AnySession = "NATSLEADERDOCTOR2222222222"
