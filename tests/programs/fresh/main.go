// Program fresh never repeats itself: each of its goroutines has labels, a task, regions and logs
// whose texts no other has used.
//
// It prints "ready PID", then starts such goroutines, some at a time, until it has started -goroutines
// of them; with -wait not before it reads "begin". It answers "check" with "ok" and "count" with how many
// have ended. It ends when standard input does.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"sync/atomic"
	"time"
)

var (
	goroutines = flag.Int64("goroutines", 1<<40, "to be started in all")
	workers    = flag.Int("workers", 50, "that start them")
	wait       = flag.Bool("wait", false, "for the line begin")
	pause      = flag.Duration("pause", time.Millisecond, "of a worker between two")
)

var started, ended int64

func main() {
	flag.Parse()
	if !*wait {
		begin()
	}
	fmt.Printf("ready %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "check":
			fmt.Println("ok")
		case "begin":
			begin()
		case "count":
			fmt.Println(atomic.LoadInt64(&ended))
		}
	}
}

func begin() {
	for i := 0; i < *workers; i++ {
		go work()
	}
}

func work() {
	done := make(chan int)
	for {
		n := atomic.AddInt64(&started, 1)
		if n > *goroutines {
			return
		}
		go live(strconv.FormatInt(n, 10), n, done)
		<-done
		time.Sleep(*pause)
	}
}

func live(name string, n int64, done chan int) {
	pprof.Do(context.Background(), pprof.Labels("request", name), func(ctx context.Context) {
		ctx, task := trace.NewTask(ctx, "task "+name)
		region := trace.StartRegion(ctx, "region "+name)
		trace.Log(ctx, "category "+name, "message "+name)
		// The end of a region that another goroutine has begun.
		if n%10 == 0 {
			ended := make(chan int) // not done, on which the worker waits
			go func() { region.End(); ended <- 0 }()
			<-ended
		} else if n%10 != 1 { // whose region has no end
			region.End()
		}
		if n%10 != 2 { // whose task has no end
			task.End()
		}
	})
	atomic.AddInt64(&ended, 1)
	done <- 0
}
