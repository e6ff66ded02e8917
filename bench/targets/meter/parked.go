package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A process may have a limited number of files.
const maxSockets = 15000

// A way to park, and how many of our frames are below it, so that each stack has 14 frames in all.
type way struct {
	park  func()
	depth int
}

var (
	forever  = make(chan int)
	other    = make(chan int)
	held     sync.Mutex
	notDone  sync.WaitGroup
	never    = sync.NewCond(&sync.Mutex{})
	sockets  int64
	arriving sync.WaitGroup
)

func park(n int) {
	ways := []way{
		{parkReceive, 10},
		{parkSelect, 11},
		{parkSleep, 11},
		{parkMutex, 6},
		{parkWaitGroup, 8},
		{parkCond, 9},
		{parkSocket, 5},
	}
	held.Lock()
	notDone.Add(1)
	go beacon()
	arriving.Add(n)
	for i := 0; i < n; i++ {
		w := ways[i%len(ways)]
		if i >= len(ways)*maxSockets {
			w = ways[i%(len(ways)-1)]
		}
		go descend(w.depth, w.park)
	}
	arriving.Wait()
	time.Sleep(100*time.Millisecond + time.Duration(n)*2*time.Microsecond)
}

// descend has frames like ordinary code, of some words each.
//
//go:noinline
func descend(depth int, park func()) int {
	var work [4]int
	if depth <= 1 {
		arriving.Done()
		park()
		return depth
	}
	work[depth&3] = descend(depth-1, park)
	return work[depth&3] + work[(depth+1)&3]
}

func parkReceive() { <-forever }

func parkSelect() {
	select {
	case <-forever:
	case <-other:
	}
}

func parkSleep() { time.Sleep(24 * time.Hour) }

func parkMutex() { held.Lock() }

func parkWaitGroup() { notDone.Wait() }

func parkCond() {
	never.L.Lock()
	never.Wait()
}

// parkSocket waits in the network poller for a datagram that never comes.
func parkSocket() {
	name := fmt.Sprintf("@meter-%d-%d", os.Getpid(), atomic.AddInt64(&sockets, 1))
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		fmt.Fprintln(os.Stderr, "meter:", err)
		os.Exit(1)
	}
	var buf [16]byte
	_, _ = conn.Read(buf[:])
}

// beacon always exists once: the number of its samples is the number of the profiler's samples.
func beacon() { <-forever }

// meanFrames is the mean depth of all stacks, with inlined frames, without runtime.goexit.
func meanFrames() float64 {
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+100)
	n, ok := runtime.GoroutineProfile(records)
	if !ok || n == 0 {
		return 0
	}
	total := 0
	for i := range records[:n] {
		frames := runtime.CallersFrames(records[i].Stack())
		for more := true; more; total++ {
			_, more = frames.Next()
		}
	}
	return float64(total)/float64(n) - 1
}
