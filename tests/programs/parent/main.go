// A program that waits for any child and counts SIGCHLD, while a goroutine moves the only pointer to
// a channel between two places that are far apart. Its memory is read as of one point in time.
//
//	parent [MEGABYTES]
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	pages    = 4096
	pageSize = 4096
	waiters  = 50
)

type account struct {
	Leaked  []int // goroutines that nothing reaches
	Healthy []int // that only a moving pointer leads to
	Strange []int // processes that a wait gave and that were never started
	Errors  []string
	Started int64
	Reaped  int64
	Signals int64 // SIGCHLD
	Moves   int64
	Echoes  int64 // of a pipe that a thread waits in
}

type cell struct {
	channel chan int
	_       [pageSize - 8]byte
}

var (
	told     account
	cells    []cell
	writing  []byte
	rests    int32 // no children are made
	resting  int32
	children = map[int]bool{}
)

func id() int {
	var text [64]byte
	words := strings.Fields(string(text[:runtime.Stack(text[:], false)]))
	n, _ := strconv.Atoi(words[1])
	return n
}

func wait(c chan int, ids chan int) {
	ids <- id()
	<-c
}

// The pointers go from one end of the memory to the other and back, for ever.
func move() {
	for at := 0; ; at = (at + 1) % pages {
		to := (at*2731 + 17) % pages
		if at == to || cells[at].channel == nil || cells[to].channel != nil {
			continue
		}
		c := cells[at].channel
		cells[at].channel = nil
		cells[to].channel = c
		atomic.AddInt64(&told.Moves, 1)
	}
}

func write() {
	for at := 0; len(writing) > 0; at = (at + pageSize) % len(writing) {
		writing[at]++
		if at%(64*pageSize) == 0 {
			runtime.Gosched()
		}
	}
}

func reap() {
	var status syscall.WaitStatus
	for {
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil || pid <= 0 {
			if err != syscall.ECHILD {
				told.Errors = append(told.Errors, fmt.Sprint("wait4: ", pid, err))
			}
			return
		}
		if !children[pid] || status.ExitStatus() != 0 {
			told.Strange = append(told.Strange, pid)
			continue
		}
		delete(children, pid)
		atomic.AddInt64(&told.Reaped, 1)
	}
}

// bear starts children, and waits for whatever child there is.
func bear() {
	for {
		if atomic.LoadInt32(&rests) != 0 {
			reap()
			atomic.StoreInt32(&resting, 1)
			time.Sleep(time.Millisecond)
			continue
		}
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{})
		if err != nil {
			told.Errors = append(told.Errors, fmt.Sprint("fork: ", err))
			return
		}
		children[pid] = true
		atomic.AddInt64(&told.Started, 1)
		reap()
		time.Sleep(20 * time.Millisecond)
	}
}

// echo has a thread that waits in read(2), not in the runtime's poller.
func echo() {
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		panic(err)
	}
	go func() {
		for {
			time.Sleep(30 * time.Millisecond)
			syscall.Write(ends[1], []byte{1})
		}
	}()
	for {
		var b [1]byte
		if n, err := syscall.Read(ends[0], b[:]); n != 1 || err != nil {
			told.Errors = append(told.Errors, fmt.Sprint("read: ", n, err))
		}
		atomic.AddInt64(&told.Echoes, 1)
	}
}

func count() {
	signals := make(chan os.Signal, 100)
	signal.Notify(signals, syscall.SIGCHLD)
	for range signals {
		atomic.AddInt64(&told.Signals, 1)
	}
}

func leak() {
	ids := make(chan int)
	for i := 0; i < 7; i++ {
		go wait(make(chan int), ids)
		told.Leaked = append(told.Leaked, <-ids)
	}
}

func begin() {
	ids := make(chan int)
	cells = make([]cell, pages)
	for i := 0; i < waiters; i++ {
		c := make(chan int)
		cells[i*(pages/waiters)].channel = c
		go wait(c, ids)
		told.Healthy = append(told.Healthy, <-ids)
		go wait(make(chan int), ids)
		told.Leaked = append(told.Leaked, <-ids)
	}
	if len(os.Args) > 1 {
		megabytes, _ := strconv.Atoi(os.Args[1])
		writing = make([]byte, megabytes<<20)
		go write()
	}
	go move()
	go count()
	go bear()
	go echo()
}

func main() {
	if runtime.GOMAXPROCS(0) < 4 {
		runtime.GOMAXPROCS(4)
	}
	begin()
	time.Sleep(200 * time.Millisecond)
	fmt.Println("ready", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "check":
			fmt.Println("right")
			continue
		case "rest":
			atomic.StoreInt32(&resting, 0)
			atomic.StoreInt32(&rests, 1)
			for atomic.LoadInt32(&resting) == 0 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(50 * time.Millisecond) // the last signals
		case "leak":
			leak()
		case "go on":
			atomic.StoreInt32(&rests, 0)
		}
		line, _ := json.Marshal(told)
		fmt.Println(string(line))
	}
}
