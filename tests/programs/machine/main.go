// Machine stops the world, lets a goroutine wait for its P, and makes system calls, and knows of
// each which goroutine was in the way and for how long.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	stops N     with two Ps; the other one spins. Prints as JSON who stopped the world, who spun, and
//	            how long each stop took at most
//	latency N   with one P, whose goroutine spins while another one can run; prints as JSON both,
//	            and how long each spin took
//	syscalls N  prints as JSON how long each took at most
//	check       "ok N"
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
	"sync/atomic"
	"syscall"
	"time"
)

type answer struct {
	By      int     `json:"by"`
	Spinner int     `json:"spinner"`
	Took    []int64 `json:"took"` // ns
}

var start = time.Now()

func now() int64 { return int64(time.Since(start)) }

func goid() int {
	buffer := make([]byte, 64)
	id, _ := strconv.Atoi(string(bytes.Fields(buffer[:runtime.Stack(buffer, false)])[1]))
	return id
}

//go:noinline
func spin(end *int32, turns *int64) {
	for atomic.LoadInt32(end) == 0 {
		atomic.AddInt64(turns, 1)
	}
}

//go:noinline
func spinUntil(until int64) {
	for now() < until {
	}
}

//go:noinline
func stopWorld(stats *runtime.MemStats) { runtime.ReadMemStats(stats) }

//go:noinline
func callSleep(wait *syscall.Timespec) { syscall.Nanosleep(wait, nil) }

//go:noinline
func waitForP(c chan bool) { <-c }

func stops(n int) (a answer) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var (
		end     int32
		turns   int64
		stats   runtime.MemStats
		spinner = make(chan int)
	)
	go func() {
		spinner <- goid()
		spin(&end, &turns)
		spinner <- 0
	}()
	a.By, a.Spinner = goid(), <-spinner
	for i := 0; i < n; i++ {
		time.Sleep(time.Millisecond)
		// The spinner runs, on the other P.
		for was := atomic.LoadInt64(&turns); atomic.LoadInt64(&turns) < was+1000; {
		}
		began := now()
		stopWorld(&stats)
		a.Took = append(a.Took, now()-began)
	}
	atomic.StoreInt32(&end, 1)
	<-spinner
	return a
}

func latency(n int) (a answer) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	ids, wake, done := make(chan int), make(chan bool), make(chan bool)

	go func() {
		ids <- goid()
		for i := 0; i < n; i++ {
			waitForP(wake)
			done <- true
		}
	}()
	a.By, a.Spinner = <-ids, goid()
	for i := 0; i < n; i++ {
		time.Sleep(time.Millisecond)
		began := now()
		wake <- true
		spinUntil(began + int64(4*time.Millisecond))
		a.Took = append(a.Took, now()-began)
		<-done
	}
	return a
}

func syscalls(n int) (a answer) {
	for i := 0; i < n; i++ {
		wait := syscall.NsecToTimespec(int64(200+i*10) * 1000)
		began := now()
		callSleep(&wait)
		a.Took = append(a.Took, now()-began)
	}
	a.By = goid()
	return a
}

func main() {
	fmt.Println("ready", os.Getpid())
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		n := 0
		if len(words) > 1 {
			n, _ = strconv.Atoi(words[1])
		}
		switch words[0] {
		case "stops":
			out.Encode(stops(n))
		case "latency":
			out.Encode(latency(n))
		case "syscalls":
			out.Encode(syscalls(n))
		case "check":
			fmt.Println("ok", len(words))
		}
	}
}
