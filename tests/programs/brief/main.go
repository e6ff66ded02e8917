// Program brief lives for some milliseconds, and does something worth seeing from its first
// instruction on: it logs in init(), and in main() before all else.
//
// It prints "did N" when it has made N logs and is about to end, with the status that its first
// argument gives. With a second argument it works and sleeps for so long each before that.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/trace"
	"strconv"
	"sync"
	"time"
)

const goroutines, logs = 20, 50

var (
	made int
	sink int
)

func log(category string, n int) {
	for i := 0; i < n; i++ {
		trace.Log(context.Background(), category, "brief")
		made++
	}
}

func init() {
	log("init", 7)
	wait := make(chan int)
	go ofInit(wait)
	<-wait
}

func ofInit(done chan<- int) {
	log("goroutine of init", 3)
	close(done)
}

func work(until time.Time) {
	for time.Now().Before(until) {
		sink++
	}
}

func child(mu *sync.Mutex, wait *sync.WaitGroup) {
	mu.Lock()
	log("child", logs)
	mu.Unlock()
	wait.Done()
}

func argument(i int) int {
	if len(os.Args) <= i {
		return 0
	}
	n, err := strconv.Atoi(os.Args[i])
	if err != nil {
		panic(err)
	}
	return n
}

func main() {
	log("main", 1)
	var mu sync.Mutex
	var wait sync.WaitGroup
	for i := 0; i < goroutines; i++ {
		wait.Add(1)
		go child(&mu, &wait)
	}
	wait.Wait()
	if ms := time.Duration(argument(2)) * time.Millisecond; ms > 0 {
		work(time.Now().Add(ms))
		time.Sleep(ms)
	}
	log("last", 1)
	fmt.Println("did", made)
	os.Exit(argument(1))
}
