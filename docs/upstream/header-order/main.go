// Command header-order shows that nats-server 2.11.0 to 2.11.6 stores some messages although a condition on
// another subject does not hold. It is for a server with JetStream that may lose its stream
// HEADER_ORDER: header-order [URL].
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	address := nats.DefaultURL
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	if err := run(context.Background(), address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	nc, err := nats.Connect(address)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if _, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "HEADER_ORDER", Subjects: []string{"header_order.>"}}); err != nil {
		return err
	}
	defer func() { _ = js.DeleteStream(ctx, "HEADER_ORDER") }()
	stale, err := js.Publish(ctx, "header_order.guard", nil)
	if err != nil {
		return err
	}
	if _, err = js.Publish(ctx, "header_order.guard", nil); err != nil {
		return err
	}
	const n = 400
	stored := 0
	for range n {
		m := nats.NewMsg("header_order.data")
		m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, "header_order.guard")
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(stale.Sequence, 10))
		_, err := js.PublishMsg(ctx, m) // nats.go writes the two headers in the order of a map
		var api *jetstream.APIError
		switch {
		case err == nil:
			stored++
		case !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence:
			return err
		}
	}
	fmt.Printf("nats-server %s has stored %d of %d messages whose condition does not hold\n", nc.ConnectedServerVersion(), stored, n)
	if stored > 0 {
		return errors.New("the condition was ignored")
	}
	return nil
}
