// Alone traces itself with Go's own runtime/trace, for a second. One goroutine waits for a mutex all
// the time. Another computes from 100 ms to 400 ms, and another waits for a mutex from 300 ms to
// 600 ms; 600 live for an instant. The file named by its argument is a trace that gospect did not
// make. It prints "ID FROM TO" of the two, in ms since the trace began, and the id of the first.
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/trace"
	"sync"
	"time"
)

var (
	held, taken sync.Mutex
	began       time.Time
	work        uint64
)

type life struct {
	id       string
	from, to int64
}

func id() string {
	text := make([]byte, 64)
	return string(bytes.Fields(text[:runtime.Stack(text, false)])[1])
}

func now() int64 {
	return time.Since(began).Milliseconds()
}

//go:noinline
func parked(ids chan<- string) {
	ids <- id()
	held.Lock()
}

//go:noinline
func burns(done chan<- life) {
	from := now()
	for now() < from+300 {
		work++
	}
	done <- life{id(), from, now()}
}

//go:noinline
func stalled(done chan<- life) {
	from := now()
	taken.Lock()
	done <- life{id(), from, now()}
}

func brief(done *sync.WaitGroup) {
	done.Done()
}

func main() {
	out, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	burnt, waited, ids := make(chan life, 1), make(chan life, 1), make(chan string)
	held.Lock()
	taken.Lock()
	go parked(ids)
	first := <-ids
	time.Sleep(20 * time.Millisecond)
	if err := trace.Start(out); err != nil {
		panic(err)
	}
	began = time.Now()
	time.Sleep(100 * time.Millisecond)
	go burns(burnt)
	time.Sleep(200 * time.Millisecond)
	go stalled(waited)
	time.Sleep(300 * time.Millisecond)
	taken.Unlock()
	b, w := <-burnt, <-waited
	var done sync.WaitGroup
	for i := 0; i < 600; i++ {
		done.Add(1)
		go brief(&done)
	}
	done.Wait()
	time.Sleep(time.Second - time.Since(began))
	trace.Stop()
	out.Close()
	fmt.Println(b.id, b.from, b.to, w.id, w.from, w.to, first)
}
