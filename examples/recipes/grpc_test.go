package recipes_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	health_v1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// forward serves calls on the leader, and forwards them on all other replicas. connection keeps one
// connection for each address.
func forward(c *leader.Candidate, connection func(address string) (*grpc.ClientConn, error)) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if c.IsLeader() { // asks the clock
			return handler(ctx, request)
		}
		h := c.Leader() // from memory; with the Value that the leader has published
		if h.State != leader.HolderLeading || len(metadata.ValueFromIncomingContext(ctx, "forwarded-by")) > 0 {
			return nil, status.Error(codes.Unavailable, "no leader") // clients try again
		}
		conn, err := connection(string(h.Value))
		if err != nil {
			return nil, err
		}
		reply, err := replyOf(info.FullMethod)
		if err != nil {
			return nil, err
		}
		ctx = metadata.AppendToOutgoingContext(ctx, "forwarded-by", c.ID()) // once, and never in a circle
		return reply, conn.Invoke(ctx, info.FullMethod, request, reply)
	}
}

// replyOf returns an empty message of the type that a method returns.
func replyOf(method string) (proto.Message, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, err
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.(protoreflect.MethodDescriptor).Output().FullName())
	if err != nil {
		return nil, err
	}
	return kind.New().Interface(), nil
}

// A follower forwards to the leader, once, and answers Unavailable where it knows of none.
func TestForward_ReachesLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		listeners := map[string]*bufconn.Listener{}
		conns := map[string]*grpc.ClientConn{}
		connection := func(address string) (*grpc.ClientConn, error) {
			if conn, ok := conns[address]; ok {
				return conn, nil
			}
			return nil, status.Errorf(codes.Unavailable, "nobody is at %s", address)
		}
		replica := func(id string, serves health_v1.HealthCheckResponse_ServingStatus) *leader.Candidate {
			c, err := leader.Campaign(t.Context(), store.Link(id), "e", leader.Config{ID: id, Value: []byte(id)})
			check.OK(t, err)
			s := grpc.NewServer(grpc.UnaryInterceptor(forward(c, connection)))
			answers := health.NewServer()
			answers.SetServingStatus("", serves)
			health_v1.RegisterHealthServer(s, answers)
			l := bufconn.Listen(1 << 16)
			listeners[id] = l
			go s.Serve(l) //nolint:errcheck // ends with Stop
			t.Cleanup(s.Stop)
			conn, err := grpc.NewClient("passthrough:"+id, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
			check.OK(t, err)
			conns[id] = conn
			t.Cleanup(func() { _ = conn.Close() })
			time.Sleep(time.Second)
			return c
		}
		ask := func(id string) (health_v1.HealthCheckResponse_ServingStatus, codes.Code) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, err := health_v1.NewHealthClient(conns[id]).Check(ctx, &health_v1.HealthCheckRequest{})
			return r.GetStatus(), status.Code(err)
		}
		a := replica("a", health_v1.HealthCheckResponse_SERVING)
		b := replica("b", health_v1.HealthCheckResponse_NOT_SERVING)
		for _, id := range []string{"a", "b"} {
			if got, code := ask(id); code != codes.OK || got != health_v1.HealthCheckResponse_SERVING {
				t.Errorf("%s answers %v, %v, which is not what the leader answers", id, got, code)
			}
		}
		store.Link("b").Cut() // so b does not hear that a hands over, and a has not heard of another leader
		check.OK(t, a.Stop())
		if got, code := ask("b"); code != codes.Unavailable {
			t.Errorf("b answers %v, %v", got, code)
		}
		store.Link("b").Restore()
		time.Sleep(time.Minute)
		if got, code := ask("b"); code != codes.OK || got != health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("b answers %v, %v", got, code)
		}
		check.OK(t, b.Stop())
	})
}
