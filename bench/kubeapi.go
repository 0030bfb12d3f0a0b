package main

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
	mux.HandleFunc("GET "+path+"/{name}", k.get)
	mux.HandleFunc("POST "+path, k.create)
	mux.HandleFunc("PUT "+path+"/{name}", k.update)
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

func (k *kubeServer) get(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	lease, ok := k.leases[key(r.PathValue("namespace"), r.PathValue("name"))]
	if !ok {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	answer(w, http.StatusOK, lease)
}

func (k *kubeServer) create(w http.ResponseWriter, r *http.Request) {
	var lease coordination.Lease
	if err := json.NewDecoder(r.Body).Decode(&lease); err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	at := key(r.PathValue("namespace"), lease.Name)
	if _, ok := k.leases[at]; ok {
		refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
		return
	}
	k.store(w, http.StatusCreated, at, &lease)
}

func (k *kubeServer) update(w http.ResponseWriter, r *http.Request) {
	var lease coordination.Lease
	if err := json.NewDecoder(r.Body).Decode(&lease); err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	at := key(r.PathValue("namespace"), r.PathValue("name"))
	old, ok := k.leases[at]
	switch {
	case !ok:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
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

func key(namespace, name string) string { return strings.Join([]string{namespace, name}, "/") }

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
