package main

import (
	"database/sql"
	"database/sql/driver"
	"io"
	"time"
)

// A driver whose queries take 50 ms.
type slowDriver struct{}

type slowConn struct{}

type slowStmt struct{}

type oneRow struct{ given bool }

func (slowDriver) Open(string) (driver.Conn, error) { return slowConn{}, nil }

func (slowConn) Prepare(string) (driver.Stmt, error) { return slowStmt{}, nil }
func (slowConn) Close() error                        { return nil }
func (slowConn) Begin() (driver.Tx, error)           { return nil, driver.ErrSkip }

func (slowStmt) Close() error                               { return nil }
func (slowStmt) NumInput() int                              { return 0 }
func (slowStmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }
func (slowStmt) Query([]driver.Value) (driver.Rows, error) {
	time.Sleep(50 * time.Millisecond)
	return &oneRow{}, nil
}

func (*oneRow) Columns() []string { return []string{"n"} }
func (*oneRow) Close() error      { return nil }
func (r *oneRow) Next(to []driver.Value) error {
	if r.given {
		return io.EOF
	}
	r.given = true
	to[0] = int64(1)
	return nil
}

func openPool(connections int) *sql.DB {
	sql.Register("slow", slowDriver{})
	db, err := sql.Open("slow", "")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(connections)
	return db
}

//go:noinline
func askPool(db *sql.DB) {
	var n int
	measured(func() {
		if err := db.QueryRow("one").Scan(&n); err != nil {
			panic(err)
		}
	})
}
