package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

func clientgoSystem() system {
	of := func(lease time.Duration) settings {
		retry := lease * 2 / 15
		// A waiting candidate pauses for the retry period and up to 1.2 times that more
		// (JitterFactor).
		return settings{Lease: lease, Renew: retry, Poll: retry * 22 / 10, Late: retry*22/10 + time.Second}
	}
	return system{
		name:      "client-go",
		libraries: []string{"k8s.io/client-go"},
		serve:     serveKube,
		ready:     30 * time.Millisecond,
		dial:      dialKube,
		usual:     of(15 * time.Second), // 15, 10 and 2 s are those of Kubernetes itself
		// The record has its time of renewal in whole seconds, and a waiting candidate takes a
		// record with an equal time for an old one. So the retry period must be a second.
		short: of(8 * time.Second),
	}
}

var quietKlog = sync.OnceFunc(func() {
	klog.SetLogger(logr.Discard())
})

func dialKube(addr string, s settings) (client, error) {
	quietKlog()
	cfg := &rest.Config{
		Host:          "http://" + addr,
		QPS:           -1,          // without the limit of 5 requests per second
		Timeout:       s.Lease / 3, // half of the renew deadline, as resourcelock.NewFromKubeconfig has it
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
	// Kubernetes multiplexes requests on HTTP/2 with TLS. Here they share 64 connections.
	transport := &http.Transport{MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64}
	c, err := coordinationv1.NewForConfigAndClient(cfg, &http.Client{Transport: transport, Timeout: cfg.Timeout})
	if err != nil {
		return nil, err
	}
	return &kubeClient{c: c, transport: transport, s: s}, nil
}

type kubeClient struct {
	c         *coordinationv1.CoordinationV1Client
	transport *http.Transport
	s         settings
}

func (c *kubeClient) close() { c.transport.CloseIdleConnections() }

func (c *kubeClient) campaign(election, id string) candidate {
	k := &kubeCandidate{}
	le, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "bench", Name: election},
			Client:     c.c,
			LockConfig: resourcelock.ResourceLockConfig{Identity: id},
		},
		LeaseDuration:   c.s.Lease,
		RenewDeadline:   c.s.Lease * 2 / 3,
		RetryPeriod:     c.s.Renew,
		ReleaseOnCancel: true,
		Name:            election,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				k.mu.Lock()
				k.term = ctx
				k.mu.Unlock()
				k.set()
			},
			OnStoppedLeading: func() {},
		},
	})
	k.err = err
	k.start(func(ctx context.Context) {
		if err == nil {
			le.Run(ctx)
		}
	})
	return k
}

type kubeCandidate struct {
	running
	err error

	mu   sync.Mutex
	term context.Context // of OnStartedLeading
}

func (k *kubeCandidate) leads() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.term != nil && k.term.Err() == nil
}

func (k *kubeCandidate) resign(ctx context.Context) error {
	return errors.Join(k.running.resign(ctx), k.err)
}
