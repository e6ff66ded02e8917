//go:build go1.25
// +build go1.25

package main

import "runtime"

// The same for cleanups; several goroutines may run these.
func cleaned() {
	blocked := make(chan bool)
	for i := 0; i < 64; i++ {
		runtime.AddCleanup(new([64]byte), func(int) {
			blocked <- true
			<-globalChannel
		}, 1)
	}
	runtime.GC()
	<-blocked
	c := make(chan int)
	go receiveFrom(c)
	runtime.AddCleanup(new([64]byte), func(c chan int) { close(c) }, c)
	runtime.GC()
	runtime.GC()
}
