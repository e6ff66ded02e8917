package jobs

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"shop/catalog"
)

// ReportEvery makes the sales report again and again, asking for `parallel` categories at once.
func (b *Background) ReportEvery(period time.Duration, parallel int) {
	b.every(period, func(ctx context.Context) error { return b.salesReport(ctx, parallel) })
}

func (b *Background) salesReport(ctx context.Context, parallel int) error {
	slots := make(chan struct{}, parallel)
	var (
		wait     sync.WaitGroup
		mu       sync.Mutex
		total    int
		firstErr error
	)
	for _, category := range catalog.Categories {
		wait.Add(1)
		slots <- struct{}{}
		go func(category string) {
			defer wait.Done()
			n, err := b.salesOf(ctx, category)
			<-slots
			mu.Lock()
			defer mu.Unlock()
			total += n
			if firstErr == nil {
				firstErr = err
			}
		}(category)
	}
	wait.Wait()
	b.log.Printf("report: %d sold", total)
	return firstErr
}

func (b *Background) salesOf(ctx context.Context, category string) (int, error) {
	answer, err := b.pool.Query(ctx, fmt.Sprintf("sales %s", category))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(answer)
}
