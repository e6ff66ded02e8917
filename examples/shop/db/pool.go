// Package db is the client of the shop's database: a pool of connections, one query at a time on
// each. A query is a line of words; the answer is a line that begins with "ok" or "error".
package db

import (
	"context"
	"errors"
	"time"
)

var ErrClosed = errors.New("db: pool is closed")

// A Pool keeps a fixed number of connections. If all of them are in use, a caller waits for one.
type Pool struct {
	addr string
	idle chan *conn // a slot for each connection; a slot that was never used has no socket yet
	done chan struct{}
}

func NewPool(addr string, size int) *Pool {
	p := &Pool{addr: addr, idle: make(chan *conn, size), done: make(chan struct{})}
	for i := 0; i < size; i++ {
		p.idle <- &conn{addr: addr}
	}
	return p
}

// Query sends a line and returns what follows "ok" in the answer.
func (p *Pool) Query(ctx context.Context, line string) (string, error) {
	c, err := p.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer p.release(c)
	return c.query(ctx, line)
}

func (p *Pool) acquire(ctx context.Context) (*conn, error) {
	select {
	case c := <-p.idle:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
		return nil, ErrClosed
	}
}

func (p *Pool) release(c *conn) {
	p.idle <- c
}

// Close ends all waiting; connections that are in use are closed when they come back.
func (p *Pool) Close() {
	close(p.done)
	deadline := time.After(time.Second)
	for i := 0; i < cap(p.idle); i++ {
		select {
		case c := <-p.idle:
			c.close()
		case <-deadline:
			return
		}
	}
}
