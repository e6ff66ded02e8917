// Convoy lets goroutines wait for each other, and writes down for each wait who ended it.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	convoy WORKERS ROUNDS  in each round the workers wait once in each way; prints as JSON the waits
//	check                  "ok N"
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// wait is one that a goroutine had in the function At. The goroutine By, 0 for none, ended it in
// the function Func.
type wait struct {
	Waiter int    `json:"waiter"`
	At     string `json:"at"`
	By     int    `json:"by"`
	Func   string `json:"func"`
}

// token says who gave it.
type token struct {
	by   int
	name string
}

// worker is a goroutine that does what it is told; it has its id as the label "worker".
type worker struct {
	id    int
	do    chan func()
	waits []wait
}

func goid() int {
	buffer := make([]byte, 64)
	id, _ := strconv.Atoi(string(bytes.Fields(buffer[:runtime.Stack(buffer, false)])[1]))
	return id
}

func (w *worker) work(ready *sync.WaitGroup) {
	w.id = goid()
	labels := pprof.Labels("worker", strconv.Itoa(w.id))
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), labels))
	ready.Done()
	for do := range w.do {
		do()
	}
}

func (w *worker) waited(at string, t token) {
	w.waits = append(w.waits, wait{w.id, at, t.by, t.name})
}

// Each of these waits on one line only, or ends the waits of one.

//go:noinline
func waitMutex(m *sync.Mutex) { m.Lock() }

//go:noinline
func releaseOdd(m *sync.Mutex) { m.Unlock() }

//go:noinline
func releaseEven(m *sync.Mutex) { m.Unlock() }

//go:noinline
func waitChannel(c chan token) token { return <-c }

//go:noinline
func waitSelect(c, other chan token) (t token) {
	select {
	case t = <-c:
	case t = <-other:
	}
	return t
}

//go:noinline
func send(c chan token, by int) { c <- token{by, "main.send"} }

//go:noinline
func waitGroup(g *sync.WaitGroup) { g.Wait() }

//go:noinline
func finish(g *sync.WaitGroup) { g.Done() }

//go:noinline
func waitTimer() { time.Sleep(time.Millisecond) }

// queued is how many wait for the mutex, or are about to: all but the three lowest bits of its
// first word, from Go 1.9 on.
func queued(m *sync.Mutex) int32 {
	return atomic.LoadInt32((*int32)(unsafe.Pointer(m))) >> 3
}

// A goroutine that is about to wait does so within this time, as a rule.
const settle = 2 * time.Millisecond

func (w *worker) release(m *sync.Mutex, last *token, odd bool) {
	if odd {
		*last = token{w.id, "main.releaseOdd"}
		releaseOdd(m)
	} else {
		*last = token{w.id, "main.releaseEven"}
		releaseEven(m)
	}
}

// convoy: one worker holds the mutex until all others wait for it. Then it goes from hand to hand,
// and nobody comes back before the last one has had it: a wait is ended once.
func convoy(workers []*worker, round int) {
	var (
		m    sync.Mutex
		last token
		done sync.WaitGroup
		held = make(chan bool)
		all  = make(chan bool)
	)
	done.Add(len(workers))
	for i := range workers {
		w, odd := workers[(i+round)%len(workers)], (i+round)%2 == 1
		if i == 0 {
			w.do <- func() {
				m.Lock()
				held <- true
				<-all
				w.release(&m, &last, odd)
				done.Done()
			}
			<-held
			continue
		}
		w.do <- func() {
			waitMutex(&m)
			w.waited("main.waitMutex", last)
			w.release(&m, &last, odd)
			done.Done()
		}
	}
	for queued(&m) < int32(len(workers)-1) {
		time.Sleep(settle)
	}
	time.Sleep(settle)
	close(all)
	done.Wait()
}

// handoffs: the workers of the one half wait for those of the other half.
func handoffs(workers []*worker, round int) {
	var done sync.WaitGroup
	half := len(workers) / 2

	done.Add(2 * half)
	for i := 0; i < half; i++ {
		waiter, other := workers[i], workers[half+(i+round)%half]
		c, never := make(chan token), make(chan token)
		var group sync.WaitGroup

		group.Add(1)
		waiter.do <- func() {
			waiter.waited("main.waitChannel", waitChannel(c))
			waiter.waited("main.waitSelect", waitSelect(c, never))
			waitGroup(&group)
			waiter.waited("main.waitGroup", token{other.id, "main.finish"})
			waitTimer()
			waiter.waited("main.waitTimer", token{})
			done.Done()
		}
		other.do <- func() {
			time.Sleep(settle)
			send(c, other.id)
			time.Sleep(settle)
			send(c, other.id)
			time.Sleep(settle)
			finish(&group)
			done.Done()
		}
	}
	done.Wait()
}

func run(count, rounds int) []wait {
	var (
		workers = make([]*worker, count)
		ready   sync.WaitGroup
		waits   []wait
	)
	ready.Add(count)
	for i := range workers {
		w := &worker{do: make(chan func())}
		workers[i] = w
		go func() { w.work(&ready) }()
	}
	ready.Wait()
	for round := 0; round < rounds; round++ {
		convoy(workers, round)
		handoffs(workers, round)
	}
	for _, w := range workers {
		close(w.do)
		waits = append(waits, w.waits...)
	}
	return waits
}

func main() {
	fmt.Println("ready", os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch words := strings.Fields(lines.Text()); words[0] {
		case "convoy":
			count, _ := strconv.Atoi(words[1])
			rounds, _ := strconv.Atoi(words[2])
			json.NewEncoder(os.Stdout).Encode(run(count, rounds))
		case "check":
			fmt.Println("ok", len(words))
		}
	}
}
