package main

import (
	"runtime"
	"syscall"
	"time"
)

// The ways to wait. Workers choose among the first `mixed`.
var leaves = [...]func(*walk){
	leafChan, leafSleep, leafMutex, leafSelect, leafSyscall, leafYield, leafSpin, leafGrow,
	leafNap, leafServe, leafAnswer, leafRest, leafTake, leafGive,
}

const (
	mixed      = 9
	kindNap    = 8
	kindServe  = 9
	kindAnswer = 10
	kindRest   = 11
)

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

// leafGrow has its stack copied with all twelve frames on it.
//
//go:noinline
func leafGrow(w *walk) {
	if w.state.random.Intn(100) < 4**grow {
		stretch(60)
	}
	runtime.Gosched()
}

//go:noinline
func leafNap(w *walk) { syscall.Nanosleep(&syscall.Timespec{Nsec: 30000}, nil) }

//go:noinline
func leafServe(w *walk) {
	w.state.table.there <- w.state.enough
	<-w.state.table.back
}

//go:noinline
func leafAnswer(w *walk) {
	w.state.enough = <-w.state.table.there
	w.state.table.back <- true
}

//go:noinline
func leafRest(w *walk) { time.Sleep(*rest) }

//go:noinline
func leafTake(w *walk) { w.state.turn() }

//go:noinline
func leafGive(w *walk) { w.state.turn() }

//go:noinline
func stretch(n int) byte {
	var space [256]byte
	if n > 0 {
		space[n] = stretch(n - 1)
	}
	return space[n/2]
}
