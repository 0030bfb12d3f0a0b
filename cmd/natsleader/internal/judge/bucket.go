package judge

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/hazards"
	"github.com/natsleader/natsleader/internal/wire"
)

// noJetStream reports whether no server answers for JetStream.
func (x *exam) noJetStream() bool {
	if x.stream.Refusal == nil {
		return false
	}
	switch x.stream.Refusal.Code {
	case facts.CodeNoResponders, facts.CodeNotEnabled, facts.CodeNotForAccount:
		return true
	}
	return false
}

func (x *exam) bucket() []Finding {
	name, no := x.Asked.Bucket, x.stream.Refusal
	f, unknown := x.missing("Settings", "bucket")
	switch {
	case x.noJetStream():
		return []Finding{unanswered("JetStream does not answer")}
	case no != nil && no.Code == facts.CodeNotFound:
		missing := Critical.of("bucket %s does not exist", name).advise(NeverSeen(name))
		missing.Code = BucketGone
		return []Finding{missing}
	case no != nil && no.Code == facts.CodeOffline:
		return []Finding{Critical.of("all servers that keep bucket %s are away: nobody can lead", name).
			advise("bring back a majority of them; docs/regions.md says what to do if their region is lost")}
	case no != nil:
		return []Finding{Critical.of("bucket %s: %s", name, no.Text)}
	case x.info == nil:
		return []Finding{unanswered("the answer about bucket %s is empty", name)}
	case unknown:
		return []Finding{f}
	case x.settings.Unfit != "":
		return []Finding{Critical.of("bucket %s: %s", name, x.settings.Unfit).advise("use a bucket that was made by natsleader bucket add")}
	}
	return []Finding{fine("bucket %s exists", name)}
}

// NeverSeen is the advice of a command that has never seen the bucket. JetStream keeps no trace of
// a deleted stream, so the bucket may have been deleted a moment ago.
func NeverSeen(bucket string) string {
	return fmt.Sprintf("if it was deleted, a leader of it may lead for one more lease (at most its MaxLease, which is %v by default and %d day at the most): wait for that; "+
		"then `natsleader bucket add %s` makes it, and needs its old settings", wire.DefaultLease, wire.MostMaxLease/(24*time.Hour), bucket)
}

// domain names the JetStream domain of the bucket, if it is in one, and buckets of the same name in other domains.
func (x *exam) domain() []Finding {
	if x.settings.Domain == "" {
		return nil
	}
	found := []Finding{fine("the bucket is in the JetStream domain %s", x.settings.Domain)}
	if f, missing := x.missing("Domains", "domain"); missing {
		return append(found, f)
	}
	var none []string
	domains, _ := x.Domains.Get()
	for i, d := range domains.Others {
		has, known := d.Has.Get()
		switch {
		case d.Name == "":
			found = append(found, unread("servers in no domain have JetStream, too: whether they have the bucket can be seen only there"))
		case !known:
			g := x.gaps[fmt.Sprintf("Domains.Others[%d].Has", i)]
			g.Text = fmt.Sprintf("the JetStream domain %s: %s", d.Name, g.Words())
			found = append(found, x.gap(g, "domain"))
		case has:
			found = append(found, Note.of("the JetStream domain %s has a bucket of this name, too: the elections there have leaders of their own", d.Name).
				advise(fmt.Sprintf("if each election shall have one leader, let all candidates name one domain (jetstream.NewWithDomain, --js-domain), and remove the other bucket: natsleader bucket rm %s --js-domain %s", x.Asked.Bucket, d.Name)))
		default:
			none = append(none, d.Name)
		}
	}
	if len(none) > 0 {
		found[0].Text += ", and not in " + strings.Join(none, ", ")
	}
	if domains.More > 0 {
		found = append(found, unread("%d more JetStream domains", domains.More))
	}
	return found
}

// hazardsOf returns the hazards of the bucket with that effect.
func (x *exam) hazardsOf(effect hazards.Effect) []hazards.Hazard {
	return hazards.Bucket(x.info.Config, hazards.Elections, x.Asked.Bucket).Of(effect)
}

// costs names what the settings cost, where records stay and elections work.
func (x *exam) costs() (found []Finding) {
	for _, h := range x.hazardsOf(hazards.Reported) {
		found = append(found, Warning.of("the bucket %s", h.Text).advise(cmp.Or(h.Remedy, x.reshape())))
	}
	for _, h := range x.hazardsOf(hazards.Noted) {
		found = append(found, Note.of("the bucket %s", h.Text).advise(cmp.Or(h.Remedy, x.reshape())))
	}
	if len(found) == 0 {
		return []Finding{fine("no setting of the bucket costs more than it needs")}
	}
	return found
}

// protection names the settings by which a record can vanish.
func (x *exam) protection() []Finding {
	found := x.hazardsOf(hazards.Unprotected)
	if len(found) == 0 {
		return []Finding{fine("the bucket is purge-protected: no record can vanish")}
	}
	advice := ""
	for _, h := range found {
		advice = cmp.Or(advice, h.Remedy)
	}
	return []Finding{Warning.of("the bucket is not purge-protected, records can vanish: it %s", hazards.Join(found)).
		advise(cmp.Or(advice, x.reshape()))}
}

func (x *exam) ttl() []Finding {
	ttl, lease := x.info.Config.MaxAge, x.lease()
	switch {
	case ttl <= 0:
		return []Finding{fine("records do not expire")}
	case lease > ttl:
		return []Finding{Critical.of("the TTL of %v is shorter than leases of %v: candidates refuse to stand", ttl, lease).
			advise("use shorter leases, or a longer TTL")}
	case lease > ttl*2/3:
		return []Finding{Warning.of("the TTL of %v is close to leases of %v: a server whose clock is ahead drops a leader's record", ttl, lease).
			advise("use leases of at most two thirds of the TTL")}
	case x.info.Config.SubjectDeleteMarkerTTL == 0:
		return []Finding{Note.of("records expire after %v without a marker, so that nobody hears of it; an empty key is led one TTL later", ttl).
			advise(x.reshape() + " --ttl " + ttl.String())}
	default:
		return []Finding{fine("records expire after %v, longer than leases of %v; an empty key is led one TTL later", ttl, lease)}
	}
}

func (x *exam) maxLease() []Finding {
	switch {
	case x.settings.Unfit != "": // the check bucket has found that
		return []Finding{unread("MaxLease: %s", x.settings.Unfit)}
	case x.settings.MaxLease > 0:
		return []Finding{fine("MaxLease is %v", x.settings.MaxLease)}
	}
	return []Finding{Warning.of("the bucket has no MaxLease: candidates of an election that use different leases can lead at the same time").
		advise(x.reshape() + " --max-lease " + x.lease().String())}
}

func (x *exam) republish() []Finding {
	if x.settings.FeedSubject != "" {
		return []Finding{fine("changes are republished on %s.>", x.settings.FeedSubject)}
	}
	text := "the bucket does not republish"
	if r := x.info.Config.RePublish; r != nil {
		text = fmt.Sprintf("the bucket republishes %q to %q, which is no use to an election", r.Source, r.Destination)
	}
	return []Finding{Warning.of("%s: each waiting candidate costs the server a consumer, and takes up to 20 s longer to notice when a server goes away", text).
		advise(x.reshape())}
}

// lossOfServer is how long a lease has to be to outlive the loss of one server out of
// three with certainty. The loss stops writes for 5 to 8 s.
const lossOfServer = 12 * time.Second

func (x *exam) leases() []Finding {
	lease, most := x.lease(), x.settings.MaxLease
	if most > 0 && lease > most {
		return []Finding{Critical.of("leases of %v are longer than the bucket's MaxLease %v: candidates refuse to stand", lease, most).
			advise("use shorter leases, or raise it: " + x.addLine("--max-lease", lease.String()))}
	}
	var found []Finding
	if x.Asked.Lease > 0 && most > 4*lease {
		found = append(found, Note.of("leases of %v are much shorter than MaxLease %v: after somebody deletes a leader's key, nobody leads for as long as MaxLease", lease, most).
			advise("lower it: "+x.addLine("--max-lease", lease.String())))
	}
	if lease < lossOfServer && x.info.Config.Replicas > 1 {
		found = append(found, Note.of("leases of %v cannot promise to outlive the loss of one server, which stops writes for 5 to 8 s", lease).
			advise("use leases of 12 s or more, if a change of leader costs more than a late one"))
	}
	if len(found) == 0 {
		found = append(found, fine("leases of %v", lease))
	}
	return found
}

// full is the share of a limit from which doctor reports it.
const full = 0.9

// limits judges the limits that make the server reject renewals when they are used up.
func (x *exam) limits() []Finding {
	var found []Finding
	c, state := x.info.Config, x.info.State
	gauge := func(what string, used uint64, limit int64) {
		if limit <= 0 || float64(used) < full*float64(limit) {
			return
		}
		s := Warning
		if used >= uint64(limit) {
			s = Critical
		}
		found = append(found, s.of("%s: %d of %d in use; when it is full, renewals are refused and leaders fenced", what, used, limit).
			advise("raise the limit, or make room"))
	}
	// With discard old, the server evicts records instead: see protection.
	if c.Discard == jetstream.DiscardNew {
		gauge("MaxMsgs of the bucket", state.Msgs, c.MaxMsgs)
		gauge("MaxBytes of the bucket", state.Bytes, c.MaxBytes)
	}
	a, _ := x.Account.Get()
	switch f, missing := x.missing("Account", "limits"); {
	case missing:
		found = append(found, f)
	case c.Storage == jetstream.MemoryStorage:
		gauge("memory of the account, in bytes", a.Memory, a.MaxMemory)
	default:
		gauge("storage of the account, in bytes", a.Store, a.MaxStore)
	}
	if len(found) == 0 {
		found = append(found, fine("there is room in the bucket and in the account"))
	}
	return found
}

// store judges what became of a message in a stream like the bucket's.
func (x *exam) store() []Finding {
	s, _ := x.Store.Get()
	var f Finding
	names, vacant := x.absent()
	refused := s.Refused
	if s.Silent != "" {
		refused = fmt.Sprintf("%s in %v", s.Silent, x.Asked.Wait)
	}
	switch {
	case s.Skipped != "":
		f = unread("%s", s.Skipped)
	case s.Silent != "" && len(names)+vacant > 0:
		f = unread("whether a message can be stored: servers are missing, and %s", refused)
	case s.NoPlace != "" && len(names)+vacant > 0:
		f = unread("whether a message can be stored: servers are missing (%s)", s.NoPlace)
	case s.NoPlace != "":
		f = unanswered("whether a message can be stored: %s", s.NoPlace)
	case refused != "":
		f = Critical.of("the servers can store nothing in %s storage now: %s", Storage(x.info.Config.Storage), refused).
			advise("make room on the disks of the stream's servers, or raise the limits of the account; a server whose disk was full refuses writes until it is restarted")
	case s.Size > 0:
		f = fine("a message of %d bytes is stored in %v, in a stream like the bucket's", s.Size, roundish(s.Took))
	}
	if s.Left == "" {
		return []Finding{f}
	}
	return []Finding{f, Warning.of("stream %s of doctor may be left behind: %s", s.Left, s.LeftWhy).advise("delete it with: nats stream rm " + s.Left)}
}

// Storage is the name of a storage.
func Storage(s jetstream.StorageType) string {
	if s == jetstream.MemoryStorage {
		return "memory"
	}
	return "file"
}

// RecordSize is the size of a record without its value, with some room.
const RecordSize = 1024

func (x *exam) payload() []Finding {
	switch most := x.settings.MaxValue; {
	case most == 0 || most >= wire.MaxValue+RecordSize:
		return []Finding{fine("records of any size fit into a message")}
	case most < RecordSize:
		return []Finding{Critical.of("messages of at most %d bytes are too small for records", most).
			advise("raise max_payload of the server or the account, or MaxMsgSize of the bucket")}
	default:
		return []Finding{Note.of("values of more than about %d bytes do not fit into a message", most-RecordSize)}
	}
}
