// Program switches burns CPU where threads change their stack: under runtime.systemstack, in the
// vDSO, in the kernel, in runtime.morestack, in the scheduler; and at the end of a deep stack.
//
// Its arguments say which: "alloc", "time", "grow", "pingpong", "deep", "deeper", "zero"; or it makes
// "threads" all the time, or "many" that stay. It prints "ready PID" and
// obeys lines on standard input:
//
//	check   "ok N"
//	end     ends with exit status 7
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

type node struct {
	next *node
	data [200]byte
}

var (
	sink  uint64
	kept  [64]*node
	bytes []byte
)

//go:noinline
func makeNodes(n int) *node {
	var first *node
	for i := 0; i < n; i++ {
		first = &node{next: first}
	}
	return first
}

//go:noinline
func makeBytes(n int) { bytes = make([]byte, n) }

//go:noinline
func alloc() {
	for i := 0; ; i++ {
		kept[i%len(kept)] = makeNodes(100)
		makeBytes(100000)
	}
}

//go:noinline
func askTime() int64 { return time.Now().UnixNano() }

//go:noinline
func readClock() {
	for {
		sink += uint64(askTime())
	}
}

//go:noinline
func descend(n int) uint64 {
	var words [16]uint64
	if n == 0 {
		return sink
	}
	words[n%16] = descend(n - 1)
	return words[n%16] + words[(n+1)%16]
}

//go:noinline
func grow() {
	for {
		done := make(chan uint64)
		go func() { done <- descend(200) }()
		sink += <-done
	}
}

//go:noinline
func spin(n uint64) uint64 {
	for i := 0; i < 1000000; i++ {
		n = n*2862933555777941757 + 3037000493
	}
	return n
}

//go:noinline
func fall(n int) uint64 {
	var words [16]uint64
	if n == 0 {
		for {
			sink = spin(sink)
		}
	}
	words[n%16] = fall(n - 1)
	return words[n%16] + words[(n+1)%16]
}

// deep has frames of 150 bytes: 90 are more than 8 KB, and fewer than the kernel's chain holds.
//
//go:noinline
func deep() { sink = fall(90) }

// deeper has more frames than the callchain holds.
//
//go:noinline
func deeper() { sink = fall(300) }

//go:noinline
func pingpong() {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for n := range ping {
			pong <- n
		}
	}()
	for {
		ping <- 1
		<-pong
	}
}

//go:noinline
func zero() {
	file, err := os.Open("/dev/zero")
	if err != nil {
		panic(err)
	}
	for buffer := make([]byte, 1<<20); ; {
		file.Read(buffer)
	}
}

// threads ends a thread each time: a goroutine that ends locked to its thread ends that, too.
//
//go:noinline
func threads() {
	for {
		done := make(chan bool)
		go func() {
			runtime.LockOSThread()
			sink = spin(sink)
			close(done)
		}()
		<-done
	}
}

// many holds 300 threads that wait, and one that runs.
//
//go:noinline
func many() {
	for i := 0; i < 300; i++ {
		locked := make(chan bool)
		go func() {
			runtime.LockOSThread()
			close(locked)
			select {}
		}()
		<-locked
	}
	for {
		sink = spin(sink)
	}
}

func main() {
	what := map[string]func(){"alloc": alloc, "time": readClock, "grow": grow, "deep": deep,
		"deeper": deeper, "pingpong": pingpong, "threads": threads, "many": many,
		"zero": zero}
	for _, name := range os.Args[1:] {
		f, labels := what[name], pprof.Labels("burns", name)
		go pprof.Do(context.Background(), labels, func(context.Context) { f() })
	}
	fmt.Printf("ready %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "check":
			fmt.Println("ok 1")
		case "end":
			os.Exit(7)
		}
	}
}
