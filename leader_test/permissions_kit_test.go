package leader_test

import (
	"github.com/nats-io/nats-server/v2/server"

	"github.com/natsleader/natsleader/internal/wire"
)

// permUser is a user of the test's server with all its permissions.
type permUser struct {
	name     string
	pub, sub []string
}

// permList returns the permissions in docs/permissions.md for a candidate in the
// election of the bucket E, with its inboxes.
func permList(name, election string, watch bool) permUser {
	u := permUser{
		name: name,
		pub: []string{
			"$JS.API.STREAM.INFO.KV_E",
			"$JS.API.DIRECT.GET.KV_E.$KV.E." + election,
			"$KV.E." + election,
			"$JS.API.DIRECT.GET.KV_E.$KV.E." + wire.CordonKey,
		},
		sub: []string{"_INBOX_" + name + ".>", "natsleader.ask.E." + election},
	}
	if watch {
		u.pub = append(u.pub, "$JS.API.CONSUMER.CREATE.KV_E.*.$KV.E."+election, "$JS.API.CONSUMER.CREATE.KV_E.*.$KV.E."+wire.CordonKey, "$JS.API.CONSUMER.DELETE.KV_E.*")
	} else {
		u.sub = append(u.sub, "natsleader.feed.E."+election, "natsleader.feed.E."+wire.CordonKey)
	}
	return u
}

func permOnly(subjects []string) *server.SubjectPermission {
	if len(subjects) == 0 {
		return &server.SubjectPermission{Deny: []string{">"}}
	}
	return &server.SubjectPermission{Allow: subjects}
}
