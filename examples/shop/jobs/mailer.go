package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"time"

	"shop/db"
	"shop/logs"
)

// A Mailer confirms orders by mail: a queue and some workers. The mail server is unreliable, so a
// worker tries again, after longer and longer pauses.
type Mailer struct {
	queue chan int
	pool  *db.Pool
	log   *logs.Logger
}

func newMailer(pool *db.Pool, log *logs.Logger) *Mailer {
	return &Mailer{queue: make(chan int, 1000), pool: pool, log: log}
}

// Confirm queues a mail; when the queue is full it says so instead of waiting.
func (m *Mailer) Confirm(order int) error {
	select {
	case m.queue <- order:
		return nil
	default:
		return errors.New("mailer: queue is full")
	}
}

func (m *Mailer) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case order := <-m.queue:
			if err := m.deliver(ctx, order); err != nil && ctx.Err() == nil {
				m.log.Printf("mail for order %d given up: %v", order, err)
			}
		}
	}
}

func (m *Mailer) deliver(ctx context.Context, order int) error {
	address, err := m.pool.Query(ctx, fmt.Sprintf("mail %d", order))
	if err != nil {
		return err
	}
	backoff := 20 * time.Millisecond
	for try := 1; ; try++ {
		err := send(address)
		if err == nil || try == 4 {
			return err
		}
		select {
		case <-time.After(backoff):
			backoff *= 2
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func send(address string) error {
	time.Sleep(4 * time.Millisecond)
	if rand.Intn(5) == 0 {
		return errors.New("mail server: try again later")
	}
	return nil
}
