package natskv

import (
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/wire"
)

// Domain returns the JetStream domain of the bucket, or an empty string if there is none or it is not known yet.
func (b *Bucket) Domain() string {
	domain, _ := b.api.Domain()
	return domain
}

// keepDomain names the domain of a bucket in the metadata of its configuration. Only metadata that apply
// has copied are changed.
func keepDomain(conf *jetstream.StreamConfig, domain string) {
	if domain == "" {
		delete(conf.Metadata, wire.DomainKey)
		return
	}
	conf.Metadata[wire.DomainKey] = domain
}

// onLeaf returns the error of a bucket that EnsureBucket does not create on a leaf node. Candidates at the
// hub would elect another leader, in a bucket of the same name.
func (b *Bucket) onLeaf(domain string) error {
	return fmt.Errorf("%w: EnsureBucket does not make bucket %s on a leaf node, in the JetStream domain %q, because candidates at the hub would elect another leader: "+
		"name the domain of the hub by jetstream.NewWithDomain, or, for elections of this domain alone, %[3]q; or make the bucket by leader.CreateOrUpdateBucket",
		backend.ErrNoBucket, b.name, domain)
}

// judge returns the settings of the bucket, with an error if no election can work with it, or if it is
// not in the domain that it belongs to.
func (b *Bucket) judge(c jetstream.StreamConfig, payload int64) (backend.Settings, error) {
	s, err := settings(c, b.name, payload)
	if err == nil {
		err = b.misplaced(c.Metadata[wire.DomainKey])
	}
	return s, err
}

// misplaced returns an error if the last reply came from another domain than the one that the metadata
// name, or than that in which this bucket was first found. Metadata of a bucket that was made without
// knowing its domain name none.
func (b *Bucket) misplaced(made string) error {
	domain, known := b.api.Domain()
	if !known {
		return nil
	}
	if made != "" && made != domain {
		return fmt.Errorf("%w: stream %s is in %s, and was made in %s, where candidates may have a leader: name that domain by jetstream.NewWithDomain or --js-domain, "+
			"or make this the bucket by leader.CreateOrUpdateBucket or `natsleader bucket add %s`",
			backend.ErrIncompatibleBucket, b.api.Name, domainText(domain), domainText(made), b.name)
	}
	if b.home.CompareAndSwap(nil, &domain) {
		return nil
	}
	if home := *b.home.Load(); home != domain {
		return fmt.Errorf("%w: the server of the connection has stream %s in %s, and this process found it in %s: name the domain by jetstream.NewWithDomain or --js-domain, "+
			"or restart the process if the domain has another name now",
			backend.ErrIncompatibleBucket, b.api.Name, domainText(domain), domainText(home))
	}
	return nil
}

func domainText(domain string) string {
	if domain == "" {
		return "no JetStream domain"
	}
	return fmt.Sprintf("the JetStream domain %.100q", domain)
}
