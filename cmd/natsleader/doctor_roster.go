package main

import (
	"context"
	"slices"
	"strings"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// rosterName returns the name of the roster's bucket, also if the roster is yet to be
// made.
func (e *environment) rosterName() string {
	if e.info != nil && e.info.Config.Metadata[wire.RosterKey] != "" {
		return e.info.Config.Metadata[wire.RosterKey]
	}
	return wire.RosterName(e.name)
}

// readRoster reads the settings of the roster, if there ought to be one.
func (e *environment) readRoster(context.Context) {
	e.readSideStream(&e.Roster, e.info.Config.Metadata[wire.RosterKey] != "", "KV_"+e.rosterName())
}

// readHistory reads those of the history, if the bucket was made with one.
func (e *environment) readHistory(context.Context) {
	name := historyStream(e.name)
	e.readSideStream(&e.History, e.info.Config.Metadata[historyKey] == name, name)
}

func (e *environment) readSideStream(slot *facts.Fact[facts.Stream], kept bool, name string) {
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
func (e *environment) rosterProbes() []permissionProbe {
	name := e.rosterName()
	probes := []permissionProbe{
		{facts.ForRoster, e.send("STREAM.INFO.KV_"+name, "")},
		{facts.ForSeeing, e.createNothing(name, "$KV."+name+"."+e.election+".*")},
		{facts.ForTidiness, e.send("CONSUMER.DELETE.KV_"+name+"."+noConsumer, "")},
	}
	if e.as == facts.Operator {
		return probes
	}
	return slices.Insert(probes, 1, permissionProbe{facts.ForAnnouncing, func() error {
		return e.nc.PublishMsg(e.impossible(name, e.election+"."+anySession))
	}})
}

// anySession is a session that no candidate has.
const anySession = "NATSLEADERDOCTOR2222222222"
