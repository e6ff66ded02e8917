package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"shop/catalog"
	"shop/stock"
)

func (s *Server) health(*http.Request) (interface{}, error) {
	return map[string]interface{}{"ok": true, "orders": atomic.LoadInt64(&s.orders)}, nil
}

func (s *Server) list(r *http.Request) (interface{}, error) {
	from, err := number(r, "from", 0)
	if err != nil {
		return nil, err
	}
	return s.goods.Page(r.FormValue("category"), from, 20), nil
}

func (s *Server) search(r *http.Request) (interface{}, error) {
	query := r.FormValue("q")
	if query == "" || len(query) > 50 {
		return nil, &httpError{http.StatusBadRequest, "q has 1 to 50 letters"}
	}
	return s.goods.Search(query, 10), nil
}

func (s *Server) product(r *http.Request) (interface{}, error) {
	id, err := number(r, "id", -1)
	if err != nil {
		return nil, err
	}
	product, ok := s.goods.Get(id)
	if !ok {
		return nil, &httpError{http.StatusNotFound, "no such product"}
	}
	page, err := s.page(r.Context(), product)
	if err != nil {
		return nil, err
	}
	return map[string]interface{}{
		"page":  json.RawMessage(page),
		"stock": s.shelves.Level(product.ID),
	}, nil
}

// page is the part of a product's page that seldom changes.
func (s *Server) page(ctx context.Context, p catalog.Product) ([]byte, error) {
	if page, ok := s.pages.Get(p.ID); ok {
		return page, nil
	}
	text, err := s.pool.Query(ctx, fmt.Sprintf("product %d", p.ID))
	if err != nil {
		return nil, err
	}
	page, err := json.Marshal(struct {
		catalog.Product
		Description string `json:"description"`
	}{p, text})
	if err != nil {
		return nil, err
	}
	s.pages.Put(p.ID, page)
	return page, nil
}

type order struct {
	Product  int `json:"product"`
	Quantity int `json:"quantity"`
}

func (s *Server) checkout(r *http.Request) (interface{}, error) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		return nil, &httpError{http.StatusBadRequest, err.Error()}
	}
	if _, ok := s.goods.Get(o.Product); !ok || o.Quantity < 1 {
		return nil, &httpError{http.StatusBadRequest, "no such product or quantity"}
	}
	price, err := s.shelves.Reserve(r.Context(), o.Product, o.Quantity)
	if errors.Is(err, stock.ErrSoldOut) {
		return nil, &httpError{http.StatusConflict, err.Error()}
	} else if err != nil {
		return nil, err
	}
	return s.place(r.Context(), o, price)
}

func (s *Server) place(ctx context.Context, o order, price int) (interface{}, error) {
	number := atomic.AddInt64(&s.orders, 1)
	statement := fmt.Sprintf("order %d %d %d %d", number, o.Product, o.Quantity, price)
	if _, err := s.pool.Query(ctx, statement); err != nil {
		return nil, err
	}
	if err := s.mailer.Confirm(int(number)); err != nil {
		s.log.Printf("order %d: %v", number, err)
	}
	return map[string]interface{}{"order": number, "price": price}, nil
}
