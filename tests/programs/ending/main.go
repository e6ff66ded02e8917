// Program ending counts the signals that would end it, and ends a moment after the first one, with 40 and
// their number as its status; with -stay it says each and goes on.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	stay := flag.Bool("stay", false, "do not end")
	flag.Parse()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	fmt.Println("ready", os.Getpid())
	for {
		first := <-signals
		fmt.Println(first)
		if *stay {
			continue
		}
		time.Sleep(300 * time.Millisecond)
		os.Exit(41 + len(signals))
	}
}
