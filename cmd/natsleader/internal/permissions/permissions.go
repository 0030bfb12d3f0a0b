// Package permissions prints what users need to be allowed.
package permissions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/wire"
)

const permissionsHelp = `It prints users with the least permissions for what they do. It asks no server.

  candidate  natsleader run, and programs that campaign. Each election of
             --election gets a user of its own, with the name of the election
  observer   status, watch, serve and history
  operator   an observer of all elections, who asks leaders to hand over, and writes notes
             and the cordon of the bucket
  exporter   natsleader serve --metrics
  creator    bucket add, info and ls

The connection flags are those of the users: --inbox-prefix, --js-domain and
--js-api-prefix change the subjects. The server reads the passwords from its
environment, BILLING_PASSWORD for the user billing: let a password begin with a letter
and have letters and digits only. The server refuses one that is a number.

An observer of some elections cannot use commands that look at more than one, also by a
pattern. An operator of some sees all, and steers those. Only a creator may list the
buckets, and none of these users may delete one.

  natsleader permissions candidate operator creator --election billing >users.conf
  natsleader permissions candidate --election billing --format nsc | sh`

// roles are the kinds of users.
var roles = []string{"candidate", "observer", "operator", "exporter", "creator"}

// Plan is what the users of a bucket are to do.
type Plan struct {
	Bucket, Inbox string
	Api, put      string // prefixes of the JetStream API, and of the keys of its buckets
	imports       string // with accounts, the prefix by which a candidate reaches the API of the bucket's account
	Elections     []string
	groups        []string
	seats         bool
	Roster        bool
	history       bool
	accounts      bool
}

// Register adds the command permissions.
func Register(app *fisk.Application, g *front.Globals) {
	var plan Plan
	var of []string
	var format string
	cmd := app.Command("permissions", "Print users with least permissions, for the configuration of the server").HelpLong(permissionsHelp)
	cmd.Arg("role", strings.Join(roles, ", ")).Required().EnumsVar(&of, roles...)
	cmd.Flag("election", "Election of the users; may be repeated, and may have the wildcards * and > (default: all, for an observer and an operator)").PlaceHolder("NAME").StringsVar(&plan.Elections)
	cmd.Flag("group", "Group of shards of the users, with a candidate as its member; may be repeated").PlaceHolder("NAME").StringsVar(&plan.groups)
	cmd.Flag("seats", "The elections have several seats").UnNegatableBoolVar(&plan.seats)
	cmd.Flag("roster", "The users announce themselves in the roster of the bucket, read it, or make it").UnNegatableBoolVar(&plan.Roster)
	cmd.Flag("history", "The users read the history of the bucket, or make it").UnNegatableBoolVar(&plan.history)
	cmd.Flag("accounts", "Each candidate gets an account of its own, for applications that need not trust one another").UnNegatableBoolVar(&plan.accounts)
	cmd.Flag("format", "conf, for the file of the server; nsc, commands that make the users; or table").Default("conf").PlaceHolder("FORMAT").EnumVar(&format, "conf", "nsc", "table")
	cmd.Action(func(*fisk.ParseContext) error {
		if err := plan.complete(g, format); err != nil {
			return err
		}
		users, err := plan.users(of)
		if err != nil {
			return err
		}
		return front.PrintLines(g.Out(), map[string]func([]grantedUser) []string{
			"conf": plan.conf, "nsc": nscCommands, "table": permissionTable,
		}[format](users))
	})
}

// complete takes the settings of the connection, and checks all.
func (p *Plan) complete(g *front.Globals, format string) error {
	g.NoContext = true // that of an operator, mostly
	c, err := g.Load()
	if err != nil {
		return err
	}
	p.Bucket, p.Inbox, p.Api = g.Bucket, cmp.Or(c.InboxPrefix(), "_INBOX"), jetstream.DefaultAPIPrefix
	switch prefix := c.JSAPIPrefix(); {
	case p.accounts && c.JSDomain() == "":
		p.imports = cmp.Or(prefix, p.Bucket) + "."
	case c.JSDomain() != "":
		p.Api = "$JS." + c.JSDomain() + ".API."
		p.put = p.Api
	case prefix != "":
		p.Api = prefix + "."
		p.put = p.Api
	}
	for _, name := range p.groups {
		p.Elections = append(p.Elections, group.AllKeys(name))
	}
	for _, name := range p.Elections {
		parts := strings.Split(name, ".")
		for i, part := range parts {
			if part == "*" || part == ">" && i == len(parts)-1 {
				parts[i] = "any"
			}
		}
		if err := wire.CheckElection(strings.Join(parts, ".")); err != nil {
			return front.Usagef("--election %q: %w", name, err)
		}
	}
	switch {
	case !wire.ValidKey(p.Bucket) || strings.ContainsAny(p.Bucket, "./="):
		return front.Usagef("--bucket %q is not the name of a bucket", p.Bucket)
	case p.accounts && (p.Roster || c.JSDomain() != "" || format != "conf"):
		return front.Usagef("--accounts is for --format conf, without --js-domain, and without --roster, which no candidate can read in another account")
	}
	return nil
}

// grantedUser is a user with all that it may do.
type grantedUser struct {
	name, does string
	election   string // of a candidate
	Grants     []grant
	answers    bool // to requests
}

// grant is a permission, and what it is for.
type grant struct{ Verb, Subject, why string }

// The verbs of permissions.
const (
	MayPublish   = "publish"
	MaySubscribe = "subscribe"
)

func (u *grantedUser) may(verb, why string, subjects ...string) {
	for _, subject := range subjects {
		u.Grants = append(u.Grants, grant{verb, subject, why})
	}
}

// password is the variable in the environment of the server.
func (u grantedUser) password() string { return shouted(u.name) + "_PASSWORD" }

// shouted returns a name as variables and accounts have it.
func shouted(name string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || '9' < r && r < 'A' || 'Z' < r && r < 'a' || r > 'z' {
			return '_'
		}
		return r
	}, strings.ToUpper(name))
}

// users returns the users of these roles.
func (p *Plan) users(of []string) ([]grantedUser, error) {
	var all []grantedUser
	for _, role := range slices.Compact(slices.Sorted(slices.Values(of))) { // a candidate comes first
		if role != "candidate" {
			all = append(all, p.User(role))
			continue
		}
		if len(p.Elections) == 0 {
			return nil, front.Usagef("a candidate needs --election or --group")
		}
		for _, election := range p.Elections {
			all = append(all, p.candidate(election))
		}
	}
	named := map[string]bool{shouted(p.Bucket): p.accounts}
	for _, u := range all {
		if named[shouted(u.name)] {
			return nil, front.Usagef("two users, or a user and the bucket, would be named %s: print them one by one, and rename one", u.name)
		}
		named[shouted(u.name)] = true
	}
	return all, nil
}

// keys returns the keys of elections, or patterns of them.
func (p *Plan) keys(elections ...string) (keys []string) {
	for _, election := range elections {
		keys = append(keys, election)
		if p.seats && !strings.HasSuffix(election, ">") {
			keys = append(keys, election+wire.SeatInfix+"*")
		}
	}
	return keys
}

// observed returns the elections that a user looks at.
func (p *Plan) observed() []string {
	if p.Elections == nil {
		return []string{">"}
	}
	return p.Elections
}

// candidate returns the user who stands in an election. In a group that is a member.
func (p *Plan) candidate(election string) grantedUser {
	name := cmp.Or(strings.Trim(strings.TrimSuffix(election, group.AllKeys("")), ".*>"), "candidate")
	u := grantedUser{name: name, does: "campaigns in " + election, election: election, answers: true}
	p.answersTo(&u)
	u.may(MayPublish, "the settings", p.Api+"STREAM.INFO.KV_"+p.Bucket)
	for _, key := range p.keys(election) {
		p.reads(&u, key)
		u.may(MayPublish, "the lease", p.put+"$KV."+p.Bucket+"."+key)
		u.may(MaySubscribe, "requests to hand over", wire.AskPrefix+p.Bucket+"."+key)
	}
	u.may(MayPublish, "the cordon", p.Api+"DIRECT.GET.KV_"+p.Bucket+".$KV."+p.Bucket+"."+wire.CordonKey)
	u.may(MaySubscribe, "changes of the cordon", wire.FeedPrefix+p.Bucket+"."+wire.CordonKey)
	if p.Roster {
		u.may(MayPublish, "to announce itself", p.put+"$KV."+wire.RosterName(p.Bucket)+"."+rosterKeys(election))
		p.readsRoster(&u, election)
	}
	return u
}

// User returns the user of another role.
func (p *Plan) User(role string) grantedUser {
	does := map[string]string{
		"observer": "reads " + strings.Join(p.observed(), ", "), "operator": "reads all elections, and asks leaders to hand over",
		"exporter": "serves metrics", "creator": "creates the bucket",
	}[role]
	u := grantedUser{name: role, does: does}
	p.answersTo(&u)
	info := "the settings"
	u.may(MayPublish, info, p.Api+"STREAM.INFO.KV_"+p.Bucket)
	switch role {
	case "observer":
		p.observes(&u, p.observed()...)
	case "operator":
		p.observes(&u, ">")
		for _, key := range p.keys(p.observed()...) {
			u.may(MayPublish, "requests to hand over", wire.AskPrefix+p.Bucket+"."+key)
		}
		for _, election := range p.observed() {
			u.may(MayPublish, "to write the note", p.put+"$KV."+p.Bucket+"."+facts.NoteKey(election))
		}
		u.may(MayPublish, "to write the cordon", p.put+"$KV."+p.Bucket+"."+wire.CordonKey)
		for _, name := range p.groups {
			u.may(MayPublish, "requests to move shards", p.put+"$KV."+p.Bucket+"."+group.RegistryKey(name))
		}
		u.may(MayPublish, "the versions of the servers", wire.VersionSubject)
	case "exporter":
		p.watches(&u, ">")
		if p.Roster {
			u.may(MayPublish, "whether the roster has a leader", p.Api+"STREAM.INFO.KV_"+wire.RosterName(p.Bucket))
		}
		if p.history {
			u.may(MayPublish, "whether the history has a leader", p.Api+"STREAM.INFO."+facts.HistoryStream(p.Bucket))
		}
	case "creator":
		streams := []string{"KV_" + p.Bucket}
		if p.Roster {
			streams = append(streams, "KV_"+wire.RosterName(p.Bucket))
		}
		if p.history {
			streams = append(streams, facts.HistoryStream(p.Bucket))
		}
		for i, stream := range streams {
			if i > 0 {
				u.may(MayPublish, info, p.Api+"STREAM.INFO."+stream)
			}
			u.may(MayPublish, "to make it", p.Api+"STREAM.CREATE."+stream, p.Api+"STREAM.UPDATE."+stream)
		}
		p.watches(&u, ">")
		u.may(MayPublish, "bucket ls", p.Api+"STREAM.LIST")
	}
	return u
}

// answersTo lets a user receive the answers to its requests.
func (p *Plan) answersTo(u *grantedUser) { u.may(MaySubscribe, "answers", p.Inbox+".>") }

// reads lets a user read a key, and learn of its changes.
func (p *Plan) reads(u *grantedUser, key string) {
	u.may(MayPublish, "the record", p.Api+"DIRECT.GET.KV_"+p.Bucket+".$KV."+p.Bucket+"."+key)
	u.may(MaySubscribe, "changes", wire.FeedPrefix+p.Bucket+"."+key)
}

// observes lets a user look at elections in each way.
func (p *Plan) observes(u *grantedUser, elections ...string) {
	keys := p.keys(elections...)
	for _, key := range keys {
		p.reads(u, key)
	}
	get := p.Api + "DIRECT.GET.KV_" + p.Bucket + ".$KV." + p.Bucket + "."
	if !slices.Contains(elections, ">") { // a note and the cordon are keys, too
		for _, election := range elections {
			u.may(MayPublish, "the note", get+facts.NoteKey(election))
		}
		u.may(MayPublish, "the cordon", get+wire.CordonKey)
	}
	p.watches(u, keys...)
	if p.Roster {
		p.readsRoster(u, elections...)
		u.may(MayPublish, "the pace of the consumer", "$JS.FC.KV_"+wire.RosterName(p.Bucket)+".>")
	}
	if p.history {
		stream := facts.HistoryStream(p.Bucket)
		u.may(MayPublish, "the history", p.Api+"STREAM.INFO."+stream, p.Api+"DIRECT.GET."+stream)
	}
}

// watches lets a user follow keys by a consumer.
func (p *Plan) watches(u *grantedUser, keys ...string) {
	for _, key := range keys {
		u.may(MayPublish, "a consumer of records", p.Api+"CONSUMER.CREATE.KV_"+p.Bucket+".*.$KV."+p.Bucket+"."+key)
	}
	u.may(MayPublish, "the end of the consumer", p.Api+"CONSUMER.DELETE.KV_"+p.Bucket+".*")
	u.may(MayPublish, "the pace of the consumer", "$JS.FC.KV_"+p.Bucket+".>")
}

// readsRoster lets a user see which candidates stand.
func (p *Plan) readsRoster(u *grantedUser, elections ...string) {
	name := wire.RosterName(p.Bucket)
	u.may(MayPublish, "the settings of the roster", p.Api+"STREAM.INFO.KV_"+name)
	for _, election := range elections {
		u.may(MayPublish, "a consumer of the roster", p.Api+"CONSUMER.CREATE.KV_"+name+".*.$KV."+name+"."+rosterKeys(election))
	}
	u.may(MayPublish, "the end of the consumer", p.Api+"CONSUMER.DELETE.KV_"+name+".*")
}

// rosterKeys returns the keys of the candidates of an election in the roster.
func rosterKeys(election string) string {
	if strings.HasSuffix(election, ">") {
		return election
	}
	return election + ".*"
}

// ConfHead is the head of a file of permissions.
const ConfHead = "# The server reads the passwords from its environment. `include` takes this file into that of the server."

// conf returns the users for the file of the server.
func (p *Plan) conf(users []grantedUser) []string {
	if p.accounts {
		return p.accountConf(users)
	}
	lines := []string{ConfHead, "authorization {", "  users: ["}
	for _, u := range users {
		lines = append(lines, u.conf("    ")...)
	}
	return append(lines, "  ]", "}")
}

// conf returns one user, with this indentation.
func (u grantedUser) conf(in string) []string {
	lines := []string{
		in + "# " + u.does, in + "{",
		fmt.Sprintf("%s  user: %q, password: $%s", in, u.name, u.password()), in + "  permissions: {",
	}
	for _, verb := range []string{MayPublish, MaySubscribe} {
		lines = append(lines, fmt.Sprintf("%s    %s: [", in, verb))
		for _, g := range u.Grants {
			if g.Verb == verb {
				lines = append(lines, fmt.Sprintf("%s      %q # %s", in, g.Subject, g.why))
			}
		}
		lines = append(lines, in+"    ]")
	}
	if u.answers {
		lines = append(lines, in+"    allow_responses: true # answers to requests to hand over")
	}
	return append(lines, in+"  }", in+"}")
}

// nscCommands returns the commands that make the users in the account that nsc has selected.
func nscCommands(users []grantedUser) []string {
	var lines []string
	for _, u := range users {
		lines = append(lines, "# "+u.does, fmt.Sprintf("nsc add user --name '%s' \\", u.name))
		for _, g := range u.Grants {
			lines = append(lines, fmt.Sprintf("  --allow-%s '%s' \\", g.Verb[:3], g.Subject))
		}
		if u.answers {
			lines = append(lines, "  --allow-pub-response \\")
		}
		last := len(lines) - 1
		lines[last] = strings.TrimSuffix(lines[last], ` \`)
	}
	return lines
}

// permissionTable returns the users for people.
func permissionTable(users []grantedUser) []string {
	rows := [][]string{{"USER", "MAY", "SUBJECT", "FOR"}}
	for _, u := range users {
		for _, g := range u.Grants {
			rows = append(rows, []string{u.name, g.Verb, g.Subject, g.why})
		}
		if u.answers {
			rows = append(rows, []string{u.name, "answer", "allow_responses", "requests to hand over"})
		}
	}
	return front.Columns(rows)
}

// accountConf returns an account with the bucket and all users but the candidates, and one for each candidate.
func (p *Plan) accountConf(users []grantedUser) []string {
	home := shouted(p.Bucket)
	var inside, imports, exports, apps []string
	exported := map[string][]string{} // by what is exported, the accounts
	export := func(kind, subject, account string) {
		what := fmt.Sprintf("%s: %q", kind, subject)
		if exported[what] == nil {
			exports = append(exports, what)
		}
		exported[what] = append(exported[what], account)
	}
	for _, u := range users {
		if u.election == "" {
			inside = append(inside, u.conf("      ")...)
			continue
		}
		account := shouted(u.name)
		asked, used := []string{"    exports: ["}, []string{"    imports: ["}
		for _, g := range u.Grants {
			from := fmt.Sprintf("{ account: %s, subject: %q }", home, g.Subject)
			switch {
			case strings.HasPrefix(g.Subject, wire.AskPrefix):
				asked = append(asked, fmt.Sprintf("      { service: %q, accounts: [ %s ] }", g.Subject, home))
				imports = append(imports, fmt.Sprintf("      { service: { account: %s, subject: %q } }", account, g.Subject))
			case strings.HasPrefix(g.Subject, wire.FeedPrefix):
				export("stream", g.Subject, account)
				used = append(used, "      { stream: "+from+" }")
			case g.Verb == MayPublish:
				export("service", g.Subject, account)
				used = append(used, fmt.Sprintf("      { service: %s, to: %q }", from, p.imports+strings.TrimPrefix(g.Subject, p.Api)))
			}
		}
		apps = slices.Concat(apps, []string{
			"  # " + u.does + ": natsleader run --js-api-prefix " + strings.TrimSuffix(p.imports, "."),
			"  " + account + " {", "    jetstream: enabled # for its own data",
			fmt.Sprintf("    users: [ { user: %q, password: $%s } ]", u.name, u.password()),
		}, asked, []string{"    ]"}, used, []string{"    ]", "  }"})
	}
	for i, what := range exports {
		exports[i] = fmt.Sprintf("      { %s, accounts: [ %s ] }", what, strings.Join(exported[what], ", "))
	}
	return slices.Concat(
		[]string{ConfHead, "accounts {", "  " + home + " { # has the bucket", "    jetstream: enabled", "    users: ["}, inside,
		[]string{"    ]", "    exports: ["}, exports,
		[]string{"    ]", "    imports: ["}, imports,
		[]string{"    ]", "  }"}, apps, []string{"}"})
}
