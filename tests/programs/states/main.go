// Program states holds a goroutine in every possible state, and keeps still.
//
// It prints "ready PID" once nothing moves any more. Then it obeys lines on standard input:
//
//	stack   its own runtime.Stack of all goroutines, preceded by a line with the number of bytes
//	check   "ok N", with N computed in a way that uses channels, timers, the heap and maps
//	gc      collects garbage, answers "done"
//
// It ends when standard input does.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// hold is a way to keep goroutines in some state; start returns at once.
type hold struct {
	name  string
	start func()
}

var holds []hold

func register(name string, start func()) {
	holds = append(holds, hold{name, start})
}

var (
	spinners = flag.Int("spin", 0, "goroutines that never stop running")
	only     = flag.String("only", "", "start only the goroutines whose name has this prefix")
	extra    = flag.Int("extra", 0, "more goroutines that wait for a channel")
)

func main() {
	flag.Parse()
	for _, h := range holds {
		if strings.HasPrefix(h.name, *only) {
			h.start()
		}
	}
	never := make(chan int)
	for i := 0; i < *extra; i++ {
		go waitForChannel(never)
	}
	settle()
	for i := 0; i < *spinners; i++ {
		go spin(uint64(i))
	}
	done := make(chan struct{})
	go control(done)
	<-done
	runtime.KeepAlive(never)
}

//go:noinline
func waitForChannel(c chan int) {
	<-c
}

// settle returns when every goroutine but this one is parked, and the runtime's own have finished
// their work.
func settle() {
	runtime.GC()
	debug.FreeOSMemory()
	for i := 0; i < 500; i++ {
		time.Sleep(10 * time.Millisecond)
		text := string(allStacks())
		if strings.Count(text, "[running]") == 1 && !strings.Contains(text, "[runnable") &&
			!strings.Contains(text, "[GC ") {
			break
		}
	}
	debug.SetGCPercent(-1)
	time.Sleep(50 * time.Millisecond)
}

func allStacks() []byte {
	for size := 1 << 20; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return buf[:n]
		}
	}
}

func control(done chan<- struct{}) {
	fmt.Printf("ready %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "stack":
			text := allStacks()
			fmt.Printf("%d\n%s", len(text), text)
		case "check":
			fmt.Printf("ok %d\n", compute())
		case "gc":
			runtime.GC()
			fmt.Println("done")
		default:
			fmt.Println("what?")
		}
	}
	close(done)
}

// compute gives the same number each time, if memory, channels, timers and maps are sound.
func compute() uint64 {
	words := make(chan uint64)
	go func() {
		defer close(words)
		sum := sha256.Sum256([]byte("gospect"))
		for i := 0; i < 1000; i++ {
			words <- binary.LittleEndian.Uint64(sum[:])
			sum = sha256.Sum256(sum[:])
		}
	}()
	seen := map[uint64]int{}
	var total uint64
	for w := range words {
		seen[w]++
		total = total*31 + w
	}
	<-time.After(time.Millisecond)
	for w, n := range seen {
		total += w * uint64(n)
	}
	return total
}

var spun uint64

//go:noinline
func spin(x uint64) {
	for {
		x = x*6364136223846793005 + 1442695040888963407
		if x == 42 {
			spun = x
		}
	}
}
