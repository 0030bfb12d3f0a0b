package facts

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// MostFile bounds a file in bytes.
const MostFile = 64 << 20

// format is that of the files. A new fact raises it: an older program would judge without it.
const format = 1

const program = "natsleader doctor"

// file are facts as they are saved.
type file struct {
	Program string  `json:"program"`
	Format  int     `json:"format"`
	Version string  `json:"version"` // of natsleader
	Facts   *Bucket `json:"facts"`
}

// Save returns the facts for a file.
func Save(b Bucket, version string) ([]byte, error) {
	text, err := json.MarshalIndent(file{program, format, version, &b}, "", " ")
	if len(text) > MostFile {
		err = fmt.Errorf("the facts take %d bytes, and a file %d at most", len(text), MostFile)
	}
	return text, err
}

// Load returns the facts that are in a file.
func Load(text []byte) (Bucket, error) {
	var f file
	var head struct {
		Program, Version string
		Format           int
	}
	err := json.Unmarshal(text, &head)
	switch {
	case len(text) > MostFile:
		return Bucket{}, fmt.Errorf("it has more than %d bytes", MostFile)
	case err != nil || head.Program != program:
		return Bucket{}, errors.New("it is not a file of natsleader doctor --save, or it is damaged")
	case head.Format > format:
		return Bucket{}, fmt.Errorf("it has format %d, of natsleader %s: use that version, or a later one", head.Format, Text(head.Version))
	}
	if err = json.Unmarshal(text, &f); err == nil && (f.Facts == nil || f.Facts.Asked.Bucket == "" || !f.Facts.whole()) {
		err = errors.New("a part is missing")
	}
	if err != nil {
		return Bucket{}, fmt.Errorf("it is damaged: %w", err)
	}
	return *f.Facts, nil
}

// whole reports whether the streams have all that their readers give them.
func (b *Bucket) whole() bool {
	for _, f := range []Fact[Stream]{b.Stream, b.Roster, b.History} {
		clusters := []*jetstream.ClusterInfo{f.value.Looks.First, f.value.Looks.Last}
		if info := f.value.Info; info != nil {
			if f.value.At.IsZero() || slices.Contains(info.Config.Sources, nil) {
				return false
			}
			clusters = append(clusters, info.Cluster)
		}
		for _, c := range clusters {
			if c != nil && slices.Contains(c.Replicas, nil) {
				return false
			}
		}
	}
	_, read := b.Elections.Get()
	return !read || !b.Elections.From().At.IsZero() // their leases are judged at that time
}
