package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// MaxCordon is how many names a cordon has at most, each of at most [MaxID] bytes.
const MaxCordon = 64

// maxCordonValue bounds the value of a cordon: JSON makes six bytes of one at most.
const maxCordonValue = 64 + MaxCordon*(6*MaxID+3)

// wireCordon is the value of the key of a cordon.
type wireCordon struct {
	Format int      `json:"v"` // cordonFormat
	Names  []string `json:"names"`
}

const cordonFormat = 1

// EncodeCordon returns the value of a cordon, or an error that names the bound that it exceeds. The names are sorted.
func EncodeCordon(names []string) ([]byte, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if err := checkCordon(names); err != nil {
		return nil, err
	}
	return json.Marshal(wireCordon{cordonFormat, names})
}

// DecodeCordon returns the names of a cordon, or an error for a value that is none. An empty value is an empty cordon.
func DecodeCordon(value []byte) ([]string, error) {
	if len(value) == 0 {
		return nil, nil
	}
	if len(value) > maxCordonValue {
		return nil, fmt.Errorf("the cordon has %d bytes, more than %d", len(value), maxCordonValue)
	}
	var w wireCordon
	if err := json.Unmarshal(value, &w); err != nil {
		return nil, errors.New("it is not the JSON of a cordon")
	}
	if w.Format != cordonFormat {
		return nil, fmt.Errorf("the cordon has the format %d, not %d", w.Format, cordonFormat)
	}
	return w.Names, checkCordon(w.Names)
}

func checkCordon(names []string) error {
	if len(names) > MaxCordon {
		return fmt.Errorf("the cordon has %d names, more than %d", len(names), MaxCordon)
	}
	for _, name := range names {
		if name == "" || len(name) > MaxID {
			return fmt.Errorf("the cordon has a name of %d bytes, not 1 to %d", len(name), MaxID)
		}
	}
	return nil
}

// Cordoned returns the first of the names that is the ID of a candidate, or the host of an ID that was made there.
func Cordoned(names []string, id string) (name string, ok bool) {
	if len(names) == 0 {
		return "", false
	}
	host := HostOf(id)
	i := slices.IndexFunc(names, func(name string) bool { return name == id || name == host })
	if i < 0 {
		return "", false
	}
	return names[i], true
}

// madeID is what follows the host in the ID of a candidate that was given none.
var madeID = regexp.MustCompile(`_\d+_[0-9a-z]+$`)

// HostOf returns the host on which an ID was made, or the ID if it was given.
func HostOf(id string) string { return madeID.ReplaceAllString(id, "") }

// OnHost reports whether an ID is that of a host, or one that was made on it.
func OnHost(id, host string) bool { return id == host || HostOf(id) == host }
