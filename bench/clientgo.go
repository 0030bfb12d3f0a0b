package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		notes: map[string]string{measureLock: "has no lock"},
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
	k := &kubeClient{c: c, transport: transport, s: s}
	// Connects.
	if _, err = c.Leases("bench").Get(context.Background(), "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		k.close()
		return nil, err
	}
	return k, nil
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
			OnStartedLeading: k.lead,
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
}

func (k *kubeCandidate) resign(ctx context.Context) error {
	return errors.Join(k.running.resign(ctx), k.err)
}

// kubeServer is the part of the API server of Kubernetes that a LeaseLock needs: get, create
// and update of leases of coordination.k8s.io/v1 over HTTP. An update must carry the resource
// version of the lease that it replaces.
type kubeServer struct {
	l     net.Listener
	s     *http.Server
	count atomic.Uint64

	mu      sync.Mutex
	version uint64
	leases  map[string]*coordination.Lease
}

func serveKube() (server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &kubeServer{l: l, leases: make(map[string]*coordination.Lease)}
	mux := http.NewServeMux()
	const path = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
	for _, pattern := range []string{"GET " + path + "/{name}", "POST " + path, "PUT " + path + "/{name}"} {
		mux.HandleFunc(pattern, k.serve)
	}
	k.s = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.count.Add(1)
		mux.ServeHTTP(w, r)
	})}
	go func() { _ = k.s.Serve(l) }()
	return k, nil
}

func (k *kubeServer) addr() string     { return k.l.Addr().String() }
func (k *kubeServer) requests() uint64 { return k.count.Load() }
func (k *kubeServer) close()           { _ = k.s.Close() }

// serve answers a request to get, create or update a lease.
func (k *kubeServer) serve(w http.ResponseWriter, r *http.Request) {
	var lease coordination.Lease
	if r.Method != http.MethodGet && json.NewDecoder(r.Body).Decode(&lease) != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	at := r.PathValue("namespace") + "/" + cmp.Or(r.PathValue("name"), lease.Name)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch old, exists := k.leases[at]; {
	case r.Method == http.MethodPost && exists:
		refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
	case r.Method == http.MethodPost:
		k.store(w, http.StatusCreated, at, &lease)
	case !exists:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodGet:
		answer(w, http.StatusOK, old)
	case lease.ResourceVersion != old.ResourceVersion:
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
	default:
		k.store(w, http.StatusOK, at, &lease)
	}
}

// store gives the lease the next resource version. Its caller holds mu.
func (k *kubeServer) store(w http.ResponseWriter, code int, at string, lease *coordination.Lease) {
	k.version++
	lease.ResourceVersion = strconv.FormatUint(k.version, 10)
	lease.TypeMeta = metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}
	k.leases[at] = lease
	answer(w, code, lease)
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reason, Code: int32(code), Message: string(reason),
	})
}
