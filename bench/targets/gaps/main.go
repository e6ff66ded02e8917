// Gaps measures how long it is stopped. Some threads read the clock in a loop; others sleep in system
// calls. From each gap a reader subtracts the time that it waited for a CPU meanwhile, as the kernel
// reports it (/proc/thread-self/schedstat). During the rest it was stopped.
//
//	gaps -readers N -sleepers N
//
// It says "ready PID" and answers each line with the longest such time since the line before, in us.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"
)

// Shorter ones are interrupts.
const leastGap = 50 * time.Microsecond

var longest int64 // ns

func waited(file *os.File) (ns int64) {
	var line [128]byte
	var ran int64
	n, _ := file.ReadAt(line[:], 0)
	fmt.Sscanf(string(line[:n]), "%d %d", &ran, &ns)
	return ns
}

func read() {
	runtime.LockOSThread()
	file, err := os.Open(fmt.Sprintf("/proc/self/task/%d/schedstat", syscall.Gettid()))
	if err != nil {
		panic(err)
	}
	before := waited(file)
	for last := time.Now(); ; {
		now := time.Now()
		if gap := now.Sub(last); gap > leastGap {
			after := waited(file)
			stood := int64(gap) - (after - before)
			before = after
			for old := atomic.LoadInt64(&longest); stood > old; old = atomic.LoadInt64(&longest) {
				atomic.CompareAndSwapInt64(&longest, old, stood)
			}
			now = time.Now()
		}
		last = now
	}
}

// All wait for one pipe, which nobody writes to: 10,000 threads need no more files than one.
func sleep(pipe int) {
	runtime.LockOSThread()
	for {
		syscall.Read(pipe, make([]byte, 1))
	}
}

func main() {
	readers := flag.Int("readers", 2, "")
	sleepers := flag.Int("sleepers", 0, "")
	flag.Parse()
	debug.SetMaxThreads(20000)
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(*readers + 2)
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		panic(err)
	}
	for i := 0; i < *sleepers; i++ {
		go sleep(ends[0])
	}
	for i := 0; i < *readers; i++ {
		go read()
	}
	fmt.Println("ready", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(atomic.SwapInt64(&longest, 0) / 1000)
	}
}
