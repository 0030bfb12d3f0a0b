package hazards

import (
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
)

// guardRoom is the size that a message of a guard may need: its headers, and a record with the longest ID and the names of
// a bucket and an election.
const guardRoom = 1536

// row is a hazard of the table.
type row struct {
	fields  string       // of jetstream.StreamConfig that it looks at
	effects [uses]Effect // for elections, a guard, a roster, a history
	of      func(Stream) string
	remedy  string
}

// table has the refusals first, then what loses records, then the rest. A field that no row names is harmless, for the
// reason that the test of the table gives.
var table = []row{
	// It takes no writes, or none of what is kept.
	{"Mirror", [uses]Effect{Refused, Refused, Refused, None}, func(s Stream) string {
		if s.Mirror == nil {
			return ""
		}
		return fmt.Sprintf("is a mirror of stream %s, and takes no writes", s.Mirror.Name)
	}, "use the stream that it mirrors"},
	{"Sealed", [uses]Effect{Refused, Refused, Refused, Reported}, func(s Stream) string {
		return text(s.Sealed, "is sealed, and takes no writes")
	}, "make another"},
	{"NoAck", [uses]Effect{Refused, Refused, Refused, None}, func(s Stream) string {
		return text(s.NoAck, "acknowledges nothing (NoAck)")
	}, "switch NoAck off"},
	{"Subjects", [uses]Effect{Refused, Refused, Refused, None}, func(s Stream) string {
		covers := func(sub string) bool { return jsapi.Covers(sub, s.Whole) }
		return text(!slices.ContainsFunc(s.Subjects, covers), "stores no %s: none of its subjects %q covers that", s.Whole, s.Subjects)
	}, ""},
	{"AllowMsgCounter", [uses]Effect{Refused, Refused, Refused, None}, func(s Stream) string {
		return text(s.AllowMsgCounter, "takes nothing but counters (AllowMsgCounter)")
	}, "use another"},
	{"DiscardNewPerSubject MaxMsgsPerSubject", [uses]Effect{Refused, Refused, Refused, None}, func(s Stream) string {
		return text(s.DiscardNewPerSubject && s.MaxMsgsPerSubject > 0,
			"refuses more than %d messages of a subject, and so to replace one (MaxMsgsPerSubject with DiscardNewPerSubject)", s.MaxMsgsPerSubject)
	}, "switch DiscardNewPerSubject off"},
	{"MaxMsgSize", [uses]Effect{None, Refused, None, None}, func(s Stream) string { // records: backend.Settings.MaxValue
		size := s.MaxMsgSize
		return text(0 < size && size < guardRoom, "takes messages of up to %d bytes (MaxMsgSize), less than the %d that a guard may need", size, guardRoom)
	}, "raise MaxMsgSize"},
	{"Metadata", [uses]Effect{Refused, None, None, None}, func(s Stream) string {
		of := s.Metadata[wire.RosterOfKey]
		return text(of != "", "is the roster of bucket %.100q", of)
	}, "elections need another bucket"},

	// It forgets what it has acknowledged.
	{"PersistMode", [uses]Effect{Refused, Refused, Reported, Reported}, func(s Stream) string {
		return text(s.PersistMode == jetstream.AsyncPersistMode, "acknowledges what a crash of the server can undo (PersistMode async)")
	}, "make another, because this setting cannot be changed"},
	{"Retention", [uses]Effect{Refused, Refused, Refused, Reported}, func(s Stream) string {
		return text(s.Retention != jetstream.LimitsPolicy, "drops what consumers have read (Retention %v)", s.Retention)
	}, "make another, with retention by limits"},

	// It stores what no writer has written on its conditions.
	{"SubjectTransform", [uses]Effect{Refused, Refused, Refused, None}, func(s Stream) string {
		t := s.SubjectTransform
		if t == nil {
			return ""
		}
		return text(diverts(*t, s.Kept), "stores %q as %q (SubjectTransform), and so changes what is at %s", t.Source, t.Destination, s.Kept)
	}, "remove the transform"},
	{"Sources", [uses]Effect{Refused, Refused, Refused, None}, func(s Stream) string {
		for _, src := range s.Sources {
			if reaches(src, s.Kept) {
				return fmt.Sprintf("takes what comes from stream %s without conditions (Sources), and can so overwrite what is at %s", src.Name, s.Kept)
			}
		}
		return ""
	}, "remove that source"},

	// It loses records.
	{"MaxAge AllowMsgTTL", [uses]Effect{None, Refused, None, None}, func(s Stream) string {
		return text(s.MaxAge > 0 && !s.AllowMsgTTL, "drops messages after %v (MaxAge without AllowMsgTTL)", s.MaxAge)
	}, "set AllowMsgTTL, or no MaxAge"},
	{"MaxAge", [uses]Effect{Unprotected, None, None, None}, func(s Stream) string {
		return text(s.MaxAge > 0, "drops records after %v (MaxAge)", s.MaxAge)
	}, "make a bucket without a TTL; leases end without one, too"},
	{"AllowMsgTTL", [uses]Effect{Unprotected, None, None, None}, func(s Stream) string {
		return text(s.AllowMsgTTL, "takes messages with TTLs (AllowMsgTTL)")
	}, "make another, because message TTLs cannot be switched off again"},
	{"Discard MaxMsgs", [uses]Effect{Unprotected, Refused, Reported, None}, func(s Stream) string {
		return text(s.MaxMsgs > 0 && s.Discard == jetstream.DiscardOld, "drops its oldest messages when it is full (MaxMsgs %d with discard old)", s.MaxMsgs)
	}, ""},
	{"Discard MaxBytes", [uses]Effect{Unprotected, Refused, Reported, None}, func(s Stream) string {
		return text(s.MaxBytes > 0 && s.Discard == jetstream.DiscardOld, "drops its oldest messages when it is full (MaxBytes %d with discard old)", s.MaxBytes)
	}, ""},
	{"DenyDelete", [uses]Effect{Unprotected, None, None, None}, func(s Stream) string {
		return text(!s.DenyDelete, "lets messages be deleted (no DenyDelete)")
	}, ""},
	{"DenyPurge", [uses]Effect{Unprotected, None, None, None}, func(s Stream) string {
		return text(!s.DenyPurge, "can be purged (no DenyPurge)")
	}, ""},
	{"AllowRollup", [uses]Effect{Unprotected, None, None, None}, func(s Stream) string {
		return text(s.AllowRollup, "lets the writer of one key wipe the others (AllowRollup)")
	}, ""},
	{"SubjectDeleteMarkerTTL", [uses]Effect{Unprotected, None, None, None}, func(s Stream) string {
		return text(s.SubjectDeleteMarkerTTL > 0, "drops its markers after %v (SubjectDeleteMarkerTTL)", s.SubjectDeleteMarkerTTL)
	}, ""},
	{"AllowMsgSchedules", [uses]Effect{Unprotected, Reported, Reported, None}, func(s Stream) string {
		return text(s.AllowMsgSchedules, "lets the writer of one key have others overwritten later (AllowMsgSchedules)")
	}, "make another, because message schedules cannot be switched off again"},
	{"Storage Replicas", [uses]Effect{Reported, Reported, None, Reported}, func(s Stream) string {
		losses := "its server restarts"
		if s.Replicas > 1 {
			losses = "a majority of its servers is down at the same time"
		}
		return text(s.Storage == jetstream.MemoryStorage, "is in memory (Storage): when %s, all that it knows is forgotten", losses)
	}, "make another with file storage; the storage of this one cannot be changed"},
	{"Compression", [uses]Effect{Noted, Noted, None, Noted}, func(s Stream) string {
		return text(s.Compression != jetstream.NoCompression, "is compressed (Compression %v): an upgrade of three servers was seen to make such a stream unreadable", s.Compression)
	}, "switch compression off; records are small"},

	// The library works with it, at a greater cost or with less information.
	{"MaxMsgsPerSubject", [uses]Effect{Reported, None, None, None}, func(s Stream) string {
		return text(s.MaxMsgsPerSubject <= 0, "keeps every renewal that ever was (MaxMsgsPerSubject is unlimited), and grows for ever")
	}, ""},
	{"MaxMsgsPerSubject", [uses]Effect{Noted, None, Reported, None}, func(s Stream) string {
		return text(s.MaxMsgsPerSubject != 1 && (s.MaxMsgsPerSubject > 1 || s.Use == Roster), "keeps what is out of date (MaxMsgsPerSubject %d)", s.MaxMsgsPerSubject)
	}, ""},
	{"MaxConsumers", [uses]Effect{Noted, None, Reported, None}, func(s Stream) string {
		return text(s.MaxConsumers > 0, "allows no more than %d consumers (MaxConsumers)", s.MaxConsumers)
	}, "raise MaxConsumers"},
	{"AllowMsgTTL", [uses]Effect{None, None, Reported, None}, func(s Stream) string {
		return text(!s.AllowMsgTTL, "lets nothing lapse (no AllowMsgTTL)")
	}, ""},
	{"SubjectDeleteMarkerTTL", [uses]Effect{None, None, Reported, None}, func(s Stream) string {
		return text(s.SubjectDeleteMarkerTTL <= 0, "gives no sign of what lapses (no SubjectDeleteMarkerTTL)")
	}, ""},
	{"Discard MaxMsgs MaxBytes", [uses]Effect{None, None, Reported, None}, func(s Stream) string {
		return text(s.Discard == jetstream.DiscardNew && max(s.MaxMsgs, s.MaxBytes) > 0, "holds only so many (MaxMsgs, MaxBytes)")
	}, ""},
}

// text returns a sentence if it holds.
func text(holds bool, format string, args ...any) string {
	if !holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}
