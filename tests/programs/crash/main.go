// Program crash dies in the way that its argument names, with goroutines of several kinds alive.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
)

type failure struct{ code int }

func (f *failure) Error() string { return fmt.Sprintf("failure %d", f.code) }

var (
	mu   sync.Mutex
	sink uint64
)

//go:noinline
func wait(c chan int) { <-c }

//go:noinline
func lockTwice() { mu.Lock(); mu.Lock() }

//go:noinline
func sleep() { time.Sleep(time.Hour) }

//go:noinline
func spin(n uint64) {
	for {
		n = step(n)
	}
}

//go:noinline
func step(n uint64) uint64 { return n*6364136223846793005 + 1 }

//go:noinline
func read() {
	var buf [1]byte
	fds := make([]int, 2)
	syscall.Pipe(fds)
	syscall.Read(fds[0], buf[:])
}

//go:noinline
func nilPointer(p *failure) int { return p.code }

//go:noinline
func die(how string) {
	switch how {
	case "panic":
		panic("it is over")
	case "error":
		panic(error(&failure{42}))
	case "number":
		panic(-7)
	case "again":
		defer func() { panic(errors.New("second")) }()
		panic("first")
	case "nil":
		nilPointer(nil)
	case "index":
		list := make([]int, 3)
		list[len(os.Args)+10] = 1
	case "throw":
		m := sync.Mutex{}
		m.Unlock()
	case "wait":
		signal.Reset()
		select {}
	}
}

func main() {
	debug.SetGCPercent(-1)
	for i := 0; i < 20; i++ {
		go wait(nil)
	}
	go lockTwice()
	go sleep()
	go read()
	if len(os.Args) > 2 {
		go spin(uint64(len(os.Args)))
	}
	time.Sleep(100 * time.Millisecond)
	fmt.Println("ready", os.Getpid())
	runtime.Gosched()
	die(os.Args[1])
	time.Sleep(time.Hour)
}
