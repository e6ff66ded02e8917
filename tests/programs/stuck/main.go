// Stuck has goroutines that wait for ever: an argument says how many. A quarter each waits for a
// mutex that is held, receives from a channel, selects from two, and waits for a condition. Each
// has the label w, its number. Nothing else happens.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	check  "ok N"
//	since  for how many ns all of them have waited at most, and at least
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"
)

var (
	mutex   sync.Mutex
	channel = make(chan int)
	other   = make(chan int)
	cond    = sync.NewCond(&sync.Mutex{})
	begun   sync.WaitGroup
)

//go:noinline
func lock() {
	mutex.Lock()
}

//go:noinline
func receive() {
	<-channel
}

//go:noinline
func choose() {
	select {
	case <-channel:
	case other <- 1:
		<-other
	}
}

//go:noinline
func await() {
	cond.L.Lock()
	cond.Wait()
}

// Each in its own way.
var ways = []func(){lock, receive, choose, await}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	mutex.Lock()
	begun.Add(n)
	for i := 0; i < n; i++ {
		i := i
		go func() {
			pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(),
				pprof.Labels("w", strconv.Itoa(i))))
			begun.Done()
			ways[i%len(ways)]()
		}()
	}
	begun.Wait()
	time.Sleep(100 * time.Millisecond)
	// The second garbage collection records the time of the first one as the beginning of their wait.
	before := time.Now()
	runtime.GC()
	after := time.Now()
	runtime.GC()
	fmt.Println("ready", os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "since" {
			fmt.Println(int64(time.Since(before)), int64(time.Since(after)))
		} else {
			fmt.Println("ok", n)
		}
	}
}
