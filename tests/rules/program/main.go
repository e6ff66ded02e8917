// A program in which goroutines come and go all the time. Reading its memory must still work.
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func churn() {
	for {
		var wg sync.WaitGroup
		for i := 0; i < 50; i++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				runtime.Gosched()
			}()
		}
		wg.Wait()
	}
}

func pipeReader() {
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		panic(err)
	}
	var b [1]byte
	syscall.Read(fds[0], b[:])
}

func collect() {
	for {
		time.Sleep(10 * time.Millisecond)
		runtime.GC()
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { listener.Accept() }()
	go func() { runtime.LockOSThread(); pipeReader() }()
	for i := 0; i < 100; i++ {
		go func() { select {} }()
	}
	if len(os.Args) > 1 && os.Args[1] == "churn" {
		go collect()
		go churn()
		go churn()
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
}
