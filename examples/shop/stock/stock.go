// Package stock knows how many pieces of each product lie on the shelves.
package stock

import (
	"context"
	"errors"
	"sync"

	"shop/catalog"
)

var ErrSoldOut = errors.New("stock: sold out")

type Pricer interface {
	Quote(ctx context.Context, product, quantity int) (int, error)
}

type Shelves struct {
	// PriceOutsideLock asks for the price before the shelves are locked.
	PriceOutsideLock bool

	prices Pricer
	mu     sync.Mutex
	pieces []int
}

func New(goods *catalog.Catalog, prices Pricer) *Shelves {
	s := &Shelves{prices: prices, pieces: make([]int, goods.Len())}
	s.Refill(1000)
	return s
}

// Reserve takes pieces off the shelf and returns their price, so that nobody pays an old price for
// the last piece.
func (s *Shelves) Reserve(ctx context.Context, product, quantity int) (int, error) {
	if s.PriceOutsideLock {
		return s.reserveQuoted(ctx, product, quantity)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pieces[product] < quantity {
		return 0, ErrSoldOut
	}
	price, err := s.prices.Quote(ctx, product, quantity)
	if err != nil {
		return 0, err
	}
	s.pieces[product] -= quantity
	return price, nil
}

func (s *Shelves) reserveQuoted(ctx context.Context, product, quantity int) (int, error) {
	price, err := s.prices.Quote(ctx, product, quantity)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pieces[product] < quantity {
		return 0, ErrSoldOut
	}
	s.pieces[product] -= quantity
	return price, nil
}

// Level is the number of pieces of a product.
func (s *Shelves) Level(product int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pieces[product]
}

// Refill puts at least n pieces of everything on the shelves.
func (s *Shelves) Refill(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.pieces {
		if s.pieces[i] < n {
			s.pieces[i] = n
		}
	}
}
