// Program scraped serves net/http/pprof itself, and makes every profile that it has.
//
// It samples each allocation, all blocking and all contention. It keeps memory, blocks on a channel,
// contends for a mutex, parks goroutines with labels, and one goroutine uses a CPU for 2 ms in each
// 10 ms. It prints "ready PID" and obeys lines on standard input:
//
//	check  "ok N", a checksum of what it keeps
//	port   the port of 127.0.0.1 that its own net/http/pprof listens on
//	gc     collects twice, so that the profile of memory is published; "ok"
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"time"
)

// Before anything is allocated.
var _ = setRate()

func setRate() int {
	runtime.MemProfileRate = 1
	return 0
}

var kept [][]byte

//go:noinline
func keep(n int) { kept = append(kept, make([]byte, n)) }

//go:noinline
func block() {
	c := make(chan int)
	go func() {
		time.Sleep(5 * time.Millisecond)
		c <- 1
	}()
	<-c
}

//go:noinline
func contend() {
	var mu sync.Mutex
	var done sync.WaitGroup

	mu.Lock()
	done.Add(1)
	go func() {
		defer done.Done()
		mu.Lock()
		mu.Unlock()
	}()
	time.Sleep(5 * time.Millisecond)
	mu.Unlock()
	done.Wait()
}

//go:noinline
func parked(never chan int) { <-never }

var sink uint64

//go:noinline
func spin(until time.Time) {
	for time.Now().Before(until) {
		for i := uint64(0); i < 1000; i++ {
			sink = sink*31 + i
		}
	}
}

func burn() {
	for {
		spin(time.Now().Add(2 * time.Millisecond))
		time.Sleep(8 * time.Millisecond)
	}
}

func sum() (n int) {
	for _, b := range kept {
		n += len(b)
	}
	return n
}

func main() {
	debug.SetGCPercent(-1)
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	for i := 0; i < 16; i++ {
		keep(4096)
	}
	block()
	contend()
	for i := 0; i < 5; i++ {
		go pprof.Do(context.Background(), pprof.Labels("zone", "eu west"), func(context.Context) {
			parked(nil)
		})
	}
	go burn()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, nil)
	fmt.Println("ready", os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "check":
			fmt.Println("ok", sum())
		case "port":
			fmt.Println(listener.Addr().(*net.TCPAddr).Port)
		case "gc":
			runtime.GC()
			runtime.GC()
			fmt.Println("ok")
		}
	}
}
