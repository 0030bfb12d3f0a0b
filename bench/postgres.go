package main

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"net/url"
	"time"

	_ "github.com/lib/pq" // the driver "postgres"
)

// postgresEnv is the URL of a PostgreSQL server, as postgres://user@host:port/database?sslmode=disable. Without it
// PostgreSQL is not measured.
const postgresEnv = "NATSLEADER_BENCH_POSTGRES"

// postgresSystem is an advisory lock of a session. Candidates and locks of one client share its session, in which one
// lock can be taken again and again.
func postgresSystem(dsn string) system {
	none := "an advisory lock has no lease: it is lost with the session, which the server may notice late"
	return system{
		name:      "PostgreSQL",
		libraries: []string{"github.com/lib/pq"},
		serve: func() (server, error) {
			u, err := url.Parse(dsn)
			return postgresServer{u}, err
		},
		ready: 30 * time.Millisecond,
		dial: func(addr string, _ settings) (client, error) {
			u, err := url.Parse(dsn)
			if err != nil {
				return nil, err
			}
			u.Host = addr
			db, err := sql.Open("postgres", u.String())
			if err != nil {
				return nil, err
			}
			db.SetMaxOpenConns(1)
			return &postgresClient{db}, db.Ping()
		},
		notes: map[string]string{
			measureCrash: none, measureCut: none, measurePause: none, measureWaiting: none, measureLeading: none, measureRenewal: none,
		},
	}
}

// postgresServer is a server that runs already. It does not count requests.
type postgresServer struct{ u *url.URL }

func (s postgresServer) addr() string     { return s.u.Host }
func (s postgresServer) requests() uint64 { return 0 }
func (s postgresServer) close()           {}

type postgresClient struct{ db *sql.DB }

func (c *postgresClient) close() { _ = c.db.Close() }

func (c *postgresClient) campaign(election, id string) candidate {
	p := &postgresCandidate{}
	p.start(func(ctx context.Context) {
		l := c.lock(election, id)
		if l.take(ctx) != nil {
			return
		}
		p.lead(ctx)
		<-ctx.Done()
		_ = l.giveBack(context.WithoutCancel(ctx))
	})
	return p
}

type postgresCandidate struct{ running }

func (c *postgresClient) lock(name, _ string) lock {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return postgresLock{c.db, int64(h.Sum64())}
}

type postgresLock struct {
	db  *sql.DB
	key int64
}

// call calls a function with the key, in one round trip: with arguments of the statement there would be another one.
func (l postgresLock) call(ctx context.Context, function string, result any) error {
	return l.db.QueryRowContext(ctx, fmt.Sprintf("SELECT %s(%d)", function, l.key)).Scan(result)
}

func (l postgresLock) take(ctx context.Context) error {
	var nothing any
	return l.call(ctx, "pg_advisory_lock", &nothing)
}

func (l postgresLock) try(ctx context.Context) error {
	var taken bool
	if err := l.call(ctx, "pg_try_advisory_lock", &taken); err != nil || taken {
		return err
	}
	return errHeld
}

func (l postgresLock) giveBack(ctx context.Context) error {
	var held bool
	return l.call(ctx, "pg_advisory_unlock", &held)
}
