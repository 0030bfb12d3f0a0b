package natskv

import (
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// Foreseen is what the answers to the first requests of a lock will be, unless another client has changed something.
type Foreseen struct {
	Settings backend.Settings // as they were last read; without what changes all the time
	Entry    backend.Entry    // what this process has left at the key; no message: it has never written there
	Cordon   []string         // the names on the cordon
}

// taken is remembered of a key that this process has last written, or tried to write, for a lock that it held or sought.
type taken struct{}

// Foresee returns what the answers will be. It returns false if the settings were not read since the connection was last
// made, or the cordon never, if the bucket is not purge-protected, or if the key was not free when this process last
// wrote or read it.
func (b *Bucket) Foresee(key string) (f Foreseen, ok bool) {
	conf := b.api.Known.Load()
	cordon := b.cordon.last.Load()
	if conf == nil || cordon == nil || b.memory.Recall(key) != nil { // another holds it, as was last seen
		return f, false
	}
	s, err := b.judge(*conf, b.api.MaxPayload())
	if err != nil || !s.PurgeProtected {
		return f, false
	}
	f.Settings, f.Cordon = s, *cordon
	switch last := b.freed.Recall(key).(type) {
	case taken:
		return f, false
	case backend.Entry:
		f.Entry = last
	}
	f.Settings.LastRevision = f.Entry.Revision
	return f, true
}

// Taken remembers that this process tries to take a key for a lock, or holds it.
func (b *Bucket) Taken(key string) { b.freed.Remember(key, taken{}) }

// Freed remembers a release that is stored. created is the server's time then, in Unix nanoseconds, or 0.
func (b *Bucket) Freed(key string, value []byte, revision uint64, created int64) {
	e := backend.Entry{Revision: revision, Value: value}
	if created != 0 {
		e.Created = time.Unix(0, created)
	}
	b.freed.Remember(key, e)
}
