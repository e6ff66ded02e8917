package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"shop/api"
	"shop/cache"
	"shop/catalog"
	"shop/db"
	"shop/jobs"
	"shop/logs"
	"shop/pricing"
	"shop/stock"
)

type config struct {
	listen  string
	clients int
	think   time.Duration
	conns   int
	fixed   bool
}

func runService(ctx context.Context, cfg config) error {
	database, err := startChild("database")
	if err != nil {
		return fmt.Errorf("starting the database: %w", err)
	}
	defer database.stop()

	pool := db.NewPool(database.firstLine, cfg.conns)
	defer pool.Close()
	log := logs.New(os.Stderr)
	defer log.Close()

	server, background := build(cfg, pool, log)
	defer background.Stop()

	l, err := net.Listen("tcp", cfg.listen)
	if err != nil {
		return err
	}
	fmt.Printf("shop: pid %d serves on http://%s\n", os.Getpid(), l.Addr())
	if cfg.clients > 0 {
		visitors, err := startChild("load", "-target", l.Addr().String(),
			"-load", strconv.Itoa(cfg.clients), "-think", cfg.think.String())
		if err != nil {
			return fmt.Errorf("starting the clients: %w", err)
		}
		return serve(ctx, l, server, visitors.stop)
	}
	return serve(ctx, l, server, func() {})
}

func build(cfg config, pool *db.Pool, log *logs.Logger) (*api.Server, *jobs.Background) {
	goods := catalog.Generate(3000)
	prices := pricing.New(pool)
	shelves := stock.New(goods, prices)
	shelves.PriceOutsideLock = cfg.fixed
	pages := cache.New(2000)

	background := jobs.Start(pool, shelves, log)
	parallel := len(catalog.Categories)
	if cfg.fixed {
		parallel = 1
	}
	background.ReportEvery(2*time.Second, parallel)
	return api.New(goods, shelves, prices, pool, pages, background.Mailer, log), background
}

// serve answers until ctx ends; then it sends the visitors home, and closes.
func serve(ctx context.Context, l net.Listener, handler http.Handler, sendHome func()) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		<-ctx.Done()
		sendHome()
		quick, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(quick)
	}()
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	<-finished
	return nil
}
