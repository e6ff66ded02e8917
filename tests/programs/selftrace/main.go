// Selftrace traces itself with Go's own runtime/trace while it does a bit of everything: the file
// named by its argument is a trace that gospect did not make.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/trace"
	"sync"
	"time"
)

func compute(wait *sync.WaitGroup, n int) {
	defer wait.Done()
	sum := 0
	for i := 0; i < n; i++ {
		sum += i * i
		if i%1000000 == 0 {
			runtime.Gosched()
		}
	}
	runtime.KeepAlive(sum)
}

func echo(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			io.Copy(conn, conn)
			conn.Close()
		}()
	}
}

func talk(wait *sync.WaitGroup, address string) {
	defer wait.Done()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	buffer := make([]byte, 100)
	for i := 0; i < 200; i++ {
		conn.Write(buffer)
		io.ReadFull(conn, buffer)
	}
}

func pass(wait *sync.WaitGroup, in <-chan int, out chan<- int) {
	defer wait.Done()
	for v := range in {
		out <- v + 1
	}
	close(out)
}

func quarrel(wait *sync.WaitGroup, mu *sync.Mutex) {
	defer wait.Done()
	for i := 0; i < 50; i++ {
		mu.Lock()
		time.Sleep(100 * time.Microsecond)
		mu.Unlock()
	}
}

func work() {
	var wait sync.WaitGroup
	var mu sync.Mutex
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go echo(listener)
	in, out := make(chan int), make(chan int)
	wait.Add(9)
	go pass(&wait, in, out)
	for i := 0; i < 2; i++ {
		go compute(&wait, 20000000)
		go talk(&wait, listener.Addr().String())
		go quarrel(&wait, &mu)
	}
	go func() {
		defer wait.Done()
		for i := 0; i < 1000; i++ {
			in <- i
		}
		close(in)
	}()
	go func() {
		defer wait.Done()
		for range out {
		}
	}()
	wait.Wait()
	listener.Close()
	runtime.GC()
	time.Sleep(10 * time.Millisecond)
}

func main() {
	file, err := os.Create(os.Args[1])
	if err == nil {
		err = trace.Start(file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	work()
	trace.Stop()
	file.Close()
}
