package facts

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/shard"
)

// Bucket has all that doctor reads, in the order in which it reads it. Each field but Asked is a fact.
type Bucket struct {
	Asked     Asked                 `json:"asked"`
	Server    Fact[Server]          `json:"server,omitzero"` // of the connection
	Addresses Fact[Addresses]       `json:"addresses,omitzero"`
	Stream    Fact[Stream]          `json:"stream,omitzero"`
	Settings  Fact[Settings]        `json:"settings,omitzero"`
	Domains   Fact[Domains]         `json:"domains,omitzero"`
	Sync      Fact[[]Sync]          `json:"sync,omitzero"`
	Account   Fact[Account]         `json:"account,omitzero"`
	Store     Fact[Store]           `json:"store,omitzero"`
	Rights    Fact[[]Right]         `json:"rights,omitzero"`
	Write     Fact[Write]           `json:"write,omitzero"`
	Feed      Fact[bool]            `json:"feed,omitzero"`     // whether the connection may publish to it; without a feed false
	Requests  Fact[bool]            `json:"requests,omitzero"` // whether it may ask leaders to hand over
	Border    Fact[Border]          `json:"border,omitzero"`
	Clock     Fact[Clock]           `json:"clock,omitzero"`   // of the host
	Pings     Fact[[]time.Duration] `json:"pings,omitzero"`   // to the server and back, sorted
	Answers   Fact[[]time.Duration] `json:"answers,omitzero"` // to the leader of the stream and back, sorted; not read if no stream takes writes
	Client    Fact[Client]          `json:"client,omitzero"`
	Roster    Fact[Stream]          `json:"roster,omitzero"`
	History   Fact[Stream]          `json:"history,omitzero"`
	Elections Fact[[]Election]      `json:"elections,omitzero"` // all keys but those of notes and of the cordon; its time is that of the server
	Cordon    Fact[Cordon]          `json:"cordon,omitzero"`
	Groups    Fact[[]Group]         `json:"groups,omitzero"`
	Pace      Fact[Pace]            `json:"pace,omitzero"`
}

// Lost is the text of the facts that were not read because the connection was lost.
const Lost = "the connection is lost"

// Asked is what was asked for.
type Asked struct {
	Bucket   string        `json:"bucket"`
	API      string        `json:"api"`      // the prefix of the JetStream API, with the dot
	Wait     time.Duration `json:"wait_ns"`  // for one answer
	Lease    time.Duration `json:"lease_ns"` // of candidates; 0: that of the bucket
	Election string        `json:"election"` // whose permissions are tried
	Named    bool          `json:"named"`    // it was named, and not made up
	Role     string        `json:"role"`     // whose permissions are tried
	Roster   bool          `json:"roster"`   // candidates have one
}

// The roles.
const (
	Candidate = "candidate"
	Operator  = "operator"
	Creator   = "creator"
)

// Server is the server of the connection, and what servers answered to it.
type Server struct {
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	Others    []Version `json:"others,omitempty"`     // of the cluster and beside it, by name; with that of the connection
	Refused   string    `json:"refused,omitempty"`    // the missing permission to ask
	Unasked   string    `json:"unasked,omitempty"`    // why else the servers were not asked, or not for the time to wait
	Account   Text      `json:"account,omitempty"`    // of the connection; empty: not known
	NoAccount string    `json:"no_account,omitempty"` // why it is not known
}

// Version is the version of a server.
type Version struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Answered bool   `json:"answered,omitempty"` // just now: it runs
	Without  bool   `json:"without_jetstream,omitempty"`
}

// Addresses are those that the servers advertise.
type Addresses struct {
	Ignored bool      `json:"ignored,omitempty"` // --no-discovery
	Tried   []Address `json:"tried,omitempty"`
	More    int       `json:"more,omitempty"` // that were not tried
}

// Address is an address that was dialled.
type Address struct {
	URL    string `json:"url"`
	Silent string `json:"silent,omitempty"` // the kind of the error
}

// Stream is what JetStream answered about a stream. A stream that there need not be has neither.
type Stream struct {
	Info    *jetstream.StreamInfo `json:"info,omitempty"`
	Refusal *Refusal              `json:"refusal,omitempty"`
	At      time.Time             `json:"at,omitzero"` // in the middle of the time for the answer, by this host's clock
	Took    time.Duration         `json:"took_ns,omitempty"`
	Looks   Looks                 `json:"looks,omitzero"`
}

// Refusal is an error that JetStream answered with.
type Refusal struct {
	Code int    `json:"code"`
	Text string `json:"text"`
}

// Codes of JetStream. The last one is that of the client: nothing takes the request.
const (
	CodeNotFound      = 10059
	CodeNoMetaLeader  = 10008
	CodeOffline       = 10118 // all servers that keep the stream are away
	CodeNotEnabled    = 10076
	CodeNotForAccount = 10039
	CodeNoResponders  = 503
)

// HistoryKey is in the metadata of a bucket that was made with a history, and names the stream.
const HistoryKey = "natsleader.history"

// HistoryStream returns the name of the stream that keeps the history of a bucket. A name
// that is too long for a stream is cut, and made unique by a hash.
func HistoryStream(bucket string) string {
	const prefix, most = "natsleader_history_", 255 // nats-server, JSMaxNameLen
	if len(prefix)+len(bucket) > most {
		sum := sha256.Sum256([]byte(bucket))
		tail := "_" + hex.EncodeToString(sum[:8])
		bucket = bucket[:most-len(prefix)-len(tail)] + tail
	}
	return prefix + bucket
}

// Settings are those of the bucket as package leader reads them.
type Settings struct {
	MaxLease    time.Duration `json:"max_lease_ns,omitempty"`
	TTL         time.Duration `json:"ttl_ns,omitempty"`
	MaxValue    int           `json:"max_value,omitempty"`
	FeedSubject string        `json:"feed_subject,omitempty"`
	Domain      string        `json:"domain,omitempty"`
	Unfit       string        `json:"unfit,omitempty"` // why no election can work with it
}

// Domains are the other JetStream domains whose servers the account reaches.
type Domains struct {
	Others []Domain `json:"others,omitempty"`
	More   int      `json:"more,omitempty"` // that were not asked
}

// Domain is one of them. The one without a name is not asked for the bucket.
type Domain struct {
	Name string     `json:"name"`
	Has  Fact[bool] `json:"has"` // a bucket of the same name
}

// Sync is how often a server of the stream syncs to disk. 0 is with every write.
type Sync struct {
	Server   string        `json:"server"`
	Interval time.Duration `json:"interval_ns"`
}

// Account has the limits of the account for streams like the bucket's.
type Account struct {
	Memory    uint64 `json:"memory"`
	MaxMemory int64  `json:"max_memory"`
	Store     uint64 `json:"store"`
	MaxStore  int64  `json:"max_store"`
}

// Store is what became of a message in a stream beside the bucket's.
type Store struct {
	Skipped string        `json:"skipped,omitempty"`  // why it was not tried
	Silent  string        `json:"silent,omitempty"`   // what was not answered in time
	NoPlace string        `json:"no_place,omitempty"` // why too few servers take a stream
	Refused string        `json:"refused,omitempty"`
	Size    int           `json:"size,omitempty"`
	Took    time.Duration `json:"took_ns,omitempty"`
	Left    string        `json:"left,omitempty"` // a stream that may be left behind
	LeftWhy string        `json:"left_why,omitempty"`
}

// Right is a permission that was tried.
type Right struct {
	For   string       `json:"for"`
	Tried Fact[string] `json:"tried"` // what is denied; empty: nothing
}

// What permissions are for.
const (
	ForAnswers    = "every answer of the server"
	ForSettings   = "the settings of the bucket"
	ForReading    = "reading the election"
	ForLease      = "the lease"
	ForFeed       = "hearing of changes: without it candidates poll"
	ForRequests   = "requests to step down: without it nobody can ask"
	ForCordons    = "heeding cordons"
	ForCordonFeed = "heeding cordons at once"
	ForAll        = "reading all elections"
	ForTidiness   = "tidiness"
	ForSteering   = "status and step-down of one election"
	ForNote       = "writing the note"
	ForCordon     = "writing the cordon"
	ForFollower   = "hearing at once who follows"
	ForMaking     = "making the bucket"
	ForChanging   = "changing the bucket"
	ForList       = "bucket ls"
	ForRoster     = "the settings of the roster"
	ForAnnouncing = "announcing itself in the roster: without it, it is not in line"
	ForSeeing     = "seeing who stands: without it, a leader names nobody to follow it"
	ForWriting    = "writing elections" // which operators and creators need not
)

// Write is the answer to a write whose condition does not hold.
type Write struct {
	Skipped  bool     `json:"skipped,omitempty"` // the role writes none
	Accepted bool     `json:"accepted,omitempty"`
	Refusal  *Refusal `json:"refusal,omitempty"`
}

// Border are elections that the connection may write, and others.
type Border struct {
	May    []Text `json:"may,omitempty"`
	MayNot []Text `json:"may_not,omitempty"`
}

// Clock is what the host tells of its clock.
type Clock struct {
	Synced bool   `json:"synced,omitempty"`
	Silent string `json:"silent,omitempty"` // why it does not tell
}

// Client has options of the connection.
type Client struct {
	Ping  time.Duration `json:"ping_ns"`
	Flush time.Duration `json:"flush_ns"`
}

// Election is the newest revision of a key.
type Election struct {
	Name     Text      `json:"name"`
	Revision uint64    `json:"revision"`
	Value    Text      `json:"value,omitempty"`
	Marker   bool      `json:"marker,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	OneShot  bool      `json:"one_shot,omitempty"` // by its note: a deleted key is no trouble
	NoteWhy  string    `json:"note_why,omitempty"` // why its note is not known
}

// Status is what that says of the election.
func (e Election) Status() ElectionStatus {
	s := NewElectionStatus(string(e.Name), backend.Entry{Revision: e.Revision, Value: []byte(e.Value), Marker: e.Marker, Created: e.Created})
	s.Note.OneShot, s.Note.Unread = e.OneShot, e.NoteWhy
	return s
}

// There reports whether the key has a value.
func (e Election) There() bool { return e.Revision != 0 && !e.Marker }

// Cordon are the candidates that take no election.
type Cordon struct {
	Names []Text `json:"names,omitempty"`
	Fault string `json:"fault,omitempty"` // why the key holds no cordon
}

// Group is a group of shards.
type Group struct {
	Name Text             `json:"name"`
	View Fact[shard.View] `json:"view"` // at the server's time of the reading
}

// Pace is how much time has passed from one answer to another.
type Pace struct {
	Server    time.Duration `json:"server_ns"`
	Host      time.Duration `json:"host_ns"`
	Uncertain time.Duration `json:"uncertain_ns"`
}
