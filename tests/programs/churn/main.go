// Program churn moves as fast as it can, in stacks that prove whether they were read in one piece.
//
// A goroutine walks down twelve frames again and again. The functions' names spell twelve
// hexadecimal digits, outermost first: four of its own id, four of the round that it is in (stirred,
// so that the next round has other digits), four of a checksum over the other eight and the way it
// then waits. Whoever reads a stack, and the goroutine's id, can tell a mix of two moments from a
// stack that was. Goroutines end and are replaced, stacks grow and shrink, the garbage collector
// runs.
//
// Workers wait in a way chosen at random. Pairs play ping-pong and nappers make system calls of 30
// us, both flat out; with -rest they stop to sleep now and then, and know for how long they did what.
// From Go 1.23 on there are also the two sides of iter.Pull.
//
// It prints "ready PID", answers "check" with "ok N", "rounds" with the walks done so far and
// "times" with the nanoseconds that pairs and nappers were busy and at rest, and ends when standard
// input does.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

const depth = 12

var (
	workers = flag.Int("workers", 64, "goroutines that wait in all ways")
	pairs   = flag.Int("pairs", 0, "pairs of goroutines that play ping-pong")
	nappers = flag.Int("nappers", 0, "goroutines that make short system calls")
	life    = flag.Int("life", 200, "walks before a goroutine is replaced, at most 60000")
	grow    = flag.Int("grow", 10, "percent of walks that make the stack grow")
	collect = flag.Duration("collect", 10*time.Millisecond, "time between garbage collections")
	busy    = flag.Duration("busy", 20*time.Millisecond, "how long pairs and nappers are busy at a time")
	rest    = flag.Duration("rest", 0, "how long they rest then")
)

var rounds uint64

// startPulls starts what there is from Go 1.23 on.
var startPulls = func() {}

func init() {
	// A system call that sleeps 30 us sleeps 50 us longer otherwise: PR_SET_TIMERSLACK, which
	// threads get from the one that starts them.
	syscall.RawSyscall(syscall.SYS_PRCTL, 29, 1, 0)
}

func main() {
	flag.Parse()
	if *life > 60000 {
		fmt.Fprintln(os.Stderr, "churn: a round has 16 bits: -life is at most 60000")
		os.Exit(2)
	}
	for i := 0; i < *workers; i++ {
		go live(newWorker(i, nil))
	}
	for i := 0; i < *pairs; i++ {
		between := &table{there: make(chan bool), back: make(chan bool)}
		serving, answering := newWorker(i, &ofPairs), newWorker(i, &ofPairs)
		serving.table, answering.table = between, between
		go serve(serving)
		go answer(answering)
	}
	for i := 0; i < *nappers; i++ {
		go nap(newWorker(i, &ofNappers))
	}
	startPulls()
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
		case "times":
			fmt.Printf(`{"pairs": [%d, %d], "nappers": [%d, %d]}`+"\n",
				ofPairs.busy.sum(), ofPairs.rest.sum(), ofNappers.busy.sum(), ofNappers.rest.sum())
		}
	}
	close(done)
}

func newWorker(seed int, of *spent) *worker {
	w := &worker{
		random: rand.New(rand.NewSource(int64(seed))),
		wake:   make(chan int, 1),
		phase:  phase{of, time.Now()},
	}
	if err := syscall.Pipe(w.pipe[:]); err != nil {
		panic(err)
	}
	return w
}
