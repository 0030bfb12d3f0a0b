package backend

// Sealed is the method of leader.Store, for a Store, and of leader.Guard, for a Guard. Those
// embed it under an unexported alias, so that their documentation does not show it.
type Sealed[P any] interface {
	Backend() P
}

// Seal has the method of [Sealed] for the exported types that embed it, also under an
// unexported alias. The zero value has no port.
type Seal[P any] struct{ port P }

// NewSeal returns the seal of a port.
func NewSeal[P any](port P) Seal[P] { return Seal[P]{port} }

// Backend returns the port, or nil if there is none.
func (s Seal[P]) Backend() P { return s.port }

// Marked is a store of package leader with what packages seats, kvelect and shard say of its elections.
type Marked struct {
	Sealed[Store]
	Seats   int  // leaders at once; 0: not said
	KVElect bool // processes of nats-kv-leader-elect share the keys

	Uncordoned bool // the elections of a group: the cordon does not concern their candidates
}
