// Patients is a program with one disease, which its first argument names, for `gospect why`.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	check    "ok"
//	address  of the server, in the mode "server"
//	truth    what it measured of itself: the time of all calls that the disease makes slow, in ns
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof" // without it the linker turns the heap profile off
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

var patients = map[string]func(args []string){
	"deadlock":  deadlock,
	"stuck":     stuck,
	"convoy":    convoy,
	"pool":      exhaustPool,
	"leak":      leak,
	"gc":        thrash,
	"throttled": computeInTurns,
	"hot":       hot,
	"disk":      writeJournals,
	"server":    serveSlowly,
	"peer":      askPeer,
	"queue":     queueUp,
	"full":      fillChannel,
	"timers":    storm,
	"quiet":     askNobody,
	"crowd":     gather,
	"limit":     fillHeap,
	"healthy":   healthy,
}

var (
	address string
	truth   int64 // ns
)

func main() {
	patients[os.Args[1]](os.Args[2:])
	fmt.Printf("ready %d\n", os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "check":
			fmt.Println("ok")
		case "address":
			fmt.Println(address)
		case "truth":
			fmt.Println(atomic.LoadInt64(&truth))
		}
	}
}

// measured adds the time of the call to the truth.
func measured(call func()) {
	begin := time.Now()
	call()
	atomic.AddInt64(&truth, int64(time.Since(begin)))
}

// ---- hung ----

type account struct {
	mu    sync.Mutex
	coins int
}

//go:noinline
func transfer(from, to *account) {
	from.mu.Lock()
	time.Sleep(20 * time.Millisecond)
	to.mu.Lock()
	from.coins--
	to.coins++
	to.mu.Unlock()
	from.mu.Unlock()
}

func deadlock([]string) {
	a, b := new(account), new(account)
	go transfer(a, b)
	go transfer(b, a)
	time.Sleep(100 * time.Millisecond)
	go tickAway()
}

var stuckLock sync.Mutex

//go:noinline
func holdForEver() {
	stuckLock.Lock()
	select {}
}

//go:noinline
func wantStuckLock() { stuckLock.Lock() }

// One goroutine has a lock and never gives it back: no deadlock, as it waits for no lock.
func stuck([]string) {
	go holdForEver()
	time.Sleep(50 * time.Millisecond)
	for i := 0; i < 8; i++ {
		go wantStuckLock()
	}
	time.Sleep(50 * time.Millisecond)
	go tickAway()
}

//go:noinline
func confirm(answers chan int) int { return <-answers }

//go:noinline
func reserve(answers chan int) int { return confirm(answers) + 1 }

//go:noinline
func order(answers chan int) { reserve(answers) }

// Nothing runs: everybody waits for an answer that nobody gives.
func askNobody([]string) {
	for i := 0; i < 5; i++ {
		go order(make(chan int))
	}
}

// Requests that nobody waits for any more.
func gather([]string) {
	for i := 0; i < 1200; i++ {
		go order(make(chan int))
	}
	// A collection notes since when each of them waits. Without a first one, none is forced later.
	time.Sleep(100 * time.Millisecond)
	runtime.GC()
	go tickAway()
}

func tickAway() {
	for range time.Tick(50 * time.Millisecond) {
	}
}

// ---- slow ----

var convoyLock sync.Mutex

//go:noinline
func holdConvoyLock() {
	convoyLock.Lock()
	time.Sleep(2 * time.Millisecond)
	convoyLock.Unlock()
}

func convoy([]string) {
	for i := 0; i < 16; i++ {
		go func() {
			for {
				holdConvoyLock()
			}
		}()
	}
}

func exhaustPool([]string) {
	db := openPool(2)
	for i := 0; i < 12; i++ {
		go func() {
			for {
				askPool(db)
			}
		}()
	}
}

//go:noinline
func writeJournal(f *os.File, block []byte) {
	if _, err := f.Write(block); err != nil {
		panic(err)
	}
	if err := f.Sync(); err != nil {
		panic(err)
	}
}

// The first argument is the folder of the journals.
func writeJournals(args []string) {
	for i := 0; i < 8; i++ {
		f, err := os.CreateTemp(args[0], "journal")
		if err != nil {
			panic(err)
		}
		go func() {
			for n := 0; ; n++ {
				measured(func() { writeJournal(f, make([]byte, 16<<10)) })
				if n%1000 == 0 {
					f.Truncate(0)
					f.Seek(0, 0)
				}
			}
		}()
	}
}

// A server whose answers take 400 ms.
func serveSlowly([]string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	address = listener.Addr().String()
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(400 * time.Millisecond)
		fmt.Fprintln(w, "late")
	}))
}

//go:noinline
func fetch(client *http.Client, url string) {
	response, err := client.Get(url)
	if err != nil {
		panic(err)
	}
	response.Body.Close()
}

// The first argument is the peer's address.
func askPeer(args []string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	for i := 0; i < 8; i++ {
		go func() {
			for {
				fetch(client, "http://"+args[0]+"/")
			}
		}()
	}
}

//go:noinline
func produce(jobs chan<- int) {
	for i := 0; ; i++ {
		jobs <- i
	}
}

//go:noinline
func consume(jobs <-chan int) {
	for range jobs {
		time.Sleep(100 * time.Millisecond)
	}
}

func fillChannel([]string) {
	jobs := make(chan int, 64)
	for i := 0; i < 12; i++ {
		go produce(jobs)
	}
	go consume(jobs)
}

// ---- leaking ----

//go:noinline
func waitForAnswer(answers chan int) { <-answers }

func startForgotten() {
	go waitForAnswer(make(chan int))
}

func leak([]string) {
	for i := 0; i < 50; i++ {
		startForgotten()
	}
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			startForgotten()
		}
	}()
}

// ---- short of memory ----

type node struct {
	next    *node
	payload [48]byte
}

//go:noinline
func grow(n int) *node {
	var list *node
	for i := 0; i < n; i++ {
		list = &node{next: list}
	}
	return list
}

var kept []*node

func thrash([]string) {
	debug.SetGCPercent(5)
	for i := 0; i < 64; i++ {
		kept = append(kept, grow(8000))
	}
	for i := 0; i < 2; i++ {
		go func() {
			for {
				grow(1000)
				time.Sleep(100 * time.Microsecond)
			}
		}()
	}
}

// The heap has nearly as much as it may.
func fillHeap([]string) {
	debug.SetMemoryLimit(64 << 20)
	for i := 0; i < 61; i++ {
		block := make([]byte, 1<<20)
		for at := 0; at < len(block); at += 4096 {
			block[at] = 1
		}
		blocks = append(blocks, block)
	}
	go tickAway()
}

var blocks [][]byte

type queue struct {
	mu    sync.Mutex
	items [][]byte
}

//go:noinline
func (q *queue) push(n int) {
	item := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		item[i] = 1
	}
	q.mu.Lock()
	q.items = append(q.items, item)
	q.mu.Unlock()
}

func (q *queue) pop() {
	q.mu.Lock()
	if len(q.items) > 0 {
		q.items = q.items[1:]
	}
	q.mu.Unlock()
}

// A queue that grows by 30 MB a second, up to 1 GB.
func queueUp([]string) {
	q := new(queue)
	debug.SetGCPercent(10)
	go func() {
		for i := 0; i < 16000; i++ {
			q.push(64 << 10)
			time.Sleep(2 * time.Millisecond)
		}
	}()
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			q.pop()
		}
	}()
}

// ---- short of CPU ----

//go:noinline
func compute(n int) int {
	sum := 0
	for i := 0; i < n; i++ {
		sum += i * i
	}
	return sum
}

func computeInTurns([]string) {
	for i := 0; i < 2; i++ {
		go func() {
			for {
				atomic.AddInt64(&truth, int64(compute(1000000)&1))
				time.Sleep(time.Millisecond)
			}
		}()
	}
}

var stop int32

//go:noinline
func spin() {
	for atomic.LoadInt32(&stop) == 0 {
	}
}

func hot([]string) {
	go spin()
	go tickAway()
}

func storm([]string) {
	never := make(chan int)
	for i := 0; i < 1000; i++ {
		go func() {
			for {
				select {
				case <-time.After(time.Millisecond):
				case <-never:
				}
			}
		}()
	}
}

// ---- none of these ----

// A service: requests by a client of its own, workers, a ticker, and a cache with a lock.
func healthy([]string) {
	var cache sync.Map
	var mu sync.Mutex
	jobs := make(chan int, 16)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		cache.Store(r.URL.Path, compute(2000))
		mu.Unlock()
		jobs <- 1
		fmt.Fprintln(w, "well")
	}))
	for i := 0; i < 4; i++ {
		go func() {
			for n := range jobs {
				compute(n * 2000)
			}
		}()
	}
	for i := 0; i < 4; i++ {
		go func() {
			client := &http.Client{}
			for range time.Tick(20 * time.Millisecond) {
				fetch(client, "http://"+listener.Addr().String()+"/page")
			}
		}()
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-ctx.Done()
		cancel()
	}()
	go tickAway()
}
