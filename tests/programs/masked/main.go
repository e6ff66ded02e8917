// Program masked has many sleeping threads, and can make it slow to examine them: on request, the
// threads block all signals on deep stacks, below memory that takes long to read, and the
// runtime's list of threads becomes a circle without any of them.
//
// It prints "ready PID" when all sleep. It answers each line with "ok N": N is the number of threads
// that sleep. Before it answers "mask" they block signals; before "circle" the list is a circle,
// until "list".
package main

import (
	"bufio"
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

var threads = flag.Int("threads", 2000, "that sleep")

const (
	deep  = 32 << 10  // bytes of stack of each
	above = 256 << 20 // bytes of heap behind them
)

var (
	masked         uint32
	there, blocked sync.WaitGroup
	memory         []byte
)

// at is the word at an address.
func at(address uintptr) *uintptr {
	return *(**uintptr)(unsafe.Pointer(&address))
}

func address(name string) uintptr {
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	symbols, err := file.Symbols()
	if err != nil {
		panic(err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return uintptr(s.Value)
		}
	}
	panic(name)
}

// How many bytes of struct m and struct g are copied; both are larger.
const (
	threadBytes    = 2048
	goroutineBytes = 384
	signalWords    = 16 // m.g0 and m.gsignal are among the first of struct m
)

func forge(from uintptr, size int) []uintptr {
	copied := make([]uintptr, size/8)
	for i := range copied {
		copied[i] = *at(from + uintptr(8*i))
	}
	kept = append(kept, copied)
	return copied
}

func place(words []uintptr) uintptr { return uintptr(unsafe.Pointer(&words[0])) }

// circle is a copy of the first thread in the list. It follows itself, does not exist,
// and has no signal stack.
func circle(first uintptr) uintptr {
	fake := forge(first, threadBytes)
	for i, word := range fake {
		offset := uintptr(8 * i)
		switch {
		case *at(address("runtime.m0") + offset) == uintptr(os.Getpid()):
			fake[i] = uintptr(os.Getpid()) // m.procid
		case follows(first, offset):
			fake[i] = place(fake) // m.alllink
		case i < signalWords && inHeap(word):
			if g := forge(word, goroutineBytes); replace(g, first, place(fake)) {
				if i > 0 {
					g[0], g[1] = 0, 0 // the stack of m.gsignal
				}
				fake[i] = place(g)
			}
		case inHeap(word):
			fake[i] = 0 // m.curg, if it ran one then: that knows the first thread
		}
	}
	return place(fake)
}

// replace reports whether the goroutine belongs to that thread, and gives it to the other one.
func replace(g []uintptr, m, by uintptr) bool {
	for i := range g {
		if g[i] == m {
			g[i] = by
			return true
		}
	}
	return false
}

// inHeap: the address is in memory without a file that can be read.
func inHeap(address uintptr) bool {
	for _, r := range writable {
		if address >= r[0] && address+threadBytes <= r[1] {
			return address&7 == 0
		}
	}
	return false
}

var writable [][2]uintptr

func findWritable() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(string(maps), "\n") {
		var r [2]uintptr
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &r[0], &r[1], &mode); n == 3 &&
			strings.HasPrefix(mode, "rw") && !strings.Contains(line, "/") {
			writable = append(writable, r)
		}
	}
}

var kept [][]uintptr

// follows: that word leads to all threads.
func follows(m, offset uintptr) bool {
	count := 0
	for ; inHeap(m); count++ {
		m = *at(m + offset)
	}
	return count >= *threads && count < *threads+100
}

// sleep has its stack grown, so that it lies above the runtime's data about threads.
//
//go:noinline
func sleep(deepOnes *[deep]byte) byte {
	var bytes [deep]byte
	copy(bytes[:], deepOnes[:])
	there.Done()
	for set := false; ; {
		if !set && atomic.LoadUint32(&masked) != 0 {
			set = true
			all := ^uint64(0)
			syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&all)), 0, 8, 0, 0)
			blocked.Done()
		}
		span := syscall.Timespec{Nsec: 300e6}
		if set {
			span.Sec = 1000
		}
		syscall.Nanosleep(&span, nil)
	}
}

var wanted uintptr

// keep: new threads precede the circle only for a short time.
func keep(list *uintptr) {
	for ; ; time.Sleep(time.Millisecond) {
		if other := atomic.LoadUintptr(&wanted); other != 0 {
			atomic.StoreUintptr(list, other)
		}
	}
}

func main() {
	flag.Parse()
	debug.SetGCPercent(-1) // it would walk the list
	debug.SetMaxThreads(*threads + 100)
	var start sync.WaitGroup
	var locked sync.WaitGroup
	start.Add(1)
	there.Add(*threads)
	blocked.Add(*threads)
	locked.Add(*threads)
	for i := 0; i < *threads; i++ {
		go func() {
			runtime.LockOSThread()
			locked.Done()
			start.Wait()
			sleep(new([deep]byte))
		}()
	}
	locked.Wait()
	start.Done()
	there.Wait()
	memory = make([]byte, above)
	list := at(address("runtime.allm"))
	truth := *list
	findWritable()
	other := circle(truth)
	go keep(list)
	fmt.Println("ready", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "mask":
			atomic.StoreUint32(&masked, 1)
			blocked.Wait()
		case "circle":
			atomic.StoreUintptr(&wanted, other)
		case "list":
			atomic.StoreUintptr(&wanted, 0)
			atomic.StoreUintptr(list, truth)
		}
		time.Sleep(5 * time.Millisecond)
		fmt.Println("ok", *threads)
	}
}
