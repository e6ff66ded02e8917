// Program weighed keeps known amounts of memory, and says what the runtime counts.
//
// It keeps half of many small objects, so that their spans are half free, a large object, goroutines
// that are parked below calls of a known frame, and the pages of a file, argument 1, that it maps.
// It prints "ready PID" and obeys lines on standard input:
//
//	check     "ok N", a checksum of what it keeps
//	metrics   JSON: what runtime/metrics says of memory and of the collector
//	frames    "ok SIZE CALLS": the bytes from one frame of main.deep to the next, and how many of
//	          these frames are on all stacks
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

const (
	goroutines = 2000
	depth      = 8
	smalls     = 1 << 18
)

type small struct{ words [8]uint64 }

var (
	kept    []*small
	large   []byte
	mapped  []byte
	frame   uintptr
	samples []metrics.Sample
	parked  = make(chan bool)
	ready   sync.WaitGroup
)

//go:noinline
func deep(n int, above uintptr) byte {
	var local [512]byte
	here := uintptr(unsafe.Pointer(&local[0]))
	local[n&511] = byte(n)
	if n == 0 {
		if frame == 0 {
			frame = above - here
		}
		ready.Done()
		<-parked
		return local[0]
	}
	return deep(n-1, here) + local[n&511]
}

func fill() {
	all := make([]*small, smalls)
	for i := range all {
		all[i] = &small{}
		all[i].words[i&7] = uint64(i)
	}
	for i := 0; i < smalls; i += 2 {
		kept = append(kept, all[i])
	}
	large = make([]byte, 8<<20)
	for i := range large {
		large[i] = byte(i)
	}
}

func mapFile(path string) {
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	info, _ := file.Stat()
	mapped, err = syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
}

func checksum() uint64 {
	sum := uint64(len(large)) + uint64(large[7])
	for _, s := range kept {
		for _, w := range s.words {
			sum += w
		}
	}
	for i := 0; i < len(mapped); i += 4096 {
		sum += uint64(mapped[i])
	}
	return sum
}

func describe() {
	for _, d := range metrics.All() {
		if d.Kind == metrics.KindUint64 && (strings.HasPrefix(d.Name, "/memory/classes/") || strings.HasPrefix(d.Name, "/gc/")) {
			samples = append(samples, metrics.Sample{Name: d.Name})
		}
	}
}

func read() map[string]uint64 {
	metrics.Read(samples)
	values := map[string]uint64{}
	for _, s := range samples {
		values[s.Name] = s.Value.Uint64()
	}
	return values
}

func main() {
	fill()
	mapFile(os.Args[1])
	ready.Add(1)
	go deep(depth-1, 0) // alone, it learns the size of the frame
	ready.Wait()
	ready.Add(goroutines - 1)
	for i := 1; i < goroutines; i++ {
		go deep(depth-1, 0)
	}
	ready.Wait()
	describe()
	read()
	checksum()
	runtime.GC()
	runtime.GC()
	fmt.Println("ready", os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "check":
			fmt.Println("ok", checksum())
		case "metrics":
			text, _ := json.Marshal(read())
			fmt.Println(string(text))
		case "frames":
			fmt.Println("ok", frame, goroutines*depth)
		}
	}
}
