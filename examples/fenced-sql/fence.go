package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// This file is the pattern. It needs one table, and a transaction around the
// writes. PostgreSQL takes the same statements with $1 and $2 for the question
// marks.

// errFenced is the error of a write with the token of a term that has been
// followed by another. Nothing was written.
var errFenced = errors.New("a later leader has been here")

// createFence makes the table of the greatest token that each election has shown.
const createFence = `CREATE TABLE IF NOT EXISTS fence (
	election TEXT PRIMARY KEY,
	token    BIGINT NOT NULL
)`

// fenced runs write in a transaction that is committed only if no greater token
// has been shown to the database. From then on the database refuses every lesser token.
//
// The comparison and the writes are one transaction, so no other write comes between
// them. The update locks the row of the election until the end of the transaction, so
// the transactions of two leaders follow one another. A new leader raises the fence
// with a write function that only reads. It reads the data that its predecessors leave
// behind.
func fenced(ctx context.Context, db *sql.DB, election string, token uint64, write func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit

	res, err := tx.ExecContext(ctx, `UPDATE fence SET token = ? WHERE election = ? AND token <= ?`,
		token, election, token)
	if err != nil {
		return err
	}
	switch raised, err := res.RowsAffected(); {
	case err != nil:
		return err
	case raised == 0:
		return fmt.Errorf("token %d: %w", token, errFenced)
	}
	if err := write(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// openFence makes sure that the election has a row, and returns the greatest
// token that the database has seen. It belongs in [leader.Config].MinToken.
// Otherwise a bucket that is newer than the database, because it was made anew for
// instance, would begin with lesser tokens, and the database would refuse its leaders.
func openFence(ctx context.Context, db *sql.DB, election string) (minToken uint64, err error) {
	if _, err = db.ExecContext(ctx, createFence); err != nil {
		return 0, err
	}
	if _, err = db.ExecContext(ctx, `INSERT INTO fence VALUES (?, 0) ON CONFLICT DO NOTHING`, election); err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx, `SELECT token FROM fence WHERE election = ?`, election).Scan(&minToken)
	return minToken, err
}
