// Shop is a small web shop: an HTTP JSON API in front of a slow database, with a stock that
// everyone wants, a cache and some background work. It is the program that "make demo" profiles;
// what is slow in it and why is in ../README.md.
//
//	shop                    serves on a free port of 127.0.0.1
//	shop -load 40           the same, with 40 clients of its own
//	shop -load 40 -fixed    the same, with what the profile shows repaired
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"shop/dbserver"
	"shop/load"
)

func main() {
	role := flag.String("role", "service", "what to be: service, database or load")
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	clients := flag.Int("load", 0, "clients that visit the shop")
	think := flag.Duration("think", 150*time.Millisecond, "mean time a client thinks between two requests")
	target := flag.String("target", "", "address of the shop, for -role load")
	conns := flag.Int("conns", 8, "connections to the database")
	fixed := flag.Bool("fixed", false, "price outside the stock's lock, and report on one connection")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	var err error
	switch *role {
	case "service":
		err = runService(ctx, config{*listen, *clients, *think, *conns, *fixed})
	case "database":
		err = runDatabase(untilParentGone(ctx), *listen)
	case "load":
		load.Run(untilParentGone(ctx), *target, *clients, *think, os.Stderr)
	default:
		err = fmt.Errorf("no such role: %s", *role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func runDatabase(ctx context.Context, listen string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return dbserver.Serve(ctx, l)
}

// untilParentGone ends when standard input does: a child holds one end of a pipe, and the kernel
// closes the other when the parent ends, however it ends.
func untilParentGone(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		buf := make([]byte, 64)
		for {
			if _, err := os.Stdin.Read(buf); err != nil {
				return
			}
		}
	}()
	return ctx
}
