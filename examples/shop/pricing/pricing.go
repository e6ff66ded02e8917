// Package pricing says what a product costs today. The rules are in the database.
package pricing

import (
	"context"
	"fmt"
	"strconv"

	"shop/db"
)

type Pricing struct {
	pool *db.Pool
}

func New(pool *db.Pool) *Pricing {
	return &Pricing{pool}
}

// Quote is the price of so many pieces of a product, in cents.
func (p *Pricing) Quote(ctx context.Context, product, quantity int) (int, error) {
	answer, err := p.pool.Query(ctx, fmt.Sprintf("rules %d", product))
	if err != nil {
		return 0, fmt.Errorf("pricing: %w", err)
	}
	each, err := strconv.ParseFloat(answer, 64)
	if err != nil {
		return 0, fmt.Errorf("pricing: %w", err)
	}
	total := int(each*100) * quantity
	if quantity >= 5 {
		total -= total / 10
	}
	return total, nil
}
