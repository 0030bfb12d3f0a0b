package hazards

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
)

// harmless are the fields of jetstream.StreamConfig that need no row, with the reason.
var harmless = map[string]string{
	"Name":               "it is how the stream was found",
	"Description":        "words",
	"Duplicates":         "it concerns messages with an ID, which package fence alone sends: all of a group within half of it",
	"Placement":          "it moves replicas, one after the other",
	"FirstSeq":           "tokens above all that were handed out come from the record, and from MinToken",
	"RePublish":          "natskv looks whether it serves as a feed; without one, candidates open consumers",
	"AllowDirect":        "without it reads go to the leader of the stream",
	"MirrorDirect":       "it concerns mirrors, which are refused",
	"ConsumerLimits":     "the consumers of this library ask for nothing that it limits",
	"Template":           "it names what has made the stream",
	"AllowAtomicPublish": "each message of a batch heeds its conditions",
	"AllowBatchPublish":  "it concerns those that publish in that way",
}

// within are the fields of the settings inside of those.
var within = map[reflect.Type][]string{
	reflect.TypeFor[jetstream.StreamSource]():           {"Name", "OptStartSeq", "OptStartTime", "FilterSubject", "SubjectTransforms", "External", "Domain", "Consumer"},
	reflect.TypeFor[jetstream.SubjectTransformConfig](): {"Source", "Destination"},
	reflect.TypeFor[jetstream.RePublish]():              {"Source", "Destination", "HeadersOnly"},
	reflect.TypeFor[jetstream.StreamConsumerLimits]():   {"InactiveThreshold", "MaxAckPending"},
	reflect.TypeFor[jetstream.Placement]():              {"Cluster", "Tags"},
}

// beyond are the fields of the server's configuration that nats.go does not know, by their names in JSON, with the reason
// why they are harmless.
var beyond = map[string]string{}

// Each field of a stream's configuration is in a row of the table, or is named as harmless. If a new release of nats.go or of the
// server has another field, this test fails until that field is in one of the two.
func TestTable_EveryField(t *testing.T) {
	unused, unknown, judged := maps.Clone(harmless), maps.Clone(beyond), make(map[string]bool)
	for _, r := range table {
		for field := range strings.FieldsSeq(r.fields) {
			judged[field] = true
		}
	}
	client, names := reflect.TypeFor[jetstream.StreamConfig](), make(map[string]bool)
	for i := range client.NumField() {
		f := client.Field(i)
		names[nameInJSON(f)] = true
		check.That(t, judged[f.Name] != (harmless[f.Name] != ""), "%s: the table names it: %v; harmless because %q", f.Name, judged[f.Name], harmless[f.Name])
		delete(judged, f.Name)
		delete(unused, f.Name)
	}
	check.That(t, len(judged)+len(unused) == 0, "no fields: %v, %v", judged, unused)
	for of, known := range within {
		for i := range of.NumField() {
			check.That(t, slices.Contains(known, of.Field(i).Name), "%v: nobody has judged %s", of, of.Field(i).Name)
		}
	}
	of := reflect.TypeFor[server.StreamConfig]()
	for i := range of.NumField() {
		name := nameInJSON(of.Field(i))
		check.That(t, names[name] != (beyond[name] != ""), "%s: nats.go knows it: %v; harmless because %q", name, names[name], beyond[name])
		delete(unknown, name)
	}
	check.Equal(t, len(unknown), 0, "%d fields that the server does not have")
}

func nameInJSON(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// Sources and transforms are hazards where they can reach what is kept.
func TestSubjects_Reach(t *testing.T) {
	type config = jetstream.StreamConfig
	type transform = jetstream.SubjectTransformConfig
	to := func(source, destination string) config {
		return config{SubjectTransform: &transform{Source: source, Destination: destination}}
	}
	source := func(filter string, transforms ...transform) config {
		return config{Sources: []*jetstream.StreamSource{{Name: "SAFE", FilterSubject: "other"}, {Name: "SRC", FilterSubject: filter, SubjectTransforms: transforms}}}
	}
	const transformed, sourced = "(SubjectTransform)", "takes what comes from stream SRC"
	for _, k := range []struct {
		name string
		c    config
		says string
	}{
		{"all transformed", to("", "x.>"), transformed},
		{"the guard transformed", to("g.*", "x.$1"), transformed},
		{"transformed to the guard", to("x", "g.a"), transformed},
		{"perhaps to the guard", to("x.*", "g.$1"), transformed},
		{"perhaps, in words", to("x.*", "g.{{wildcard(1)}}"), transformed},
		{"perhaps, whatever follows", to("x.*", "$1.a"), transformed},
		{"longer", to("x", "g.a.b"), ""},
		{"longer, whatever it is", to("x.*", "g.a.$1"), ""},
		{"shorter", to("x", "g"), ""},
		{"elsewhere", to("x.*", "h.$1"), ""},
		{"the first number", to("x.*", "g.$0"), transformed},
		{"the last digit", to("x.*", "g.$9"), transformed},
		{"a dollar", to("x", "g.$x"), ""},
		{"a dollar and a sign", to("x", "g.$-"), ""},
		{"a dollar alone", to("x", "g.$"), ""},
		{"a number without a dollar", to("x", "g.x1"), ""},
		{"all of a source", source(""), sourced},
		{"the guard of a source", source("g.>"), sourced},
		{"other parts of a source", source("h.>"), ""},
		{"a source's filter", source("", transform{Source: "h.>"}), ""},
		{"a source's filter of all", source("", transform{Source: "h.>"}, transform{Source: ""}), sourced},
		{"a source's filter of the guard", source("", transform{Source: "g.*"}), sourced},
		{"a source to the guard", source("", transform{Source: "h", Destination: "g.a"}), sourced},
		{"a source elsewhere", source("", transform{Source: "g.a", Destination: "h"}), ""},
	} {
		k.c.Subjects = []string{"g.*"}
		got := Stream{StreamConfig: k.c, Use: Guard, Whole: "g.a", Kept: "g.a"}.Refusal()
		check.That(t, (got == "") == (k.says == "") && strings.Contains(got, k.says), "%s: %q, want %q", k.name, got, k.says)
	}
	for _, k := range []struct {
		filter string
		want   bool
	}{
		{"$KV.b.e", true}, {"$KV.b.>", true}, {"$KV.*.e", true}, {"$KV.>", true}, {"*.b.e", true}, {"$KV.c.>", false}, {"$KV.b", false}, {"orders.>", false},
	} {
		c := config{Subjects: []string{"$KV.b.>"}, Sources: []*jetstream.StreamSource{{Name: "SRC", FilterSubject: k.filter}}}
		got := Bucket(c, Elections, "b").Refusal()
		check.Equal(t, got != "", k.want, "%v for a source of "+k.filter+"; want %v")
	}
}

// A setting next to a hazard is none.
func TestTable_Bounds(t *testing.T) {
	type config = jetstream.StreamConfig
	for name, set := range map[string]func(*config){
		"room for a guard":       func(c *config) { c.MaxMsgSize = guardRoom },
		"any size":               func(c *config) { c.MaxMsgSize = -1 },
		"a limit per subject":    func(c *config) { c.MaxMsgsPerSubject = 1 },
		"no limit per subject":   func(c *config) { c.DiscardNewPerSubject = true },
		"full, and takes none":   func(c *config) { c.MaxMsgs, c.MaxBytes, c.Discard = 1, 1, jetstream.DiscardNew },
		"unlimited":              func(c *config) { c.MaxMsgs, c.MaxBytes, c.MaxAge = -1, -1, 0 },
		"age, and a guard stays": func(c *config) { c.MaxAge, c.AllowMsgTTL = 1, true },
	} {
		c := config{Subjects: []string{"g.*"}}
		set(&c)
		got := Stream{StreamConfig: c, Use: Guard, Whole: "g.a", Kept: "g.a"}.Refusal()
		check.Equal(t, got, "", "%q; want %q for "+name)
	}
	c := config{Subjects: []string{"$KV.b.>"}, DenyDelete: true, DenyPurge: true, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardOld, MaxMsgs: -1, MaxBytes: -1}
	check.That(t, Bucket(c, Elections, "b").Protected(), "without a bound nothing is dropped")
	c.DenyPurge = false
	check.That(t, !Bucket(c, Elections, "b").Protected(), "a bucket that can be purged is protected")
}
