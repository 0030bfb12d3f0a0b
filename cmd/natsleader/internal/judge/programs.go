package judge

import (
	"fmt"
	"slices"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/shard"
)

// programs names the programs of the members that live, each with its members, or is "" if they are of one program. A member
// of an earlier version does not publish its program, and counts as none.
func programs(view shard.View) string {
	of := make(map[string][]facts.Text)
	var names []string
	for _, m := range view.Members {
		if m.Program == "" || facts.MemberPast(facts.MemberState(m)) {
			continue
		}
		if of[m.Program] == nil {
			names = append(names, m.Program)
		}
		of[m.Program] = append(of[m.Program], facts.Text(m.ID))
	}
	if len(names) < 2 {
		return ""
	}
	slices.Sort(names)
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = fmt.Sprintf("%v (%s)", facts.Text(name), Some(of[name]))
	}
	return Some(texts)
}
