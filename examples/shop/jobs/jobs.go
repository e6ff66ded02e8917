// Package jobs is the work that no request waits for: mails, stock refills, the sales report.
package jobs

import (
	"context"
	"sync"
	"time"

	"shop/db"
	"shop/logs"
	"shop/stock"
)

type Background struct {
	Mailer *Mailer

	pool    *db.Pool
	shelves *stock.Shelves
	log     *logs.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func Start(pool *db.Pool, shelves *stock.Shelves, log *logs.Logger) *Background {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Background{pool: pool, shelves: shelves, log: log, ctx: ctx, cancel: cancel}
	b.Mailer = newMailer(pool, log)
	for i := 0; i < 4; i++ {
		b.spawn(func() { b.Mailer.work(ctx) })
	}
	b.every(500*time.Millisecond, b.refill)
	return b
}

// Stop ends all work and waits for it.
func (b *Background) Stop() {
	b.cancel()
	b.running.Wait()
}

func (b *Background) spawn(work func()) {
	b.running.Add(1)
	go func() {
		defer b.running.Done()
		work()
	}()
}

func (b *Background) every(period time.Duration, job func(context.Context) error) {
	b.spawn(func() {
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-b.ctx.Done():
				return
			case <-ticker.C:
				if err := job(b.ctx); err != nil && b.ctx.Err() == nil {
					b.log.Printf("job: %v", err)
				}
			}
		}
	})
}

func (b *Background) refill(ctx context.Context) error {
	if _, err := b.pool.Query(ctx, "levels"); err != nil {
		return err
	}
	b.shelves.Refill(100)
	return nil
}
