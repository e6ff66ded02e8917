// Outgoing is a server whose handlers ask a database and another server. The database's driver is
// its own, and answers each question a moment later.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	serve N  answers so many requests; prints as JSON what each asked: of each function how often,
//	         and how long its calls took, in ns: at least, as the answering side says, and at most
//	check    "ok"
package main

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// ---- the database ----

const secret = "secret-value"

var answered int64 // how long it took to answer, in ns

func answer() {
	began := time.Now()
	time.Sleep(time.Duration(50+rand.Intn(500)) * time.Microsecond)
	atomic.AddInt64(&answered, int64(time.Since(began)))
}

type base struct{}

func (base) Open(string) (driver.Conn, error)           { return base{}, nil }
func (base) Prepare(string) (driver.Stmt, error)        { answer(); return base{}, nil }
func (base) Begin() (driver.Tx, error)                  { answer(); return base{}, nil }
func (base) Ping(context.Context) error                 { answer(); return nil }
func (base) Close() error                               { return nil }
func (base) NumInput() int                              { return -1 }
func (base) Exec([]driver.Value) (driver.Result, error) { answer(); return driver.RowsAffected(1), nil }
func (base) Query([]driver.Value) (driver.Rows, error)  { answer(); return base{}, nil }
func (base) Columns() []string                          { return []string{"x"} }
func (base) Next([]driver.Value) error                  { return io.EOF }
func (base) Commit() error                              { answer(); return nil }
func (base) Rollback() error                            { answer(); return nil }
func (base) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	answer()
	return base{}, nil
}
func (base) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	answer()
	return driver.RowsAffected(1), nil
}

// ---- the handlers ----

type asked struct {
	Count int   `json:"count"`
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
}

type request struct {
	Path  string            `json:"path"`
	Asked map[string]*asked `json:"asked"`
}

// ask calls f, which calls the function, and notes it.
func (r *request) ask(function string, f func() error) {
	a := r.Asked[function]
	if a == nil {
		a = &asked{}
		r.Asked[function] = a
	}
	before, began := atomic.LoadInt64(&answered), time.Now()
	if err := f(); err != nil && !errors.Is(err, sql.ErrNoRows) {
		log.Fatal(function, err)
	}
	a.Count++
	a.Most += int64(time.Since(began))
	a.Least += atomic.LoadInt64(&answered) - before
}

func query(rows *sql.Rows, err error) error {
	if err == nil {
		err = rows.Close()
	}
	return err
}

func (r *request) transact(db *sql.DB) {
	var tx *sql.Tx
	r.ask("database/sql.(*DB).BeginTx", func() (err error) { tx, err = db.Begin(); return })
	r.ask("database/sql.(*Tx).ExecContext", func() error { _, err := tx.Exec("update"); return err })
	r.ask("database/sql.(*Tx).QueryContext", func() error { return query(tx.Query("select")) })
	if rand.Intn(2) == 0 {
		r.ask("database/sql.(*Tx).Commit", tx.Commit)
	} else {
		r.ask("database/sql.(*Tx).rollback", tx.Rollback)
	}
}

func (r *request) prepare(db *sql.DB) {
	var s *sql.Stmt
	r.ask("database/sql.(*DB).PrepareContext", func() (err error) { s, err = db.Prepare("select"); return })
	r.ask("database/sql.(*Stmt).QueryContext", func() error { return query(s.Query()) })
	r.ask("database/sql.(*Stmt).ExecContext", func() error { _, err := s.Exec(); return err })
	s.Close()
}

func (r *request) single(db *sql.DB) {
	for i := rand.Intn(4); i >= 0; i-- {
		r.ask("database/sql.(*DB).QueryContext", func() error { return query(db.Query("select", secret)) })
	}
	r.ask("database/sql.(*DB).QueryContext", func() error { return db.QueryRow("select").Scan(new(int)) })
	r.ask("database/sql.(*DB).ExecContext", func() error { _, err := db.Exec("update " + secret); return err })
	r.ask("database/sql.(*DB).PingContext", db.Ping)
}

func (r *request) fetch(url string) {
	ask := func(f func() (*http.Response, error)) func() error {
		return func() error {
			response, err := f()
			if err == nil {
				io.Copy(io.Discard, response.Body)
				err = response.Body.Close()
			}
			return err
		}
	}
	r.ask("net/http.(*Client).do", ask(func() (*http.Response, error) { return http.Get(url) }))
	r.ask("net/http.(*Transport).roundTrip", ask(func() (*http.Response, error) {
		q, _ := http.NewRequest("GET", url, nil)
		q.Header.Set("Authorization", secret)
		return http.DefaultTransport.RoundTrip(q)
	}))
}

func listen(handler http.Handler) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(l, handler)
	return "http://" + l.Addr().String()
}

func serve(url string, requests chan *request, n int) (all []*request) {
	for i := 0; i < n; i++ {
		r := &request{Path: fmt.Sprint("/ask/", i), Asked: map[string]*asked{}}
		requests <- r
		response, err := http.Get(url + r.Path + "?" + secret)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		all = append(all, r)
	}
	return all
}

func main() {
	sql.Register("base", base{})
	db, err := sql.Open("base", secret)
	if err != nil {
		log.Fatal(err)
	}
	other := listen(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer() }))
	requests := make(chan *request, 1)
	url := listen(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r := <-requests
		for _, part := range []func(){func() { r.single(db) }, func() { r.transact(db) }, func() { r.prepare(db) },
			func() { r.fetch(other + "/other?" + secret) }} {
			if rand.Intn(3) > 0 {
				part()
			}
		}
	}))
	fmt.Println("ready", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var n int
		if k, _ := fmt.Sscanf(in.Text(), "serve %d", &n); k == 1 {
			text, _ := json.Marshal(serve(url, requests, n))
			fmt.Println(strings.TrimSpace(string(text)))
		} else {
			fmt.Println("ok")
		}
	}
}
