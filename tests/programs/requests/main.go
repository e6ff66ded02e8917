// Requests serves requests in its own process, and knows of each how long it slept, waited for a
// mutex and for a channel, was in a system call and used the CPU.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	serve N WORKERS  serves so many; prints as JSON what each did
//	labels KIND      a goroutine gets invalid labels, and sleeps with them; "ok"
//	flood SECONDS    sets of labels change as fast as they can; "ok" and how many times
//	http N           an HTTP server of its own serves so many; prints as JSON what each handler did
//	steady SECONDS CLIENTS HOLD THINK  clients, each on a connection of its own, come again after
//	                                   THINK ms on average; a handler sleeps for HOLD ms. Prints
//	                                   "begun" and when; later as JSON when each request began
//	                                   and ended, and for its client, and when its server was
//	                                   done with it
//	check            "ok N"
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// interval is the times just before and just after something, in ns since the program began.
type interval [2]int64

// request is what a request did: for each operation when it began and ended. Its labels were set within
// Set and removed within Unset.
type request struct {
	ID       string              `json:"id"`
	Route    string              `json:"route"`
	Set      interval            `json:"set"`
	Unset    interval            `json:"unset"`
	Did      map[string]interval `json:"did"`
	Children int                 `json:"children"`
}

var start = time.Now()

func now() int64 { return int64(time.Since(start)) }

// helper belongs to a worker: it holds its mutex, or answers, for as long as it is told to.
type helper struct {
	mutex  sync.Mutex
	hold   chan time.Duration
	held   chan bool
	ask    chan time.Duration
	answer chan bool
}

func newHelper() *helper {
	h := &helper{hold: make(chan time.Duration), held: make(chan bool),
		ask: make(chan time.Duration), answer: make(chan bool)}
	go func() {
		for d := range h.hold {
			h.mutex.Lock()
			h.held <- true
			time.Sleep(d)
			h.mutex.Unlock()
		}
	}()
	go func() {
		for d := range h.ask {
			time.Sleep(d)
			h.answer <- true
		}
	}()
	return h
}

func (h *helper) end() {
	close(h.hold)
	close(h.ask)
}

// Each of these functions is on the stack only between the two times measured around it.

//go:noinline
func doSleep(d time.Duration) { time.Sleep(d) }

//go:noinline
func doMutex(h *helper) {
	h.mutex.Lock()
	h.mutex.Unlock()
}

//go:noinline
func doChannel(h *helper) { <-h.answer }

//go:noinline
func doSyscall(wait *syscall.Timespec) { syscall.Nanosleep(wait, nil) }

//go:noinline
func doCPU(until int64) {
	for now() < until {
	}
}

// doAsk instructs the helper, which can also take a while.
//
//go:noinline
func doAsk(h *helper, hold, answer time.Duration) {
	h.hold <- hold
	<-h.held
	h.ask <- answer
}

//go:noinline
func doChild(d time.Duration) {
	done := make(chan bool)
	go func() {
		time.Sleep(d)
		done <- true
	}()
	<-done
}

func (r *request) time(name string, do func()) {
	begin := now()
	do()
	r.Did[name] = interval{begin, now()}
}

func serve(r *request, h *helper, random *rand.Rand) {
	none := context.Background()
	some := pprof.WithLabels(none, pprof.Labels("trace_id", r.ID, "route", r.Route))
	upTo := func(us int) time.Duration { return time.Duration(random.Intn(us)) * time.Microsecond }

	r.Did = map[string]interval{}
	r.Set[0] = now()
	pprof.SetGoroutineLabels(some)
	r.Set[1] = now()
	hold, answer := upTo(400), upTo(800)
	r.time("ask", func() { doAsk(h, hold, answer) })
	r.time("mutex", func() { doMutex(h) })
	r.time("channel", func() { doChannel(h) })
	if r.Route != "/fast" {
		sleep, wait := upTo(500), syscall.NsecToTimespec(int64(upTo(300)))
		r.time("sleep", func() { doSleep(sleep) })
		r.time("syscall", func() { doSyscall(&wait) })
	}
	cpu := int64(upTo(60))
	r.time("cpu", func() { doCPU(now() + cpu) })
	if r.Children > 0 {
		sleep := upTo(300)
		r.time("child", func() { doChild(sleep) })
	}
	r.Unset[0] = now()
	pprof.SetGoroutineLabels(none)
	r.Unset[1] = now()
}

func serveAll(n, workers int) []*request {
	requests := make([]*request, n)
	routes := []string{"/fast", "/slow", "/with space=%"}
	var wait sync.WaitGroup

	for i := range requests {
		requests[i] = &request{ID: "r" + strconv.Itoa(i), Route: routes[i%len(routes)]}
		if i%8 == 0 {
			requests[i].Children = 1
		}
	}
	for w := 0; w < workers; w++ {
		wait.Add(1)
		go func(w int) {
			h, random := newHelper(), rand.New(rand.NewSource(int64(w)))
			for i := w; i < n; i += workers {
				serve(requests[i], h, random)
			}
			h.end()
			wait.Done()
		}(w)
	}
	wait.Wait()
	return requests
}

// invalid labels, each with "bad" = its kind, so that a test finds them.
func bad(kind string) []string {
	labels := []string{"bad", kind}
	switch kind {
	case "control":
		return append(labels, "con\x1b[31mtrol\n", "a\x00b\r\n\x1b]0;x\x07 =%41\xff")
	case "thousand":
		for i := 0; i < 1000; i++ {
			labels = append(labels, fmt.Sprintf("key%04d", i), fmt.Sprintf("value%d", i))
		}
	case "empty":
		return append(labels, "", "")
	case "megabyte":
		return append(labels, "huge", strings.Repeat("v", 1<<20), "after", "it",
			strings.Repeat("k", 1<<20), "key")
	}
	return labels
}

func haveLabels(kind string) {
	ready := make(chan bool)
	go pprof.Do(context.Background(), pprof.Labels(bad(kind)...), func(context.Context) {
		time.Sleep(time.Millisecond)
		ready <- true
		for {
			time.Sleep(time.Millisecond)
		}
	})
	<-ready
}

// flood has two goroutines: one with few label sets, and one with a new set each time.
func flood(seconds float64) int {
	var wait sync.WaitGroup
	var counts [2]int
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))

	wait.Add(2)
	go func() {
		some := pprof.WithLabels(context.Background(), pprof.Labels("flood", "few"))
		for time.Now().Before(end) {
			for i := 0; i < 100; i++ {
				pprof.SetGoroutineLabels(some)
				pprof.SetGoroutineLabels(context.Background())
			}
			counts[0] += 200
		}
		wait.Done()
	}()
	go func() {
		for time.Now().Before(end) {
			labels := pprof.Labels("flood", strconv.Itoa(counts[1]))
			pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), labels))
			counts[1]++
		}
		wait.Done()
	}()
	wait.Wait()
	return counts[0] + counts[1]
}

// serveHTTP serves n requests of one client, whose handlers sleep.
// The GC is off: if it stopped a handler after its last reading of the clock, or made it assist, the
// handler would be longer than it knows.
func serveHTTP(n int) []*request {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var requests []*request
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r := &request{Did: map[string]interval{}}
		r.Set[0] = now()
		r.time("sleep", func() { doSleep(time.Duration(1+len(requests)%4) * time.Millisecond) })
		fmt.Fprintln(w, "done")
		r.Unset[1] = now()
		requests = append(requests, r)
	})}
	go server.Serve(listener)
	for i := 0; i < n; i++ {
		response, err := http.Get("http://" + listener.Addr().String())
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	server.Close()
	return requests
}

// visit is when a handler began and ended, when its client began and had the answer, and when its
// server was done with it.
type visit [5]int64

// connections has of each client's address when its connection became idle again.
type connections struct {
	sync.Mutex
	idle map[string][]int64
}

func (c *connections) note(connection net.Conn, state http.ConnState) {
	c.Lock()
	defer c.Unlock()
	if state == http.StateIdle {
		address := connection.RemoteAddr().String()
		c.idle[address] = append(c.idle[address], now())
	}
}

// next is when the connection became idle after the visits that have been asked for.
func (c *connections) next(address string, or int64) int64 {
	c.Lock()
	defer c.Unlock()
	if len(c.idle[address]) == 0 {
		return or
	}
	at := c.idle[address][0]
	c.idle[address] = c.idle[address][1:]
	return at
}

// visits are of one client, and each has the address of its connection.
type visits struct {
	times []visit
	from  []string
}

// client sends requests at random times.
func client(address string, think time.Duration, until time.Time, done chan<- visits) {
	own := http.Client{Transport: &http.Transport{}}
	defer own.CloseIdleConnections()
	var all visits
	for time.Now().Before(until) {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(think)))
		sent := now()
		response, err := own.Get("http://" + address)
		if err != nil {
			panic(err)
		}
		r, from := visit{2: sent}, ""
		if _, err := fmt.Fscan(response.Body, &r[0], &r[1], &from); err != nil {
			panic(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		r[3] = now()
		all.times = append(all.times, r)
		all.from = append(all.from, from)
	}
	done <- all
}

func serveSteadily(seconds float64, clients int, hold, think time.Duration) []visit {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	served := &connections{idle: map[string][]int64{}}
	handler := func(w http.ResponseWriter, r *http.Request) {
		began := now()
		time.Sleep(hold)
		fmt.Fprintln(w, began, now(), r.RemoteAddr)
	}
	server := &http.Server{Handler: http.HandlerFunc(handler), ConnState: served.note}
	defer server.Close()
	go server.Serve(listener)
	done := make(chan visits)
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for i := 0; i < clients; i++ {
		go client(listener.Addr().String(), think, until, done)
	}
	fmt.Println("begun", now())
	var all []visit
	for i := 0; i < clients; i++ {
		one := <-done
		for i, r := range one.times {
			r[4] = served.next(one.from[i], r[3])
			all = append(all, r)
		}
	}
	return all
}

func milliseconds(word string) time.Duration {
	n, _ := strconv.ParseFloat(word, 64)
	return time.Duration(n * float64(time.Millisecond))
}

func obey(words []string, out *json.Encoder) {
	switch words[0] {
	case "serve":
		n, _ := strconv.Atoi(words[1])
		workers, _ := strconv.Atoi(words[2])
		out.Encode(serveAll(n, workers))
	case "labels":
		haveLabels(words[1])
		fmt.Println("ok")
	case "flood":
		seconds, _ := strconv.ParseFloat(words[1], 64)
		fmt.Println("ok", flood(seconds))
	case "http":
		n, _ := strconv.Atoi(words[1])
		out.Encode(serveHTTP(n))
	case "steady":
		seconds, _ := strconv.ParseFloat(words[1], 64)
		clients, _ := strconv.Atoi(words[2])
		out.Encode(serveSteadily(seconds, clients, milliseconds(words[3]), milliseconds(words[4])))
	case "check":
		fmt.Println("ok", len(words))
	}
}

func main() {
	fmt.Println("ready", os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) > 0 {
			obey(words, out)
		}
	}
}
