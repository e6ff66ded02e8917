// Incidents happen when they are asked for.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	request MS   serves a request that takes so long
//	load N       serves N requests a second from now on, each of 5 ms
//	served       how many of these it has served
//	lock MS      a goroutine waits so long for a lock that another holds
//	busy MS      six goroutines want the only P for so long
//	starve MS    300 goroutines do: each waits for seconds
//	spawn N      N goroutines wait, then end
//	hold N       N goroutines wait in main.held, until
//	release      lets them end
//	panic        panics, and recovers
//	call         calls main.unusual
//	gc           collects garbage
//	fill MB      the heap has so much more, until
//	free         frees it
//	check        "ok"
package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	_ "net/http/pprof" // without it the program keeps no heap profile
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var kept [][]byte

func serve(w http.ResponseWriter, r *http.Request) {
	ms, _ := strconv.Atoi(r.URL.Query().Get("ms"))
	time.Sleep(time.Duration(ms) * time.Millisecond)
}

func ask(url string, ms int) {
	answer, err := http.Get(fmt.Sprint(url, "?ms=", ms))
	if err != nil {
		panic(err)
	}
	answer.Body.Close()
}

var served int64

func load(url string, n int) {
	for range time.Tick(time.Second / time.Duration(n)) {
		ask(url, 5)
		atomic.AddInt64(&served, 1)
	}
}

//go:noinline
func unusual(n int) string {
	return strconv.Itoa(n)
}

//go:noinline
func waitForLock(m *sync.Mutex) {
	m.Lock()
	m.Unlock()
}

func lock(d time.Duration) {
	var m sync.Mutex
	var done sync.WaitGroup
	m.Lock()
	done.Add(1)
	go func() {
		waitForLock(&m)
		done.Done()
	}()
	time.Sleep(d)
	m.Unlock()
	done.Wait()
}

func busy(d time.Duration, n int) {
	before := runtime.GOMAXPROCS(1)
	end := time.Now().Add(d)
	var all sync.WaitGroup
	for i := 0; i < n; i++ {
		all.Add(1)
		go func() {
			for time.Now().Before(end) {
			}
			all.Done()
		}()
	}
	all.Wait()
	runtime.GOMAXPROCS(before)
}

func spawn(n int) {
	var all sync.WaitGroup
	stop := make(chan bool)
	for i := 0; i < n; i++ {
		all.Add(1)
		go func() {
			<-stop
			all.Done()
		}()
	}
	close(stop)
	all.Wait()
}

var release = make(chan bool)

//go:noinline
func held(all *sync.WaitGroup) {
	all.Done()
	<-release
}

func hold(n int) {
	var all sync.WaitGroup
	for i := 0; i < n; i++ {
		all.Add(1)
		go held(&all)
	}
	all.Wait()
}

func mayPanic() {
	defer func() { recover() }()
	var none *int
	*none = 1
}

func obey(words []string, url string) {
	n := 0
	if len(words) > 1 {
		n, _ = strconv.Atoi(words[1])
	}
	d := time.Duration(n) * time.Millisecond
	switch words[0] {
	case "request":
		ask(url, n)
	case "load":
		go load(url, n)
	case "lock":
		lock(d)
	case "busy":
		busy(d, 6)
	case "starve":
		busy(d, 300)
	case "spawn":
		spawn(n)
	case "hold":
		hold(n)
	case "release":
		close(release)
		release = make(chan bool)
	case "panic":
		mayPanic()
	case "call":
		unusual(n)
	case "gc":
		runtime.GC()
	case "fill":
		for i := 0; i < n; i++ {
			more := make([]byte, 1<<20)
			for at := 0; at < len(more); at += 4096 {
				more[at] = 1
			}
			kept = append(kept, more)
		}
	case "free":
		kept = nil
		runtime.GC()
	}
}

func main() {
	server := httptest.NewServer(http.HandlerFunc(serve))
	fmt.Println("ready", os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "served" {
			fmt.Println(atomic.LoadInt64(&served))
			continue
		}
		obey(strings.Fields(lines.Text()), server.URL)
		fmt.Println("ok")
	}
}
