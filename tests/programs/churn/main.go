// Program churn moves as fast as it can, in stacks that prove whether they were read in one piece.
//
// A goroutine walks down twelve frames again and again. The functions' names spell twelve
// hexadecimal digits, outermost first: four of its own id, four at random, four of a checksum over
// the other eight and the way it then waits. Whoever reads a stack, and the goroutine's id, can
// tell a mix of two moments from a stack that was. Goroutines end and are replaced, stacks grow and
// shrink, the garbage collector runs.
//
// It prints "ready PID", answers "check" with "ok N" and "rounds" with the walks done so far, and
// ends when standard input does.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const depth = 12

var (
	workers = flag.Int("workers", 64, "goroutines")
	life    = flag.Int("life", 200, "walks before a goroutine is replaced")
	grow    = flag.Int("grow", 10, "percent of walks that make the stack grow")
	collect = flag.Duration("collect", 10*time.Millisecond, "time between garbage collections")
)

// worker is what a goroutine has of its own while it lives.
type worker struct {
	id     uint64
	random *rand.Rand
	mutex  sync.Mutex
	wake   chan int
	pipe   [2]int
	sink   [][]byte
}

var (
	rounds uint64
	leaves = [...]func(*walk){leafChan, leafSleep, leafMutex, leafSelect, leafSyscall, leafYield, leafSpin}
)

func main() {
	flag.Parse()
	for i := 0; i < *workers; i++ {
		go live(newWorker(int64(i)))
	}
	go func() {
		for {
			time.Sleep(*collect)
			runtime.GC()
		}
	}()
	done := make(chan struct{})
	go control(done)
	<-done
}

func control(done chan<- struct{}) {
	fmt.Printf("ready %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "check":
			fmt.Printf("ok %d\n", checksum(1, 2, 3))
		case "rounds":
			fmt.Printf("%d\n", atomic.LoadUint64(&rounds))
		}
	}
	close(done)
}

func newWorker(seed int64) *worker {
	w := &worker{random: rand.New(rand.NewSource(seed)), wake: make(chan int, 1)}
	if err := syscall.Pipe(w.pipe[:]); err != nil {
		panic(err)
	}
	return w
}

// live is the start function of every goroutine that walks.
func live(w *worker) {
	w.id = goroutineID()
	for i := 0; i < *life; i++ {
		kind := w.random.Intn(len(leaves))
		work := &walk{leaf: leaves[kind], state: w}
		work.spell(uint16(w.id), uint16(w.random.Intn(1<<16)), uint16(kind))
		if w.random.Intn(100) < *grow {
			stretch(60)
		}
		work.descend()
		atomic.AddUint64(&rounds, 1)
	}
	go live(w)
}

// goroutineID reads the id where the runtime shows it: "goroutine 18 [running]:".
func goroutineID() uint64 {
	buf := make([]byte, 64)
	text := bytes.Fields(buf[:runtime.Stack(buf, false)])[1]
	id, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		panic(err)
	}
	return id
}

// checksum is the 32-bit FNV-1a hash of three numbers, low byte first, folded to 16 bits.
func checksum(id, random, kind uint16) uint16 {
	hash := uint32(2166136261)
	for _, n := range [...]uint16{id, random, kind} {
		hash = (hash ^ uint32(n&0xff)) * 16777619
		hash = (hash ^ uint32(n>>8)) * 16777619
	}
	return uint16(hash>>16) ^ uint16(hash)
}

func (w *walk) spell(id, random, kind uint16) {
	for i, n := range [...]uint16{id, random, checksum(id, random, kind)} {
		for digit := 0; digit < 4; digit++ {
			w.path[i*4+digit] = byte(n>>(12-4*digit)) & 15
		}
	}
}

//go:noinline
func stretch(n int) byte {
	var space [256]byte
	if n > 0 {
		space[n] = stretch(n - 1)
	}
	return space[n/2]
}

// The ways to wait, in the order of leaves.

//go:noinline
func leafChan(w *walk) {
	wake := w.state.wake
	go func() { wake <- 1 }()
	<-wake
}

//go:noinline
func leafSleep(w *walk) { time.Sleep(50 * time.Microsecond) }

//go:noinline
func leafMutex(w *walk) {
	mutex := &w.state.mutex
	mutex.Lock()
	go mutex.Unlock()
	mutex.Lock()
	mutex.Unlock()
}

//go:noinline
func leafSelect(w *walk) {
	wake := w.state.wake
	go func() { wake <- 1 }()
	select {
	case <-wake:
	case <-time.After(time.Second):
		<-wake
	}
}

//go:noinline
func leafSyscall(w *walk) {
	fd := w.state.pipe[1]
	go syscall.Write(fd, []byte{1})
	syscall.Read(w.state.pipe[0], make([]byte, 1))
}

//go:noinline
func leafYield(w *walk) {
	for i := 0; i < 3; i++ {
		runtime.Gosched()
	}
}

//go:noinline
func leafSpin(w *walk) {
	for i := 0; i < 2000; i++ {
		w.turns[i&15] += i
	}
	w.state.sink = append(w.state.sink[:0], make([]byte, 512))
}
