package main

import (
	"runtime"
	"runtime/debug"
)

func init() {
	register("panic", func() {
		go panicWithBlockedDefer()
		go panicAgain()
		go panicRecovered()
		go panicNil(nil)
		go panicIndex(make([]int, 3), 7)
		go panicDivide(0)
		go panicNilInterface(nil)
		go exitWithBlockedDefer()
		go deferInLoop(3)
		go deferredNormally()
	})
	register("finalizer", startFinalizer)
}

//go:noinline
func panicWithBlockedDefer() {
	defer func() { block() }()
	panic("first")
}

//go:noinline
func panicAgain() {
	defer func() {
		defer block()
		panic("second")
	}()
	panic("first")
}

//go:noinline
func panicRecovered() {
	defer func() {
		if recover() != nil {
			block()
		}
	}()
	panic("recovered")
}

//go:noinline
func panicNil(p *int) int {
	defer block()
	return *p
}

//go:noinline
func panicIndex(list []int, i int) int {
	defer block()
	return list[i]
}

//go:noinline
func panicDivide(n int) int {
	defer func() { block() }()
	return 10 / n
}

//go:noinline
func panicNilInterface(b blocker) int {
	defer func() { block() }()
	return b.wait(1)
}

//go:noinline
func exitWithBlockedDefer() {
	defer func() { block() }()
	runtime.Goexit()
}

//go:noinline
func deferInLoop(n int) {
	for i := 0; i < n; i++ {
		defer func(i int) { block() }(i)
	}
}

//go:noinline
func deferredNormally() { defer block() }

// startFinalizer blocks the goroutine that runs finalizers in one of them.
func startFinalizer() {
	entered := make(chan struct{})
	makeFinalized(entered)
	for {
		runtime.GC()
		debug.FreeOSMemory()
		select {
		case <-entered:
			return
		default:
			runtime.Gosched()
		}
	}
}

//go:noinline
func makeFinalized(entered chan struct{}) {
	object := &struct{ data [64]int }{}
	runtime.SetFinalizer(object, func(*struct{ data [64]int }) {
		close(entered)
		block()
	})
}
