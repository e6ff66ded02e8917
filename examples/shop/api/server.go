// Package api is the shop's HTTP interface.
//
//	GET  /products?category=C&from=N   a page of the catalogue
//	GET  /product?id=N                 one product, its description and stock
//	GET  /search?q=WORD                the nearest names
//	POST /checkout {"product", "quantity"}
//	GET  /health
package api

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime/pprof"
	"strconv"
	"time"

	"shop/cache"
	"shop/catalog"
	"shop/db"
	"shop/jobs"
	"shop/logs"
	"shop/pricing"
	"shop/stock"
)

type Server struct {
	goods   *catalog.Catalog
	shelves *stock.Shelves
	prices  *pricing.Pricing
	pool    *db.Pool
	pages   *cache.LRU
	mailer  *jobs.Mailer
	log     *logs.Logger
	mux     *http.ServeMux
	orders  int64 // atomic
}

func New(goods *catalog.Catalog, shelves *stock.Shelves, prices *pricing.Pricing, pool *db.Pool,
	pages *cache.LRU, mailer *jobs.Mailer, log *logs.Logger) *Server {
	s := &Server{goods: goods, shelves: shelves, prices: prices, pool: pool, pages: pages,
		mailer: mailer, log: log, mux: http.NewServeMux()}
	s.route("/products", s.list)
	s.route("/product", s.product)
	s.route("/search", s.search)
	s.route("/checkout", s.checkout)
	s.route("/health", s.health)
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mux.ServeHTTP(w, r)
}

// A handler returns what is sent as JSON, or an error with its HTTP status.
type handler func(*http.Request) (interface{}, error)

type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

// route gives the handler a label, so that a profile can be split by route, and a deadline.
func (s *Server) route(path string, h handler) {
	labels := pprof.Labels("route", path[1:])
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
		defer cancel()
		pprof.Do(ctx, labels, func(ctx context.Context) {
			s.answer(w, r.WithContext(ctx), h)
		})
	})
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, h handler) {
	start := time.Now()
	result, err := h(r)
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
		if he, ok := err.(*httpError); ok {
			status = he.status
		}
		result = map[string]string{"error": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if raw, ok := result.(json.RawMessage); ok {
		_, _ = w.Write(raw)
	} else {
		_ = json.NewEncoder(w).Encode(result)
	}
	if took := time.Since(start); took > 2*time.Second || status >= 500 {
		s.log.Printf("%s %s: %d after %v", r.Method, r.URL.Path, status, took.Round(time.Millisecond))
	}
}

func number(r *http.Request, name string, unset int) (int, error) {
	text := r.FormValue(name)
	if text == "" {
		return unset, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, &httpError{http.StatusBadRequest, name + " is not a number"}
	}
	return n, nil
}
