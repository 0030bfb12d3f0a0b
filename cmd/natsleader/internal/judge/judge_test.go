package judge_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

var (
	now  = time.Date(2026, time.November, 28, 12, 0, 0, 0, time.UTC)
	from = facts.Source{Server: "n2", At: now}
)

func known[T any](v T) facts.Fact[T] { return facts.Known(v, from) }

// stream is what the leader n2 answers about a stream on three servers.
func stream(c jetstream.StreamConfig, others ...jetstream.PeerInfo) facts.Fact[facts.Stream] {
	c.Replicas = 3
	if others == nil {
		others = []jetstream.PeerInfo{{Current: true, Active: time.Second}, {Current: true, Active: time.Second}}
	}
	cluster := &jetstream.ClusterInfo{Name: "C", Leader: "n2"}
	for i := range others {
		others[i].Name = []string{"n1", "n3"}[i]
		cluster.Replicas = append(cluster.Replicas, &others[i])
	}
	return known(facts.Stream{Info: &jetstream.StreamInfo{Config: c, Cluster: cluster, TimeStamp: now}, At: now, Took: time.Millisecond, Looks: facts.NewLooks(cluster)})
}

func elections() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "KV_elections", Subjects: []string{"$KV.elections.>"}, MaxMsgsPerSubject: 1, AllowDirect: true, DenyDelete: true, DenyPurge: true,
		Discard:   jetstream.DiscardNew,
		RePublish: &jetstream.RePublish{Source: "$KV.elections.>", Destination: "natsleader.feed.elections.>"},
		Metadata:  map[string]string{"natsleader.max_lease": "15s", "natsleader.roster": "elections_roster", facts.HistoryKey: "natsleader_history_elections"},
	}
}

// led is an election whose leader renewed its lease of 15 s so long ago.
func led(name string, ago time.Duration) facts.Election {
	return facts.Election{
		Name: facts.Text(name), Revision: 7, Created: now.Add(-ago),
		Value: `{"v":1,"state":"leading","id":"web-1","session":"s","n":1,"lease":"15s","token":1}`,
	}
}

// orders is a group of two shards, with members in some states. s1 owns the shards that have an owner.
func orders(owned int, members ...shard.Peer) ([]facts.Election, facts.Fact[[]facts.Group]) {
	layout := group.Layout{Shards: 2, PageSize: 2}
	registry := group.Registry{Layout: layout, Base: 1}
	v := shard.View{Owners: make([]shard.Owner, 2), Assigner: leader.Holder{State: leader.HolderLeading, ID: "s1", Lease: time.Hour, Renewed: now}}
	for i := range owned {
		v.Owners[i] = shard.Owner{State: shard.OwnerWorks, ID: "s1"}
	}
	value, err := layout.EncodeMember(group.Published{Reports: make([]group.Report, 1), Weight: 1})
	if err != nil {
		panic(err)
	}
	for _, m := range members {
		m.Holder.Value = value
		v.Members = append(v.Members, m)
	}
	keys := []facts.Election{
		{Name: facts.Text(group.RegistryKey("orders")), Revision: 5, Created: now, Value: facts.Text(registry.Encode())},
		{Name: facts.Text(group.PageKey("orders", 0)), Revision: 6, Created: now, Value: facts.Text(layout.EncodePage(0, 1, make([]group.Grant, 2)))},
	}
	return keys, known([]facts.Group{{Name: "orders", View: known(v)}})
}

// member is a member whose term goes on, or is over.
func member(id string, lives, drained bool) shard.Peer {
	p := shard.Peer{ID: id, Drained: drained, Weight: 1, Holder: leader.Holder{State: leader.HolderExpired, ID: id}}
	if lives {
		p.Holder.State = leader.HolderLeading
	}
	return p
}

// of returns the member as one of a program.
func of(program string, m shard.Peer) shard.Peer {
	m.Program = program
	return m
}

// well is a bucket that is well, with all that one can have.
func well() facts.Bucket {
	keys, groups := orders(2, member("s1", true, false))
	tried := func(what string) facts.Right { return facts.Right{For: what, Tried: known("")} }
	return facts.Bucket{
		Asked: facts.Asked{Bucket: "elections", API: jetstream.DefaultAPIPrefix, Wait: 5 * time.Second, Election: "billing", Named: true, Role: facts.Candidate, Roster: true},
		Server: known(facts.Server{Name: "n2", Version: "2.12.0", Account: "APP", Others: []facts.Version{
			{Name: "n1", Version: "2.12.0", Answered: true}, {Name: "n2", Version: "2.12.0", Answered: true}, {Name: "n3", Version: "2.12.0", Answered: true},
		}}),
		Addresses: known(facts.Addresses{Tried: []facts.Address{{URL: "nats://n1:4222"}}}),
		Stream:    stream(elections()),
		Settings:  known(facts.Settings{MaxLease: 15 * time.Second, MaxValue: 1 << 20, FeedSubject: "natsleader.feed.elections", Domain: "hub"}),
		Domains:   known(facts.Domains{Others: []facts.Domain{{Name: "leaf", Has: known(false)}}}),
		Sync:      known([]facts.Sync{{Server: "n1"}, {Server: "n2"}, {Server: "n3"}}),
		Account:   known(facts.Account{Store: 1, MaxStore: 100}),
		Store:     known(facts.Store{Size: 1024, Took: time.Millisecond}),
		Rights:    known([]facts.Right{tried(facts.ForLease), tried(facts.ForFeed), tried(facts.ForTidiness)}),
		Write:     known(facts.Write{Refusal: &facts.Refusal{Code: 10071}}),
		Feed:      known(false),
		Requests:  known(false),
		Border:    known(facts.Border{May: []facts.Text{"billing"}}),
		Clock:     known(facts.Clock{Synced: true}),
		Pings:     known([]time.Duration{time.Millisecond}),
		Answers:   known([]time.Duration{time.Millisecond}),
		Client:    known(facts.Client{Ping: time.Second, Flush: 2 * time.Second}),
		Roster: stream(jetstream.StreamConfig{
			Name: "KV_elections_roster", Subjects: []string{"$KV.elections_roster.>"}, MaxMsgsPerSubject: 1, AllowMsgTTL: true, MaxAge: time.Hour, SubjectDeleteMarkerTTL: time.Hour,
			Metadata: map[string]string{"natsleader.roster_of": "elections"},
		}),
		History:   stream(jetstream.StreamConfig{Name: "natsleader_history_elections", MaxMsgsPerSubject: -1, MaxAge: time.Hour}),
		Elections: known(append([]facts.Election{led("billing", time.Second)}, keys...)),
		Cordon:    known(facts.Cordon{}),
		Groups:    groups,
		Pace:      known(facts.Pace{Server: time.Second, Host: time.Second}),
	}
}

// lost makes a fact unknown.
func lost(slot facts.Slot, why facts.Why, text string) { slot.Lose(why, text, from) }

// situation is what an operator may meet.
type situation struct {
	name   string
	change func(*facts.Bucket)
	code   int
	says   []string // that the findings have
	not    []string // that no finding has
}

func situations() []situation {
	shards := func(owned int, members ...shard.Peer) func(*facts.Bucket) {
		return func(b *facts.Bucket) {
			keys, groups := orders(owned, members...)
			b.Elections, b.Groups = known(append([]facts.Election{led("billing", time.Second)}, keys...)), groups
		}
	}
	alone := func(renewed time.Duration) func(*facts.Bucket) {
		return func(b *facts.Bucket) {
			b.Elections, b.Groups = known([]facts.Election{led("billing", renewed)}), known([]facts.Group(nil))
		}
	}
	silent := func(answers bool) func(*facts.Bucket) {
		return func(b *facts.Bucket) {
			b.Stream = stream(elections(), jetstream.PeerInfo{Current: true, Active: time.Second}, jetstream.PeerInfo{Active: time.Minute, Lag: 60})
			s, _ := b.Server.Get()
			s.Others[2].Answered = answers
			b.Store = known(facts.Store{NoPlace: "JetStream error 10005: no suitable peers"})
		}
	}
	return []situation{
		{"all is well", func(*facts.Bucket) {}, 0, []string{"ok cluster cluster C, the stream is led by n2, all 3 replicas are current", "ok elections 1 election, all records are sound", "ok server the connection is in account APP"}, nil},
		{"the account is not known", func(b *facts.Bucket) {
			s, _ := b.Server.Get()
			s.Account, s.NoAccount = "", "this connection may not publish to $SYS.REQ.USER.INFO"
			b.Server = known(s)
		}, 0, []string{"note server not checked: the account of this connection: this connection may not publish to $SYS.REQ.USER.INFO"}, []string{"is in account"}},
		{"a server without routes", func(b *facts.Bucket) { lost(&b.Stream, facts.NoMajority, "n2 sees no majority") }, 69, []string{"unknown bucket n2 sees no majority -> ask another server"}, []string{"are current", "ok elections"}},
		{"its routes are lost meanwhile", func(b *facts.Bucket) { lost(&b.Pace, facts.NoMajority, "n2 sees no majority") }, 69, []string{"unknown cluster ", ", by what was read last", "ok clock"}, []string{"ok cluster", "ok elections"}},
		{"nothing answers for the bucket", func(b *facts.Bucket) { lost(&b.Stream, facts.NoAnswer, "nats: timeout") }, 69, []string{"unknown bucket nobody answers for bucket elections within 5s", "unknown elections the settings of the bucket are not known"}, nil},
		{"the user is revoked", func(b *facts.Bucket) {
			*b = facts.Bucket{Asked: b.Asked}
			lost(&b.Server, facts.Refused, "Authorization Violation")
		}, 69, []string{"unknown server the servers refuse the credentials of this connection: Authorization Violation", "unknown bucket there is no connection"}, nil},
		{"no server", func(b *facts.Bucket) {
			*b = facts.Bucket{Asked: b.Asked}
			lost(&b.Server, facts.NoAnswer, "connection refused")
		}, 69, []string{"unknown server no server takes the connection: connection refused", "unknown clock there is no connection"}, nil},
		{"the connection is lost", func(b *facts.Bucket) { lost(&b.Elections, facts.NoAnswer, facts.Lost) }, 69, []string{"unknown elections the connection is lost"}, nil},
		{"the history has no leader", func(b *facts.Bucket) {
			lost(&b.History, facts.NoMajority, "stream natsleader_history_elections has no leader")
		}, 1, []string{
			"warning history the history has no majority of its servers: stream natsleader_history_elections has no leader; while that lasts no change in the bucket is recorded",
		}, nil},
		{"the roster does not answer", func(b *facts.Bucket) { lost(&b.Roster, facts.NoAnswer, "nats: timeout") }, 1, []string{"warning roster the roster, stream KV_elections_roster, does not answer: nats: timeout; while it has no leader nobody sees who waits"}, nil},
		{"a server runs without JetStream", func(b *facts.Bucket) {
			silent(true)(b)
			s, _ := b.Server.Get()
			s.Others[2].Without = true
		}, 1, []string{"and the server runs without JetStream -> enable JetStream in its configuration, and restart it"}, []string{"its disk is or was full"}},
		{"the roster is gone", func(b *facts.Bucket) {
			b.Asked.Roster = false
			b.Roster = known(facts.Stream{Refusal: &facts.Refusal{Code: facts.CodeNotFound}})
		}, 1, []string{"warning roster the roster of the bucket is gone: nobody waits for a turn, and candidates are not listed -> natsleader bucket add"}, nil},
		{"the bucket was made again without its roster", func(b *facts.Bucket) {
			s, _ := b.Stream.Get()
			s.Info.Config.Metadata = map[string]string{"natsleader.max_lease": "15s"}
		}, 1, []string{"warning roster the bucket does not name its roster elections_roster, which candidates use: it was made again without it -> natsleader bucket add"}, nil},
		{"no server of the bucket leads, and a write is not answered", func(b *facts.Bucket) {
			s, _ := b.Stream.Get()
			s.Info.Cluster.Leader = ""
			lost(&b.Write, facts.NoAnswer, "nats: no responders available for request")
		}, 69, []string{"unknown cluster n2 sees no leader of stream KV_elections"}, []string{"a write of the bucket is not answered"}},
		{"the roster is not set as it ought to be", func(b *facts.Bucket) {
			s, _ := b.Roster.Get() // AllowMsgTTL is set when a roster is made, and cannot be unset
			s.Info.Config.AllowMsgTTL, s.Info.Config.Replicas, s.Info.Config.MaxAge = false, 1, 44*time.Second
		}, 1, []string{"it lets nothing lapse (no AllowMsgTTL); a TTL of 44s, less than 3 leases; 1 replicas, where the bucket has 3"}, nil},
		{"the servers of the history are away", func(b *facts.Bucket) {
			b.History = known(facts.Stream{Refusal: &facts.Refusal{Code: facts.CodeOffline, Text: "offline"}})
		}, 1, []string{"warning history", "does not answer: offline"}, nil},
		{"the only member that lives is drained", shards(0, member("s1", false, false), member("s2", true, true)), 1, []string{"group orders: 2 of 2 shards have no owner", "(natsleader undrain s2), or start members"}, []string{"raise Most"}},
		{"no member lives", func(b *facts.Bucket) {
			shards(2, member("s1", false, false))(b)
			keys, _ := b.Elections.Get()
			b.Elections = known(append(keys, led(group.MemberKey("orders", "s1"), time.Hour)))
		}, 1, []string{"no member lives; these are gone: s1 -> start its members"}, []string{"no candidate takes over"}},
		{
			"members of two programs", shards(2, of("example.com/a", member("s1", true, false)), of("example.com/b", member("s2", true, false)), of("example.com/a", member("s3", true, false))),
			1,
			[]string{"group orders: members are of different programs: example.com/a (s1, s3), example.com/b (s2)", "give each application a group with a name of its own"},
			nil,
		},
		{
			"members of one program, of an earlier version, and of another one that is gone",
			shards(2, of("example.com/a", member("s1", true, false)), member("s2", true, false), of("example.com/b", member("s3", false, false))), 0, nil,
			[]string{"different programs"},
		},
		{"the map of a group has expired", func(b *facts.Bucket) {
			shards(0, member("s1", true, false))(b)
			s, _ := b.Settings.Get()
			s.TTL = time.Minute
			b.Settings = known(s)
			keys, _ := b.Elections.Get()
			b.Elections = known(slices.DeleteFunc(keys, func(e facts.Election) bool { return string(e.Name) == group.PageKey("orders", 0) }))
			g, _ := b.Groups.Get()
			v, _ := g[0].View.Get()
			v.Lost = []int{0, 1}
			g[0].View = known(v)
		}, 69, []string{
			"unknown elections group orders: the map of 2 of 2 shards is not there or cannot be read, so their owners are not known, and work on: 0-1 -> look again after a lease",
			"warning elections group orders: the bucket drops records after 1m0s, also the map of the group, and no member joins it: a group needs a bucket without a TTL -> natsleader bucket add elections --adopt",
		}, []string{"no owner", "cannot be used"}},
		{"the registry of a group has expired", func(b *facts.Bucket) {
			b.Elections, b.Groups = known([]facts.Election{led(group.AssignerKey("orders"), time.Second)}), known([]facts.Group{{Name: "orders"}})
		}, 69, []string{"unknown elections group orders: the map of the group is not there or cannot be read", "web-1 assigns them"}, []string{"cannot be used"}},
		{"the registry of a group has expired, and its members are dead", func(b *facts.Bucket) {
			b.Elections, b.Groups = known([]facts.Election{led(group.AssignerKey("orders"), time.Minute)}), known([]facts.Group{{Name: "orders"}})
		}, 1, []string{"warning elections group orders: no member has joined it, or its map is gone or of another version or program"}, []string{"assigns them"}},
		{"a note is damaged, and the key of its election is deleted", func(b *facts.Bucket) {
			keys, _ := b.Elections.Get()
			e := led("nightly", time.Hour)
			e.Marker, e.Value, e.NoteWhy = true, "", facts.DamagedNote
			b.Elections = known(append(keys, e))
		}, 1, []string{"warning elections the keys of the notes on these elections hold something else: nightly -> natsleader note ELECTION --remove, or write it anew"}, nil},
		{"a group is not read", func(b *facts.Bucket) {
			g, _ := b.Groups.Get()
			lost(&g[0].View, facts.NoAnswer, "nats: timeout")
		}, 69, []string{"unknown elections group orders: nats: timeout"}, nil},
		{"the disk of a server is full", silent(true), 1, []string{"warning cluster the replica on n3 has not been heard of for 1m0s, but the server runs and answers: its disk is or was full, or hangs", "then restart it", "servers are missing (JetStream error 10005"}, []string{"dead"}},
		{"a server is silent, and none was asked", func(b *facts.Bucket) {
			silent(false)(b)
			lost(&b.Server, facts.NotRead, "")
		}, 69, []string{"the server is dead, hung or cut off, or its disk is or was full -> natsleader doctor tells which"}, nil},
		{"the only candidates are cordoned", func(b *facts.Bucket) {
			alone(31 * time.Second)(b)
			b.Cordon = known(facts.Cordon{Names: []facts.Text{"h1", "h2"}})
		}, 1, []string{"natsleader undrain h1 h2, if its candidates are there: they take nothing while they are cordoned; otherwise start its candidates"}, nil},
		{"a server is dead", silent(false), 1, []string{"the server is dead, hung or cut off -> bring the server back", "3 replicas, 1 of them missing (n3)"}, []string{"runs and answers"}},
		{"elections may not be read", func(b *facts.Bucket) {
			lost(&b.Elections, facts.Denied, "this connection may not publish to x")
			lost(&b.Cordon, facts.NotRead, "")
			lost(&b.Groups, facts.NotRead, "")
		}, 0, []string{"note elections not checked: this connection may not publish to x (to read all elections; candidates need not)"}, []string{"ok elections"}},
		{"the cordon is not read", func(b *facts.Bucket) { lost(&b.Cordon, facts.NoAnswer, "") }, 69, []string{"unknown elections the cordon: no answer"}, nil},
		{"the lease may not be renewed", func(b *facts.Bucket) {
			r, _ := b.Rights.Get()
			r[0].Tried = known("this connection may not publish to $KV.elections.billing")
		}, 2, []string{"critical permissions this connection may not publish to $KV.elections.billing (for the lease) -> allow it"}, nil},
		{"tidiness is denied", func(b *facts.Bucket) {
			r, _ := b.Rights.Get()
			r[2].Tried = known("this connection may not publish to x")
		}, 0, []string{"note permissions this connection may not publish to x (for tidiness)"}, nil},
		{"nothing was tried", func(b *facts.Bucket) { b.Rights = known([]facts.Right(nil)) }, 69, []string{"unknown permissions no permission was tried"}, nil},
		{"no write was tried", func(b *facts.Bucket) { b.Write = known(facts.Write{Skipped: true}) }, 69, []string{"unknown permissions whether the bucket takes writes"}, nil},
		{"no candidate follows", alone(31 * time.Second), 1, []string{"the lease is over and no candidate takes over in billing"}, nil},
		{"a candidate may still follow", alone(30 * time.Second), 0, []string{"note elections the lease has just ended, or the key has just been deleted, in billing -> look again after a lease"}, []string{"ok elections 1 election"}},
		{"candidates are cordoned", func(b *facts.Bucket) { b.Cordon = known(facts.Cordon{Names: []facts.Text{"h1", " "}}) }, 0, []string{`note elections these candidates are cordoned, and take no election: h1, " "`}, nil},
		{"the bucket is gone", func(b *facts.Bucket) {
			b.Stream = known(facts.Stream{Refusal: &facts.Refusal{Code: facts.CodeNotFound}})
		}, 2, []string{"critical bucket bucket elections does not exist", "unknown ttl the settings"}, nil},
		{"the bucket is unfit", func(b *facts.Bucket) { b.Settings = known(facts.Settings{Unfit: "no"}) }, 2, []string{"critical bucket bucket elections: no"}, nil},
		{"the settings are not read", func(b *facts.Bucket) { lost(&b.Settings, facts.NoAnswer, "nats: timeout") }, 69, []string{
			"unknown bucket bucket elections exists, and whether it is fit for elections is not known: nats: timeout", "unknown max-lease MaxLease: nats: timeout", "unknown republish the settings",
		}, []string{"does not republish"}},
		{"an operator of one group", func(b *facts.Bucket) {
			b.Asked.Role, b.Border, b.Requests = facts.Operator, known(facts.Border{May: []facts.Text{"group orders"}, MayNot: []facts.Text{"billing"}}), known(true)
			b.Write = known(facts.Write{Skipped: true})
		}, 0, []string{"note border permissions within one account separate this connection, which may write group orders, from billing"}, nil},
		{"no leader", func(b *facts.Bucket) {
			s, _ := b.Stream.Get()
			s.Info.Cluster.Leader, s.Looks = "", facts.Looks{}
			b.Stream = known(s)
		}, 69, []string{"unknown cluster n2 sees no leader of stream KV_elections: it is cut off from the others, or a majority of them is away", "ask another server with -s", "unknown replicas"}, []string{"ok settings"}},
		{"the account is full", func(b *facts.Bucket) { b.Account = known(facts.Account{Store: 100, MaxStore: 100}) }, 2, []string{"critical limits storage of the account"}, nil},
		{"the memory is full", func(b *facts.Bucket) {
			s, _ := b.Stream.Get()
			s.Info.Config.Storage = jetstream.MemoryStorage
			b.Account = known(facts.Account{Memory: 100, MaxMemory: 100, Store: 1, MaxStore: 100})
		}, 2, []string{"critical limits memory of the account", "ok sync there is no disk"}, nil},
		{"one of four replicas has no server", func(b *facts.Bucket) {
			s, _ := b.Stream.Get()
			s.Info.Config.Replicas = 4
		}, 1, []string{"warning replicas 4 replicas, 1 of them missing: elections stop with the loss of one more server"}, nil},
		{"nothing can be stored", func(b *facts.Bucket) { b.Store = known(facts.Store{Refused: "no space"}) }, 2, []string{"critical store the servers can store nothing in file storage now: no space"}, nil},
		{"--read-only", func(b *facts.Bucket) { b.Store = known(facts.Store{Skipped: "nothing is stored with --read-only"}) }, 0, []string{"note store not checked: nothing is stored with --read-only"}, nil},
		{"the clock of the host is fast", func(b *facts.Bucket) { b.Pace = known(facts.Pace{Server: 8*time.Second - 1, Host: 10 * time.Second}) }, 2, []string{"critical pace the clock of this host ran 2s faster than the server's in 10s: leases of 15s allow for 3s"}, nil},
		{"it is as fast as leases allow", func(b *facts.Bucket) { b.Pace = known(facts.Pace{Server: 8 * time.Second, Host: 10 * time.Second}) }, 0, []string{"ok pace"}, nil},
		{"it is slow", func(b *facts.Bucket) {
			b.Pace = known(facts.Pace{Server: 13*time.Second + 1, Host: 10 * time.Second, Uncertain: time.Second})
		}, 2, []string{"2s slower"}, nil},
		{"it may be slow", func(b *facts.Bucket) {
			b.Pace = known(facts.Pace{Server: 13 * time.Second, Host: 10 * time.Second, Uncertain: time.Second})
		}, 0, []string{"ok pace"}, nil},
		{"a domain does not answer", func(b *facts.Bucket) {
			b.Domains = known(facts.Domains{Others: []facts.Domain{{Name: "leaf", Has: facts.Unknown[bool](facts.NoAnswer, "nats: timeout", from)}}})
		}, 69, []string{"unknown domain the JetStream domain leaf: nats: timeout"}, nil},
		{"a server is old", func(b *facts.Bucket) {
			s, _ := b.Server.Get()
			s.Others[0].Version = "2.10.29"
		}, 1, []string{"warning server nats-server 2.10.29 on n1 is older than 2.11"}, nil},
		{"a server does not tell its version", func(b *facts.Bucket) {
			s, _ := b.Server.Get()
			s.Others = s.Others[1:]
			b.Server = known(s)
		}, 0, []string{"note server not checked: versions of n1: no answer"}, nil},
		{"the servers are not asked", func(b *facts.Bucket) {
			s, _ := b.Server.Get()
			s.Others, s.Unasked = s.Others[1:], "no ping"
			b.Server = known(s)
		}, 0, []string{"note server not checked: versions of n1: the servers were not asked: no ping"}, []string{"no answer"}},
	}
}

// text has a line for each finding.
func text(r judge.Report) string {
	var s strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&s, "%v %s %s -> %s\n", f.Severity, f.Check, f.Text, f.Advice)
	}
	return s.String()
}

// Each situation has its findings and its exit code, also by facts from a file.
func TestOf_Situations(t *testing.T) {
	for _, x := range situations() {
		b := well()
		x.change(&b)
		saved := check.Got(facts.Save(b, "v1"))(t)
		loaded := check.Got(facts.Load(saved))(t)
		check.Equal(t, string(check.Got(facts.Save(loaded, "v1"))(t)), string(saved), x.name+": a file has %s")
		for _, b := range []facts.Bucket{b, loaded} {
			r := judge.Of(b)
			got := text(r)
			check.That(t, r.ExitCode() == x.code, "%s: exit code %d, want %d\n%s", x.name, r.ExitCode(), x.code, got)
			for _, says := range x.says {
				check.That(t, strings.Contains(got, says), "%s: no %q in\n%s", x.name, says, got)
			}
			for _, not := range x.not {
				check.That(t, !strings.Contains(got, not), "%s: %q in\n%s", x.name, not, got)
			}
		}
	}
}

// slots are the facts that are known, by their names as gaps.
func slots(b *facts.Bucket) map[string]facts.Slot {
	all := make(map[string]facts.Slot)
	v := reflect.ValueOf(b).Elem()
	for i := range v.NumField() {
		if f, ok := v.Field(i).Addr().Interface().(facts.Slot); ok {
			all[v.Type().Field(i).Name] = f
		}
	}
	rights, _ := b.Rights.Get()
	for i := range rights {
		all[fmt.Sprintf("Rights[%d].Tried", i)] = &rights[i].Tried
	}
	domains, _ := b.Domains.Get()
	for i := range domains.Others {
		all[fmt.Sprintf("Domains.Others[%d].Has", i)] = &domains.Others[i].Has
	}
	groups, _ := b.Groups.Get()
	for i := range groups {
		all[fmt.Sprintf("Groups[%d].View", i)] = &groups[i].View
	}
	for _, g := range b.Gaps() {
		delete(all, g.Fact)
	}
	return all
}

// worst is the worst finding of each check, and whether the check says that it was not made.
func worst(r judge.Report) (severity map[string]judge.Severity, unchecked map[string]bool) {
	severity, unchecked = make(map[string]judge.Severity), make(map[string]bool)
	for _, f := range r.Findings {
		severity[f.Check] = max(severity[f.Check], f.Severity)
		unchecked[f.Check] = unchecked[f.Check] || f.Unchecked
	}
	return severity, unchecked
}

// Take any one fact away, in any situation and for any reason: no check that was not well is well then, and the exit
// code is not 0. A missing right alone is no trouble: the check says that it was not made.
func TestOf_UnknownIsNeverOK(t *testing.T) {
	for _, x := range situations() {
		in := func() *facts.Bucket {
			b := well()
			x.change(&b)
			return &b
		}
		was, _ := worst(judge.Of(*in()))
		for name := range slots(in()) {
			for why := facts.NotRead; why <= facts.Unreadable; why++ {
				b := in()
				lost(slots(b)[name], why, "")
				after := judge.Of(*b)
				check.That(t, slices.ContainsFunc(after.Gaps, func(g facts.Gap) bool { return g.Fact == name && g.Why == why }), "%s without %s: no gap", x.name, name)
				check.That(t, why == facts.Denied || after.ExitCode() != 0, "%s without %s (%v): exit code 0", x.name, name, why)
				is, unchecked := worst(after)
				for row, s := range was {
					check.That(t, s <= judge.Note || is[row] > judge.Note || why == facts.Denied && unchecked[row],
						"%s without %s (%v): %s was %v and is %v", x.name, name, why, row, s, is[row])
				}
			}
		}
	}
}

// Each fact of a bucket counts: without it a bucket that is well is not.
func TestOf_EachFactCounts(t *testing.T) {
	for i := range reflect.TypeFor[facts.Bucket]().NumField() {
		name := reflect.TypeFor[facts.Bucket]().Field(i).Name
		if name == "Asked" {
			continue
		}
		b := well()
		reflect.ValueOf(&b).Elem().Field(i).SetZero()
		r := judge.Of(b)
		check.That(t, r.ExitCode() != 0 && len(r.Gaps) == 1 && r.Gaps[0].Fact == name, "without %s: %d, %+v", name, r.ExitCode(), r.Gaps)
	}
	check.Equal(t, judge.Report{}.ExitCode(), 69, "of nothing %d")
	check.Equal(t, judge.Of(facts.Bucket{}).ExitCode(), 69, "of no fact %d")
}

// A file with any part gone is refused, or judged: nothing panics.
func TestLoad_Damaged(t *testing.T) {
	var tree any
	saved := check.Got(facts.Save(well(), "v1"))(t)
	check.OK(t, json.Unmarshal(saved, &tree))
	var spoil func(v any)
	try := func() {
		if b, err := facts.Load(check.Got(json.Marshal(tree))(t)); err == nil {
			judge.Of(b)
		}
	}
	spoil = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, x := range v {
				for _, junk := range []any{nil, -1.0, json.Number("9223372036854775807"), "junk", []any{nil}} {
					v[key] = junk
					try()
				}
				v[key] = x
				spoil(x)
			}
		case []any:
			for i, x := range v {
				v[i] = nil
				try()
				v[i] = x
				spoil(x)
			}
		}
	}
	spoil(tree)
	fact := known(1)
	check.OK(t, json.Unmarshal([]byte("{}"), &fact))
	_, isKnown := fact.Get()
	check.That(t, !isKnown, "a fact without a value is known")
	for _, x := range []struct{ text, says string }{
		{"", "it is not a file of natsleader doctor --save"},
		{"{}", "it is not a file of natsleader doctor --save"},
		{`{"program":"natsleader doctor","format":2,"version":"v9"}`, "it has format 2, of natsleader v9: use that version, or a later one"},
		{`{"program":"natsleader doctor","format":1}`, "it is damaged: a part is missing"},
		{string(saved[:len(saved)/2]), "or it is damaged"},
		{strings.Repeat(" ", facts.MostFile+1), "it has more than"},
	} {
		_, err := facts.Load([]byte(x.text))
		check.That(t, err != nil && strings.Contains(err.Error(), x.says), "%.40q: %v", x.text, err)
	}
}

// Texts of others keep their bytes in a file, and are escaped where they are printed.
func TestText(t *testing.T) {
	for in, want := range map[facts.Text]string{"a": "a", "": `""`, " ": `" "`, "a\u202eb": `a\u202eb`, "\xff": `\xff`, `{"base64":"YQ=="}`: `{"base64":"YQ=="}`} {
		check.Equal(t, in.String(), want, "%s")
		var out facts.Text
		check.OK(t, json.Unmarshal(check.Got(json.Marshal(in))(t), &out))
		check.Equal(t, out, in, "%q")
	}
}

// Facts and their judgement read no clock and wait for nothing.
func TestJudge_IsPure(t *testing.T) {
	for _, dir := range []string{".", "../facts"} {
		for _, name := range check.Got(filepath.Glob(dir + "/*.go"))(t) {
			source := string(check.Got(os.ReadFile(name))(t)) //nolint:gosec // of this package
			for _, word := range []string{"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "go func", "passed()"} {
				check.That(t, strings.HasSuffix(name, "_test.go") || !strings.Contains(source, word), "%s has %s", name, word)
			}
		}
	}
}
