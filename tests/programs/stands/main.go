// Stands traces itself with Go's own runtime/trace, for a second: one goroutine waits for a mutex all
// the time, another from 300 ms to 600 ms. The file named by its argument is a trace that gospect did
// not make; the times of the second goroutine's wait, in ms since the trace began, are printed.
package main

import (
	"fmt"
	"os"
	"runtime/trace"
	"sync"
	"time"
)

var held, taken sync.Mutex

//go:noinline
func parked() {
	held.Lock()
}

//go:noinline
func stalled(done chan<- bool) {
	taken.Lock()
	done <- true
}

func main() {
	out, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	done := make(chan bool, 1)
	held.Lock()
	taken.Lock()
	go parked()
	time.Sleep(20 * time.Millisecond)
	if err := trace.Start(out); err != nil {
		panic(err)
	}
	began := time.Now()
	time.Sleep(300 * time.Millisecond)
	from := time.Since(began)
	go stalled(done)
	time.Sleep(300 * time.Millisecond)
	to := time.Since(began)
	taken.Unlock()
	<-done
	time.Sleep(time.Second - time.Since(began))
	trace.Stop()
	out.Close()
	fmt.Println(from.Milliseconds(), to.Milliseconds())
}
