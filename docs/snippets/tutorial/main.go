package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		nats.PingInterval(time.Second), nats.FlusherTimeout(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	js, _ := jetstream.New(nc)
	bucket, err := leader.EnsureBucket(js, leader.BucketConfig{Name: "elections"}) // Replicas: 3 on a cluster
	if err != nil {
		log.Fatal(err)
	}
	s := &Service{Store: bucket, Mux: http.DefaultServeMux}
	s.Send = func(_ context.Context, token uint64) error {
		fmt.Println("invoices under token", token)
		return nil
	}
	go func() { log.Println(http.ListenAndServe(":8080", nil)) }()
	if err := s.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
