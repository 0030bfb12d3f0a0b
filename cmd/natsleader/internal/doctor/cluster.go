package doctor

import (
	"context"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
)

// SettlePause is the time from one look at the replicas to the next.
const SettlePause = 500 * time.Millisecond

// lookAtReplicas looks at the stream again if one of its servers is not current. A leader that
// has just been elected says of a dead server what it says of one that starts.
func (e *Environment) lookAtReplicas(ctx context.Context) (looks facts.Looks) {
	c := e.Info.Cluster
	if c == nil || c.Leader == "" {
		return looks
	}
	looks = facts.NewLooks(c)
	began, end := e.infoAt, time.Now().Add(2*judge.SettleTime)
	for !looks.Settled() && looks.Apart < judge.SettleTime && time.Now().Before(end) {
		select {
		case <-ctx.Done():
			return looks
		case <-time.After(SettlePause):
		}
		asked := time.Now()
		s, err := e.about(e.Info.Config.Name)
		switch {
		case err != nil || s.Info == nil || s.Info.Cluster == nil || s.Info.Cluster.Leader == "":
			return looks
		case s.Info.Cluster.Leader != looks.First.Leader:
			looks, began = facts.NewLooks(s.Info.Cluster), asked
		default:
			looks.Take(s.Info.Cluster, asked.Sub(began))
		}
	}
	return looks
}
