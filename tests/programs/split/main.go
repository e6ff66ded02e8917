// Program split spends its time in known places, and measures how much in each.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	check   "ok N"
//	times   nanoseconds spent in each place so far, and what time it is, as JSON
//	end     ends with exit status 7
//
// With -for it ends by itself, with exit status 3.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"
)

var (
	lasts = flag.Duration("for", 0, "end after this time")
	idle  = flag.Int("idle", 20, "goroutines that wait for a channel all the time")
)

// clock adds up time spent in places.
type clock struct {
	sync.Mutex
	spent   map[string]time.Duration
	started map[string]time.Time
}

var times = clock{spent: map[string]time.Duration{}, started: map[string]time.Time{}}

func (c *clock) enter(place string) {
	c.Lock()
	c.started[place] = time.Now()
	c.Unlock()
}

func (c *clock) leave(place string) {
	c.Lock()
	c.spent[place] += time.Since(c.started[place])
	delete(c.started, place)
	c.Unlock()
}

func (c *clock) read() map[string]time.Duration {
	c.Lock()
	defer c.Unlock()
	total := map[string]time.Duration{}
	for place, spent := range c.spent {
		total[place] = spent
	}
	for place, since := range c.started {
		total[place] += time.Since(since)
	}
	return total
}

func main() {
	flag.Parse()
	for i := 0; i < *idle; i++ {
		go waitForever(make(chan int))
	}
	go pprof.Do(context.Background(), pprof.Labels("worker", "pipeline"), pipeline)
	go pprof.Do(context.Background(), pprof.Labels("worker", "reader"), reader)
	go pprof.Do(context.Background(), pprof.Labels("worker", "burner"), burner)
	fmt.Printf("ready %d\n", os.Getpid())
	if *lasts > 0 {
		time.AfterFunc(*lasts, func() { os.Exit(3) })
	}
	obey()
}

func obey() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "check":
			fmt.Printf("ok %d\n", *idle)
		case "times":
			spent := times.read()
			spent["now"] = time.Duration(time.Now().UnixNano())
			text, _ := json.Marshal(spent)
			fmt.Printf("%s\n", text)
		case "end":
			os.Exit(7)
		}
	}
	if *lasts > 0 {
		select {}
	}
}

//go:noinline
func waitForever(c chan int) { <-c }

// pipeline alternates between three places, in the ratio 5 : 3 : 2.
func pipeline(context.Context) {
	var mutex sync.Mutex
	for {
		stageSleep(25 * time.Millisecond)
		stageChannel(15 * time.Millisecond)
		stageMutex(&mutex, 10*time.Millisecond)
	}
}

//go:noinline
func stageSleep(d time.Duration) {
	times.enter("main.stageSleep")
	time.Sleep(d)
	times.leave("main.stageSleep")
}

//go:noinline
func stageChannel(d time.Duration) {
	times.enter("main.stageChannel")
	c := make(chan int)
	time.AfterFunc(d, func() { close(c) })
	<-c
	times.leave("main.stageChannel")
}

//go:noinline
func stageMutex(mutex *sync.Mutex, d time.Duration) {
	mutex.Lock()
	time.AfterFunc(d, mutex.Unlock)
	times.enter("main.stageMutex")
	mutex.Lock()
	times.leave("main.stageMutex")
	mutex.Unlock()
}

// reader is always in a system call that bypasses the netpoller.
func reader(context.Context) {
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		panic(err)
	}
	times.enter("main.readForever")
	readForever(pipe[0])
}

//go:noinline
func readForever(fd int) {
	syscall.Read(fd, make([]byte, 1))
}

// burner runs on a core for a quarter of the time.
func burner(context.Context) {
	for {
		burn(15 * time.Millisecond)
		pause(45 * time.Millisecond)
	}
}

var burned uint64

//go:noinline
func burn(d time.Duration) {
	times.enter("main.burn")
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := uint64(0); i < 1000; i++ {
			burned = burned*31 + i
		}
	}
	times.leave("main.burn")
}

//go:noinline
func pause(d time.Duration) {
	times.enter("main.pause")
	time.Sleep(d)
	times.leave("main.pause")
}
