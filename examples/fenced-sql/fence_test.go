package main

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

const election = "e"

// database opens a database in dir with a fence, and a table of the tokens in the
// order in which they have written.
func database(t *testing.T, dir string) *sql.DB {
	t.Helper()
	a, err := openAccount(dir, true)
	check.OK(t, err)
	t.Cleanup(func() {
		if err := a.db.Close(); err != nil {
			t.Error(err)
		}
	})
	check.OK(t, check.Err(openFence(t.Context(), a.db, election)))
	if _, err := a.db.ExecContext(t.Context(), `CREATE TABLE IF NOT EXISTS log (n INTEGER PRIMARY KEY, token BIGINT)`); err != nil {
		t.Fatal(err)
	}
	return a.db
}

// write returns a write that logs its token.
func write(ctx context.Context, token uint64) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO log (token) VALUES (?)`, token)
		return err
	}
}

// written returns the tokens in the order in which they have written.
func written(t *testing.T, db *sql.DB) (tokens []uint64) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT token FROM log ORDER BY n`)
	check.OK(t, err)
	defer func() {
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Error(err)
		}
	}()
	for rows.Next() {
		var token uint64
		check.OK(t, rows.Scan(&token))
		tokens = append(tokens, token)
	}
	return tokens
}

// A lesser token writes nothing.
func TestFence_LesserToken(t *testing.T) {
	db := database(t, t.TempDir())
	ctx := t.Context()
	for _, x := range []struct {
		token uint64
		want  error
	}{{3, nil}, {3, nil}, {2, errFenced}, {7, nil}, {3, errFenced}, {6, errFenced}, {7, nil}} {
		err := fenced(ctx, db, election, x.token, write(ctx, x.token))
		check.That(t, errors.Is(err, x.want), "token %d: %v, want %v", x.token, err, x.want)
	}
	if got, want := written(t, db), []uint64{3, 3, 7, 7}; !slices.Equal(got, want) {
		t.Errorf("written by %v, want %v", got, want)
	}
	if err := fenced(ctx, db, "other", 1, write(ctx, 1)); !errors.Is(err, errFenced) {
		t.Errorf("an election without a row: %v, want a refusal", err)
	}
	if minToken, err := openFence(ctx, db, election); err != nil || minToken != 7 {
		t.Errorf("MinToken %d, %v, want 7", minToken, err)
	}
}

// A write that fails leaves the fence where it was.
func TestFence_FailedWrite(t *testing.T) {
	db := database(t, t.TempDir())
	ctx := t.Context()
	broken := errors.New("broken")
	err := fenced(ctx, db, election, 9, func(tx *sql.Tx) error {
		return errors.Join(write(ctx, 9)(tx), broken)
	})
	check.That(t, errors.Is(err, broken), "error %v, want %v", err, broken)
	if err := fenced(ctx, db, election, 8, write(ctx, 8)); err != nil {
		t.Error(err)
	}
	got, want := written(t, db), []uint64{8}
	check.That(t, slices.Equal(got, want), "written by %v, want %v", got, want)
}

// Tokens never fall, however many processes write at the same time.
func TestFence_TokensNeverFall(t *testing.T) {
	const processes, terms = 4, 25
	dir := t.TempDir()
	accepted := make([]int, processes)
	var wg sync.WaitGroup
	for i := range processes {
		db := database(t, dir)
		wg.Go(func() {
			for n := range terms {
				token := uint64(n*processes + i + 1)
				switch err := fenced(t.Context(), db, election, token, write(t.Context(), token)); {
				case err == nil:
					accepted[i]++
				case !errors.Is(err, errFenced):
					t.Errorf("token %d: %v", token, err)
				}
			}
		})
	}
	wg.Wait()
	got := written(t, database(t, dir))
	sum := 0
	for _, n := range accepted {
		sum += n
	}
	check.That(t, slices.IsSorted(got) && len(got) == sum && sum != 0, "%d accepted, written by %v", sum, got)
}
