// Program renewed makes new goroutines, stacks, labels and creators all the time, so
// gospect must not keep all of them.
//
// It prints "ready PID", then how many goroutines it has begun, once a second.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"
)

var (
	sleepers = flag.Int("sleepers", 3000, "goroutines that sleep under a new stack and label each time")
	nap      = flag.Duration("nap", 20*time.Millisecond, "for how long they sleep")
	starters = flag.Int("starters", 2, "goroutines that start others all the time")
	spinners = flag.Int("spinners", 0, "goroutines that compute, for a millisecond under each stack")
	begun    atomic.Int64
)

// left and right are a path of depth calls, by bits: 2^depth different stacks.
//
//go:noinline
func left(bits uint64, depth int, f func()) int {
	if depth == 0 {
		f()
		return 0
	}
	if bits&1 == 0 {
		return left(bits>>1, depth-1, f) + 1
	}
	return right(bits>>1, depth-1, f) + 2
}

//go:noinline
func right(bits uint64, depth int, f func()) int {
	if depth == 0 {
		f()
		return 0
	}
	if bits&1 == 0 {
		return left(bits>>1, depth-1, f) + 3
	}
	return right(bits>>1, depth-1, f) + 4
}

func sleep() {
	for {
		labels := pprof.Labels("request", strconv.FormatUint(rand.Uint64(), 36))
		pprof.Do(context.Background(), labels, func(context.Context) {
			left(rand.Uint64(), 12, func() { time.Sleep(*nap) })
		})
	}
}

func spin() {
	for {
		left(rand.Uint64(), 30, func() {
			for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
			}
		})
	}
}

func start() {
	for {
		done := make(chan bool, 100)
		for i := 0; i < 100; i++ {
			go func() {
				begun.Add(1)
				done <- true
			}()
		}
		for i := 0; i < 100; i++ {
			<-done
		}
	}
}

func main() {
	flag.Parse()
	for i := 0; i < *sleepers; i++ {
		go sleep()
	}
	for i := 0; i < *starters; i++ {
		go start()
	}
	for i := 0; i < *spinners; i++ {
		go spin()
	}
	fmt.Println("ready", os.Getpid())
	for {
		time.Sleep(time.Second)
		fmt.Println(begun.Load())
	}
}
