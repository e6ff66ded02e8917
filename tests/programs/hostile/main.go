// Program hostile lies about itself while gospect reads it. It changes all the time: its list of
// goroutines, their headers, stacks and labels, its list of threads, its heap's profiles, spans and
// objects, the memory shared with `gospect trace` and its head, and the remains of a killed gospect.
//
// It prints "ready PID". Its lies may crash it.
package main

import (
	"bufio"
	"context"
	"debug/elf"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

var (
	seed = flag.Int64("seed", 1, "of what it makes up")
	lies = flag.String("lies", "goroutines,threads,shared,head,stale_agent,buckets,spans,objects", "what it lies about")

	edges = []uint64{0, 1, 7, 8, 127, 128, 255, 4096, 1 << 16, 1<<31 - 1, 1 << 32, 1<<47 - 8, 1 << 47,
		1 << 60, 1 << 63, ^uint64(0), ^uint64(0) - 7}
)

const (
	gBytes  = 512
	count   = 2000
	area    = 1 << 20
	offsets = 60 // words of a header that may be changed
)

// symbols finds the runtime's variables as gospect does: in the file.
func symbols(names ...string) map[string]uintptr {
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	all, err := file.Symbols()
	if err != nil {
		panic(err)
	}
	found := map[string]uintptr{}
	for _, s := range all {
		for _, name := range names {
			if s.Name == name {
				found[name] = uintptr(s.Value)
			}
		}
	}
	return found
}

func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

func address(n *node) uintptr {
	return uintptr(unsafe.Pointer(n))
}

func word(address uintptr) *uint64 {
	return (*uint64)(pointer(address))
}

func memory(size uintptr, flags uintptr, fd uintptr) uintptr {
	a, _, e := syscall.Syscall6(syscall.SYS_MMAP, 0, size, 3, flags, fd, 0)
	if e != 0 {
		panic(e)
	}
	return a
}

type liar struct {
	*rand.Rand
	at   map[string]uintptr
	area uintptr // stacks, labels and whatever a lie points to
	text uintptr
}

// value is a number that a reader may rely on.
func (l *liar) value() uint64 {
	switch l.Intn(4) {
	case 0:
		return edges[l.Intn(len(edges))]
	case 1:
		return uint64(l.text) + uint64(l.Intn(1<<18))
	case 2:
		return uint64(l.area) + uint64(l.Intn(area))&^7
	default:
		return l.Uint64() >> uint(l.Intn(64))
	}
}

// goroutines replaces the list by one of true and invented goroutines, which changes.
func (l *liar) goroutines() {
	length, list := word(l.at["runtime.allglen"]), word(l.at["runtime.allgptr"])
	own := memory(count*8, 0x22, ^uintptr(0))
	made := memory(count*gBytes, 0x22, ^uintptr(0))
	truth := int(*length)
	for i := 0; i < count; i++ {
		g := made + uintptr(i*gBytes)
		real := uintptr(*word(uintptr(*list) + uintptr(8*l.Intn(truth))))
		for o := uintptr(0); o < gBytes-128; o += 8 {
			*word(g + o) = *word(real + o)
		}
		if i < truth {
			g = uintptr(*word(uintptr(*list) + uintptr(8*i)))
		}
		*word(own + uintptr(8*i)) = uint64(g)
	}
	atomic.StoreUint64(list, uint64(own))
	atomic.StoreUint64(length, count)
	for {
		for i := 0; i < 1000; i++ {
			*word(made + uintptr(l.Intn(count)*gBytes+8*l.Intn(offsets))) = l.value()
			*word(l.area + uintptr(8*l.Intn(area/8))) = l.value()
			*word(own + uintptr(8*(truth+l.Intn(count-truth)))) =
				uint64(made) + uint64(l.Intn(count)*gBytes)
		}
		if l.Intn(50) == 0 {
			*word(own + uintptr(8*(truth+l.Intn(count-truth)))) = l.value()
			atomic.StoreUint64(length, []uint64{count, uint64(truth), count + 1<<20, 1 << 40}[l.Intn(4)])
		}
		time.Sleep(time.Millisecond)
	}
}

// threads makes the list of threads a circle, or makes it lead elsewhere, for short times.
func (l *liar) threads() {
	first := word(l.at["runtime.allm"])
	truth := *first
	fake := memory(4096, 0x22, ^uintptr(0))
	for {
		for o := uintptr(0); o < 1024; o += 8 {
			*word(fake + o) = *word(uintptr(truth) + o)
		}
		for i := 0; i < 8; i++ {
			*word(fake + uintptr(8*l.Intn(128))) = []uint64{uint64(fake), l.value()}[l.Intn(2)]
		}
		atomic.StoreUint64(first, uint64(fake))
		time.Sleep(time.Duration(l.Intn(3000)) * time.Microsecond)
		atomic.StoreUint64(first, truth)
		time.Sleep(time.Duration(l.Intn(3000)) * time.Microsecond)
	}
}

func shared() (from, to uintptr) {
	file, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.Contains(lines.Text(), "/memfd:gospect-data") {
			fmt.Sscanf(lines.Text(), "%x-%x", &from, &to)
			if to-from > 1<<20 {
				return from, to
			}
		}
	}
	return 0, 0
}

// scribble writes into the memory that is shared with gospect, except its first page.
func (l *liar) scribble() {
	for {
		from, to := shared()
		for end := time.Now().Add(20 * time.Millisecond); from != 0 && time.Now().Before(end); {
			for i := 0; i < 100; i++ {
				// Mostly where there is something to read.
				span := []int{1 << 16, 1 << 20, 1 << 24, int(to - from)}[l.Intn(4)]
				at := 4096 + uintptr(l.Intn(span))&^7
				if at+8 <= to-from {
					*word(from + at) = l.value()
				}
			}
			runtime.Gosched()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// head changes one word of the first shared page at a time; all others are as gospect made them.
func (l *liar) head() {
	for {
		from, _ := shared()
		for end := time.Now().Add(20 * time.Millisecond); from != 0 && time.Now().Before(end); {
			at := word(from + uintptr(8*l.Intn(512)))
			truth := *at
			*at = l.value()
			time.Sleep(time.Duration(l.Intn(500)) * time.Microsecond)
			*at = truth
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func memfd(name string, size int64) uintptr {
	bytes := append([]byte(name), 0)
	fd, _, e := syscall.Syscall(319, uintptr(unsafe.Pointer(&bytes[0])), 0, 0)
	if e != 0 {
		panic(e)
	}
	syscall.Ftruncate(int(fd), size)
	defer syscall.Close(int(fd))
	return memory(uintptr(size), syscall.MAP_SHARED, fd)
}

// staleAgent forges the remains of a killed gospect for some time, with other numbers each time.
func (l *liar) staleAgent() {
	for {
		code, data := memfd("gospect-code", 24576), memfd("gospect-data", 1<<16)
		*word(code) = 0x65646f6374677367 // the head's magic number
		*word(code + 8) = uint64(l.Intn(8))
		for at := uintptr(16); at < 400; at += 8 {
			*word(code + at) = []uint64{uint64(code), uint64(data), l.value(), 0}[l.Intn(4)]
		}
		if l.Intn(2) == 0 {
			l.soundHead(code)
		}
		time.Sleep(time.Duration(l.Intn(1500)) * time.Millisecond)
		syscall.Syscall(syscall.SYS_MUNMAP, code, 24576, 0)
		syscall.Syscall(syscall.SYS_MUNMAP, data, 1<<16, 0)
		time.Sleep(time.Duration(l.Intn(1500)) * time.Millisecond)
	}
}

// soundHead is a head that gospect could have made, except for one word.
func (l *liar) soundHead(code uintptr) {
	for at := uintptr(16); at < 400; at += 8 {
		*word(code + at) = 0
	}
	*word(code + 8) = 4 // the version
	*word(code + 24) = uint64(code)
	*word(code + 32) = 24576 // bytes of code
	*word(code + 40) = uint64(code) + 4096
	*word(code + 72) = 4096 // bytes of stubs
	*word(code + uintptr(8*l.Intn(50))) = l.value()
}

// work does something that a trace records.
func work() {
	for i := 0; ; i++ {
		done := make(chan bool)
		labels := pprof.Labels("id", strconv.Itoa(i%50))
		go pprof.Do(context.Background(), labels, func(context.Context) { done <- true })
		<-done
		time.Sleep(200 * time.Microsecond)
	}
}

func main() {
	flag.Parse()
	debug.SetGCPercent(-1) // the GC would believe the lies
	at := symbols("runtime.allglen", "runtime.allgptr", "runtime.allm", "runtime.text", "runtime.mheap_",
		"runtime.mbuckets", "runtime.bbuckets", "runtime.xbuckets")
	fill()
	for i := 0; i < 4; i++ {
		go work()
	}
	time.Sleep(50 * time.Millisecond)
	own := memory(area, 0x22, ^uintptr(0))
	for i, lie := range strings.Split(*lies, ",") {
		l := &liar{rand.New(rand.NewSource(*seed + int64(i))), at, own, at["runtime.text"]}
		go map[string]func(){"goroutines": l.goroutines, "threads": l.threads, "shared": l.scribble,
			"head": l.head, "stale_agent": l.staleAgent, "buckets": l.buckets, "spans": l.spans,
			"objects": l.objects}[lie]()
	}
	time.Sleep(50 * time.Millisecond)
	fmt.Println("ready", os.Getpid())
	select {}
}
