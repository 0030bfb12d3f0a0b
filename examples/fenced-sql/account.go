package main

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
)

// account is a row of a table that only the leader may write.
type account struct {
	db       *sql.DB
	name     string
	election string // only its leader may write
	checked  bool   // false: any process may, to show the difference
}

// openAccount opens the account in the database of dir. Every process has a pool
// of connections of its own.
func openAccount(dir string, checked bool) (*account, error) {
	// SQLite has one writer at a time. The second one waits, from the beginning
	// of its transaction.
	q := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(dir, "accounts.db"))+"?"+q.Encode())
	name := "unchecked"
	if checked {
		name = "checked"
	}
	return &account{db: db, name: name, election: name, checked: checked}, err
}

const createAccount = `CREATE TABLE IF NOT EXISTS account (
	name    TEXT PRIMARY KEY,
	balance BIGINT NOT NULL
)`

// create makes the account.
func (a *account) create(ctx context.Context, balance int) error {
	if _, err := a.db.ExecContext(ctx, createAccount); err != nil {
		return err
	}
	_, err := a.db.ExecContext(ctx, `INSERT INTO account VALUES (?, ?)`, a.name, balance)
	return err
}

// balance reads the balance of the account.
func (a *account) balance(ctx context.Context) (balance int, err error) {
	err = a.db.QueryRowContext(ctx, `SELECT balance FROM account WHERE name = ?`, a.name).Scan(&balance)
	return balance, err
}

// takeOver is the first action of a leader. It raises the fence and reads the
// balance, in one transaction. No predecessor can change that balance any more.
func (a *account) takeOver(ctx context.Context, token uint64) (balance int, err error) {
	if !a.checked {
		return a.balance(ctx)
	}
	err = fenced(ctx, a.db, a.election, token, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT balance FROM account WHERE name = ?`, a.name).Scan(&balance)
	})
	return balance, err
}

// setBalance writes the account, as the leader with that token.
func (a *account) setBalance(ctx context.Context, token uint64, balance int) error {
	const update = `UPDATE account SET balance = ? WHERE name = ?`
	if !a.checked {
		_, err := a.db.ExecContext(ctx, update, balance, a.name)
		return err
	}
	return fenced(ctx, a.db, a.election, token, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, update, balance, a.name)
		return err
	})
}
