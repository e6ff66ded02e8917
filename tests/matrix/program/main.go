// Program matrix is small, so that it can be built in all ways: it holds a few
// goroutines still, runs others on request, and imports little.
//
// It prints "ready PID" once nothing moves any more. Then it obeys lines on standard input:
//
//	stack   its own runtime.Stack of all goroutines, preceded by a line with the number of bytes
//	check   "ok N", with N computed in a way that uses channels, the heap and maps
//	spin    a goroutine computes for two seconds; answers "done" at once
//
// It ends when standard input does.
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const forever = 1000 * time.Hour

type pointer struct{ n int }

type holder interface{ hold(c chan int) int }

var (
	mutex   sync.Mutex
	special []func() // what only some builds have
)

func main() {
	mutex.Lock()
	start()
	for _, f := range special {
		f()
	}
	settle()
	say("ready " + strconv.Itoa(os.Getpid()) + "\n")
	for {
		switch readLine() {
		case "stack":
			text := allStacks()
			say(strconv.Itoa(len(text)) + "\n" + string(text))
		case "check":
			say("ok " + strconv.FormatUint(compute(), 10) + "\n")
		case "spin":
			go spin()
			say("done\n")
		case "":
			return
		default:
			say("what?\n")
		}
	}
}

func start() {
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		panic(err)
	}
	go holdReceive(make(chan int))
	go holdSend(make(chan int))
	go holdSelect(make(chan int), make(chan int))
	go holdForever()
	go holdSleep()
	go mutex.Lock()
	go holdGroup(&sync.WaitGroup{})
	go holdRead(fds[0])
	go holdLocked(make(chan int))
	go holdDeep(150, make(chan int))
	go holdInlined(make(chan int))
	go holdPanic(make(chan int))
	go holdLargeFrame(make(chan int))
	go func() { holder(&pointer{1}).hold(make(chan int)) }()
	f := (&pointer{2}).hold
	go f(make(chan int))
	time.AfterFunc(time.Millisecond, func() { holdReceive(make(chan int)) })
	for i := 0; i < 20; i++ {
		go holdReceive(make(chan int))
	}
}

//go:noinline
func holdReceive(c chan int) { <-c }

//go:noinline
func holdSend(c chan int) { c <- 1 }

//go:noinline
func holdSelect(a, b chan int) {
	select {
	case <-a:
	case b <- 1:
	}
}

//go:noinline
func holdForever() { select {} }

//go:noinline
func holdSleep() { time.Sleep(forever) }

//go:noinline
func holdGroup(group *sync.WaitGroup) {
	group.Add(1)
	group.Wait()
}

//go:noinline
func holdRead(fd int) { syscall.Read(fd, make([]byte, 1)) }

//go:noinline
func holdLocked(c chan int) {
	runtime.LockOSThread()
	<-c
}

//go:noinline
func holdDeep(n int, c chan int) int {
	if n == 0 {
		return <-c
	}
	return holdDeep(n-1, c) + 1
}

func inner(c chan int) int  { return <-c + 1 }
func middle(c chan int) int { return inner(c) * 2 }

//go:noinline
func holdInlined(c chan int) int { return middle(c) + 3 }

//go:noinline
func holdPanic(c chan int) {
	defer func() { <-c }()
	var p *pointer
	p.n++
}

//go:noinline
func holdLargeFrame(c chan int) byte {
	var space [100000]byte
	for i := range space {
		space[i] = byte(i)
	}
	return space[<-c]
}

//go:noinline
func (p *pointer) hold(c chan int) int { return <-c + p.n }

// settle returns when every goroutine but this one is parked.
func settle() {
	runtime.GC()
	debug.FreeOSMemory()
	for i := 0; i < 500; i++ {
		time.Sleep(10 * time.Millisecond)
		text := string(allStacks())
		if strings.Count(text, "[running") == 1 && !strings.Contains(text, "[runnable") &&
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

// Standard input is read in a system call, not through the netpoller.
func readLine() string {
	line, one := []byte{}, make([]byte, 1)
	for {
		n, err := syscall.Read(0, one)
		if err == syscall.EINTR {
			continue
		}
		if n != 1 || one[0] == '\n' {
			return string(line)
		}
		line = append(line, one[0])
	}
}

func say(text string) { os.Stdout.WriteString(text) }

// compute gives the same number each time, if memory, channels and maps are sound.
func compute() uint64 {
	words := make(chan uint64)
	go func() {
		defer close(words)
		word := uint64(1)
		for i := 0; i < 1000; i++ {
			word = word*6364136223846793005 + 1442695040888963407
			words <- word
		}
	}()
	seen := map[uint64]int{}
	var total uint64
	for w := range words {
		seen[w]++
		total = total*31 + w
	}
	for w, n := range seen {
		total += w * uint64(n)
	}
	return total
}

var spun uint64

//go:noinline
func spin() {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		spinInside()
	}
}

//go:noinline
func spinInside() {
	x := spun
	for i := 0; i < 1000000; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	spun = x
}
