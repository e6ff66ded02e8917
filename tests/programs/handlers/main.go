// Handlers serves requests that neither block nor make system calls, and knows of each when it
// began and ended. It also has functions of all kinds whose calls may be recorded.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	serve KIND N WORKERS MICROSECONDS  so many requests, each of which computes for so long; prints
//	                                   as JSON when each was sent, began, ended and was answered.
//	                                   KIND is http, http2, or what happens at their ends: panic,
//	                                   hijack
//	call KIND N                        calls a function so often; prints as JSON when each began and
//	                                   ended. KIND: fact, deep, risky, tiny
//	storm                              all Ps call small functions, and are preempted as
//	                                   often as can be
//	calm                               ends that; "ok" and how many calls
//	check                              "ok" and what functions give
package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// call is one call: the caller's clock before and after it, and its own times.
type call struct {
	ID       int   `json:"id"`
	Sent     int64 `json:"sent"`
	Began    int64 `json:"began"`
	Ended    int64 `json:"ended"`
	Answered int64 `json:"answered"`
}

var start = time.Now()

func now() int64 { return int64(time.Since(start)) }

// ---- requests ----

type handler struct {
	kind  string
	spend time.Duration
	calls []call
}

// ServeHTTP is what net/http calls for each request, without a mux in between.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := now()
	id, err := strconv.Atoi(r.URL.Path[1:])
	if err != nil {
		panic(err)
	}
	for time.Duration(now()-began) < h.spend {
	}
	if h.kind == "hijack" {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		// Another goroutine answers, after the handler has returned.
		defer func() { go answer(conn) }()
	}
	h.calls[id].Began, h.calls[id].Ended = began, now()
	if h.kind == "panic" {
		panic(http.ErrAbortHandler)
	}
}

func answer(conn net.Conn) {
	time.Sleep(time.Millisecond)
	io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	conn.Close()
}

func send(client *http.Client, url string, c *call, fails bool) {
	c.Sent = now()
	response, err := client.Get(fmt.Sprint(url, "/", c.ID))
	if err == nil {
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	c.Answered = now()
	if (err != nil) != fails {
		log.Fatal("request ", c.ID, ": ", err)
	}
}

func serve(kind string, n, workers int, spend time.Duration) []call {
	h := &handler{kind, spend, make([]call, n)}
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = kind == "http2"
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if kind == "http2" {
		server.StartTLS()
	} else {
		server.Start()
	}
	client := server.Client()
	transport := client.Transport.(*http.Transport)
	transport.MaxIdleConnsPerHost = workers
	if kind != "http2" {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	var group sync.WaitGroup
	var next int64
	for w := 0; w < workers; w++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := int(atomic.AddInt64(&next, 1)) - 1; i < n; i = int(atomic.AddInt64(&next, 1)) - 1 {
				h.calls[i].ID = i
				send(client, server.URL, &h.calls[i], kind == "panic")
			}
		}()
	}
	group.Wait()
	server.Close()
	return h.calls
}

// ---- functions ----

// fact calls itself: the outermost call counts.
//
//go:noinline
func fact(n, spin int) int {
	for i := 0; i < spin; i++ {
		runtime.KeepAlive(i)
	}
	if n < 2 {
		return 1
	}
	return n * fact(n-1, spin)
}

// deep needs more stack than a new goroutine has, so its stack check runs twice. Growing the stack
// takes any time; the call begins after it.
//
//go:noinline
func deep(n int, c *call) byte {
	c.Began = now()
	var room [64 << 10]byte
	for i := range room {
		room[i] = byte(i * n)
	}
	c.Ended = now()
	return room[n%len(room)]
}

// A panic leaves risky every second time.
//
//go:noinline
func risky(n int) int {
	began := now()
	for now()-began < 20000 {
	}
	if n%2 == 1 {
		panic("as it should")
	}
	return n
}

//go:noinline
func guard(n int) {
	defer func() { recover() }()
	risky(n)
}

// tiny is inlined wherever it is called.
func tiny(n int) int {
	n *= 0x9e3779b9
	n ^= n >> 7
	return n + n<<3
}

func one(kind string, id int) call {
	c := call{ID: id, Sent: now()}
	c.Began = c.Sent
	switch kind {
	case "fact":
		if fact(10, 1000) != 3628800 {
			log.Fatal("fact")
		}
	case "deep":
		done := make(chan bool)
		go func() {
			deep(id, &c)
			done <- true
		}()
		<-done
	case "risky":
		guard(id)
	case "tiny":
		for i := 0; i < 1000; i++ {
			c.ID = tiny(c.ID)
		}
	}
	if c.Ended == 0 {
		c.Ended = now()
	}
	c.Answered = now()
	return c
}

func calls(kind string, n int) (all []call) {
	for i := 0; i < n; i++ {
		all = append(all, one(kind, i))
	}
	return all
}

// ---- the storm ----

// small has a frame of few bytes, mixed a large one: their ends are of both kinds.
//
//go:noinline
func small(a, b uint64) uint64 {
	if a&1 == 0 {
		return step(a) ^ b
	}
	return b + step(b^a)
}

//go:noinline
func step(a uint64) uint64 { return a*0x9e3779b97f4a7c15 + 1 }

//go:noinline
func mixed(a, b uint64) uint64 {
	var words [24]uint64
	for i := range words {
		words[i] = small(a+uint64(i), b)
	}
	return words[a%24] ^ words[b%24]
}

func round(seed uint64) uint64 {
	for i := uint64(0); i < 2000; i++ {
		seed = small(seed, i) ^ mixed(i, seed)
	}
	return seed
}

// storm starts a storm. The function that it returns ends it, and returns the number of calls.
func storm() func() int64 {
	var total, over int64
	var group sync.WaitGroup
	want := round(7)
	n := 2 * runtime.GOMAXPROCS(0)
	group.Add(n + 1)
	for i := 0; i < n; i++ {
		go func() {
			defer group.Done()
			for atomic.LoadInt64(&over) == 0 {
				if round(7) != want {
					log.Fatal("a wrong result")
				}
				atomic.AddInt64(&total, 1)
			}
		}()
	}
	go func() {
		defer group.Done()
		for atomic.LoadInt64(&over) == 0 {
			runtime.GC()
		}
	}()
	return func() int64 {
		atomic.StoreInt64(&over, 1)
		group.Wait()
		return total
	}
}

// ----

func number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func print(all []call) {
	text, err := json.Marshal(all)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}

func main() {
	fmt.Println("ready", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	var calm func() int64
	for in.Scan() {
		words := strings.Fields(in.Text())
		switch words[0] {
		case "serve":
			print(serve(words[1], number(words[2]), number(words[3]),
				time.Duration(number(words[4]))*time.Microsecond))
		case "call":
			print(calls(words[1], number(words[2])))
		case "storm":
			calm = storm()
		case "calm":
			fmt.Println("ok", calm())
		case "check":
			fmt.Println("ok", round(11), fact(5, 1), deep(3, new(call)))
		}
	}
}
