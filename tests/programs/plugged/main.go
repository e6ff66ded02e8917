// Plugin is opened by the program pluggable.
package main

import (
	"sync"
	"time"
)

var (
	mutex sync.Mutex
	sink  int
)

//go:noinline
func waiter(depth int) {
	if depth == 0 {
		mutex.Lock()
		return
	}
	waiter(depth - 1)
	sink++
}

// Worker is created by a function of the plugin, and calls back through one of the program.
//
//go:noinline
func Worker(call func(func())) {
	call(func() {
		for {
			for begin := time.Now(); time.Since(begin) < time.Millisecond; {
				work()
			}
			time.Sleep(time.Millisecond)
		}
	})
}

//go:noinline
func work() {
	for i := 0; i < 1000; i++ {
		sink += i
	}
}

// Start is what the program looks up.
func Start(call func(func())) {
	mutex.Lock()
	go waiter(3)
	go Worker(call)
}

func main() {}
