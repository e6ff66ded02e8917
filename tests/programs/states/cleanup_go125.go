//go:build go1.25

package main

import "runtime"

func init() {
	register("cleanup", startCleanup)
}

// startCleanup blocks a goroutine that runs cleanups in one of them. In Go 1.24 they were run by the
// goroutine that runs finalizers, which is blocked already.
func startCleanup() {
	entered := make(chan struct{})
	makeCleaned(entered)
	for {
		runtime.GC()
		select {
		case <-entered:
			return
		default:
			runtime.Gosched()
		}
	}
}

//go:noinline
func makeCleaned(entered chan struct{}) {
	object := &struct{ data [64]int }{}
	runtime.AddCleanup(object, func(c chan struct{}) {
		close(c)
		block()
	}, entered)
}
