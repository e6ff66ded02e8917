// Relay serves requests whose work goes through several goroutines in a known order, and notes when
// each of them began and ended its part.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	relay N  serves so many; prints as JSON the parts of each
//	check    "ok N"
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// part is what the request needed from Begin to End, in ns since the program began: a goroutine
// that ran or slept.
type part struct {
	Goroutine int    `json:"goroutine"`
	State     string `json:"state"`
	Func      string `json:"func"`
	Begin     int64  `json:"begin"`
	End       int64  `json:"end"`
}

type request struct {
	Goroutine int    `json:"goroutine"`
	Parts     []part `json:"parts"`
}

var start = time.Now()

func now() int64 { return int64(time.Since(start)) }

func goid() int {
	buffer := make([]byte, 64)
	id, _ := strconv.Atoi(string(bytes.Fields(buffer[:runtime.Stack(buffer, false)])[1]))
	return id
}

func (r *request) run(ms int64, function string) {
	p := part{goid(), "running", function, now(), 0}
	for now() < p.Begin+ms*1e6 {
	}
	p.End = now()
	r.Parts = append(r.Parts, p)
}

//go:noinline
func nap() { time.Sleep(4 * time.Millisecond) }

// house is the goroutines that a request needs: the worker computes, needs the mutex that the keeper
// holds while it sleeps, and asks a goroutine of its own at the end.
type house struct {
	mutex sync.Mutex
	jobs  chan *request
	keep  chan *request
	kept  chan bool
	done  chan bool
}

//go:noinline
func (h *house) keeper() {
	for r := range h.keep {
		h.mutex.Lock()
		h.kept <- true
		p := part{goid(), "sleep", "main.relay.func2", now(), 0}
		nap()
		p.End = now()
		r.Parts = append(r.Parts, p)
		h.mutex.Unlock()
	}
}

//go:noinline
func (h *house) worker() {
	for r := range h.jobs {
		h.work(r)
		h.done <- true
	}
}

//go:noinline
func (h *house) work(r *request) {
	r.run(3, "main.relay.func1")
	h.keep <- r
	<-h.kept
	h.mutex.Lock()
	h.mutex.Unlock()
	r.run(1, "main.relay.func1")
	child := make(chan bool)
	go func() { h.child(r, child) }()
	<-child
}

//go:noinline
func (h *house) child(r *request, done chan bool) {
	r.run(2, "main.(*house).work.func1")
	done <- true
}

//go:noinline
func handle(h *house, r *request) {
	r.Goroutine = goid()
	r.run(2, "main.relay.func3")
	h.jobs <- r
	<-h.done
	r.run(1, "main.relay.func3")
}

// With one P, who hands over has begun to wait when the next one begins: one goroutine at a time.
func relay(n int) []*request {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	h := &house{jobs: make(chan *request), keep: make(chan *request), kept: make(chan bool),
		done: make(chan bool)}
	requests := make([]*request, n)
	go func() { h.worker() }()
	go func() { h.keeper() }()
	time.Sleep(2 * time.Millisecond) // they wait for work
	for i := range requests {
		r, end := &request{}, make(chan bool)
		requests[i] = r
		go func() {
			handle(h, r)
			end <- true
		}()
		<-end
	}
	close(h.jobs)
	close(h.keep)
	return requests
}

func main() {
	fmt.Println("ready", os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch words := strings.Fields(lines.Text()); words[0] {
		case "relay":
			n, _ := strconv.Atoi(words[1])
			json.NewEncoder(os.Stdout).Encode(relay(n))
		case "check":
			fmt.Println("ok", len(words))
		}
	}
}
