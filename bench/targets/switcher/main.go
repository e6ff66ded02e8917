// Switcher measures what an event of a trace costs. It switches the tracer on and off at random
// between one slice of its work and the next. A slice may be as short as half a millisecond, so that
// thousands of both kinds find the same machine.
//
//	switcher -work W -ops N -seconds S [-own]
//
// It says "ready PID", works, and prints in a line of JSON the CPU time of an operation in
// nanoseconds (medians), and the standard error of the difference. Without -own the tracer is
// gospect, which has to be started then and to stay until the line is there: its hooks are switched
// in the page behind the agent's code (docs/internals/trace.md). With -own it is runtime/trace, which takes
// long to start: slices of 7 ms and more.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/trace"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	parked   = 1000
	heapMB   = 64
	warmOps  = 100
	deep     = 20 // more frames on each stack
	sysClock = 2  // CLOCK_PROCESS_CPUTIME_ID
)

type node struct {
	next *node
	data [56]byte
}

var kept *node

func main() {
	work := flag.String("work", "http", "http, echo, pingpong, or deep, which is that with 20 more frames on each stack")
	ops := flag.Int("ops", 5, "operations a slice")
	seconds := flag.Float64("seconds", 5, "how long")
	own := flag.Bool("own", false, "its own tracer, not gospect's hooks")
	flag.Parse()

	runtime.GOMAXPROCS(1)
	for i := 0; i < heapMB<<20/64; i++ {
		kept = &node{next: kept}
	}
	for i := 0; i < parked; i++ {
		go func() { select {} }()
	}
	op := map[string]func() func(){"http": startHTTP, "echo": startEcho, "pingpong": startPingPong, "deep": startDeep}[*work]()
	repeat(op, warmOps)
	fmt.Println("ready", os.Getpid())
	set := switchOwn
	if !*own {
		set = hooks()
	}
	frames := map[string]int{"deep": deep}[*work]
	below(frames, func() { measure(op, *ops, time.Duration(*seconds*float64(time.Second)), set) })
}

//go:noinline
func below(frames int, f func()) {
	if frames == 0 {
		f()
	} else {
		below(frames-1, f)
	}
}

func repeat(op func(), n int) {
	for i := 0; i < n; i++ {
		op()
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "switcher:", err)
		os.Exit(1)
	}
}

// startHTTP is a request by net/http's client to net/http's server.
func startHTTP() func() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello")
	}))
	url := "http://" + listener.Addr().String() + "/"
	return func() {
		answer, err := http.Get(url)
		must(err)
		_, err = io.Copy(io.Discard, answer.Body)
		must(err)
		answer.Body.Close()
	}
}

// startEcho is a line there and back over TCP.
func startEcho() func() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go func() {
		c, err := listener.Accept()
		must(err)
		_, err = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
		must(err)
	}()
	c, err := net.Dial("tcp", listener.Addr().String())
	must(err)
	lines := bufio.NewReader(c)
	return func() {
		_, err := c.Write([]byte("hello\n"))
		must(err)
		_, err = lines.ReadSlice('\n')
		must(err)
	}
}

// startPingPong is a number handed to another goroutine and back.
func startPingPong() func() { return pairBelow(0) }

func startDeep() func() { return pairBelow(deep) }

func pairBelow(frames int) func() {
	to, from := make(chan int), make(chan int)
	go below(frames, func() {
		for v := range to {
			from <- v
		}
	})
	return func() {
		to <- 1
		<-from
	}
}

func cpuTime() float64 {
	var t syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, sysClock, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		must(errno)
	}
	return float64(t.Nano())
}

// hooks waits for gospect.
func hooks() func(on bool) {
	address := hooksSwitch()
	for address == 0 {
		time.Sleep(5 * time.Millisecond)
		address = hooksSwitch()
	}
	time.Sleep(300 * time.Millisecond)
	// An address that the runtime does not know: by way of a pointer, or vet takes it for a mistake.
	hooked := *(**uint32)(unsafe.Pointer(&address))
	return func(on bool) {
		value := uint32(0)
		if on {
			value = 1
		}
		atomic.StoreUint32(hooked, value)
	}
}

func hooksSwitch() uintptr {
	maps, err := os.ReadFile("/proc/self/maps")
	must(err)
	behind := ""
	for _, line := range strings.Split(string(maps), "\n") {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		bounds := strings.Split(words[0], "-")
		if bounds[0] == behind && words[1] == "rw-p" {
			address, err := strconv.ParseUint(bounds[0], 16, 64)
			must(err)
			return uintptr(address)
		}
		if len(words) > 5 && strings.Contains(words[5], "gospect-code") {
			behind = bounds[1]
		}
	}
	return 0
}

func switchOwn(on bool) {
	if on {
		must(trace.Start(io.Discard))
	} else {
		trace.Stop()
	}
}

type result struct {
	Off        float64 `json:"off"`
	On         float64 `json:"on"`
	Difference float64 `json:"difference"`
	Error      float64 `json:"error"`
	OpsTraced  int     `json:"ops_traced"`
}

func measure(op func(), ops int, d time.Duration, set func(on bool)) {
	var taken [2][]float64
	r := result{}
	was := false
	set(was)
	for end := time.Now().Add(d); time.Now().Before(end); {
		on := rand.Intn(2)
		if (on == 1) != was {
			was = !was
			set(was)
		}
		op() // absorbs the cost of the switch itself
		start := cpuTime()
		repeat(op, ops)
		taken[on] = append(taken[on], (cpuTime()-start)/float64(ops))
		r.OpsTraced += on * (ops + 1)
	}
	if was {
		set(false)
	}
	var offError, onError float64
	r.Off, offError = median(taken[0])
	r.On, onError = median(taken[1])
	r.Difference, r.Error = r.On-r.Off, math.Hypot(offError, onError)
	must(json.NewEncoder(os.Stdout).Encode(r))
}

// median with its standard error, by the values around it.
func median(values []float64) (m, e float64) {
	sort.Float64s(values)
	n := len(values)
	around := int(math.Sqrt(float64(n)) / 2)
	return values[n/2], (values[n/2+around] - values[n/2-around]) / 2
}
