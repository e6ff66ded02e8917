// Counted does a known number of each thing that an execution trace shows.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	work        does its work in new goroutines, and prints as JSON what each did, by its id
//	garbage     makes some, from one collection to another; "ok"
//	trace FILE  begins a trace of Go's own; "ok"
//	end-trace   ends it; "ok"
//	check       "ok N"
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

type counts struct {
	Kind    string `json:"kind"`
	Sleeps  int    `json:"sleeps"`
	Gosched int    `json:"gosched"`
	Calls   int    `json:"calls"`
	Conds   int    `json:"conds"`
	Creates int    `json:"creates"`
}

var (
	mu   sync.Mutex
	done = map[string]counts{}
	zero int
)

func goid() string {
	buffer := make([]byte, 64)
	return string(bytes.Fields(buffer[:runtime.Stack(buffer, false)])[1])
}

func finished(c counts) {
	id := goid()
	mu.Lock()
	done[id] = c
	mu.Unlock()
}

func sleeper(wait *sync.WaitGroup, n int) {
	for i := 0; i < n; i++ {
		time.Sleep(300 * time.Microsecond)
	}
	finished(counts{Kind: "sleeper", Sleeps: n})
	wait.Done()
}

func yielder(wait *sync.WaitGroup, n int) {
	for i := 0; i < n; i++ {
		runtime.Gosched()
	}
	finished(counts{Kind: "yielder", Gosched: n})
	wait.Done()
}

func caller(wait *sync.WaitGroup, n int) {
	buffer := make([]byte, 1<<16)
	for i := 0; i < n; i++ {
		if _, err := syscall.Read(zero, buffer); err != nil {
			panic(err)
		}
	}
	finished(counts{Kind: "caller", Calls: n})
	wait.Done()
}

func creator(wait *sync.WaitGroup, n int) {
	var children sync.WaitGroup
	children.Add(n)
	for i := 0; i < n; i++ {
		go child(&children)
	}
	children.Wait()
	finished(counts{Kind: "creator", Creates: n})
	wait.Done()
}

func child(wait *sync.WaitGroup) {
	finished(counts{Kind: "child"})
	wait.Done()
}

// waiter and its partner take turns: each of n times it waits, and the other one wakes it.
func waiter(wait *sync.WaitGroup, cond *sync.Cond, turn *int, mine, n int) {
	waited := 0
	cond.L.Lock()
	for i := 0; i < n; i++ {
		for *turn != mine {
			cond.Wait()
			waited++
		}
		*turn = 1 - mine
		cond.Signal()
	}
	cond.L.Unlock()
	finished(counts{Kind: "waiter", Conds: waited})
	wait.Done()
}

func burner(wait *sync.WaitGroup, span time.Duration) {
	sum := 0
	for begin := time.Now(); time.Since(begin) < span; {
		for i := 0; i < 1000; i++ {
			sum += i
		}
	}
	runtime.KeepAlive(sum)
	finished(counts{Kind: "burner"})
	wait.Done()
}

func work() {
	var wait sync.WaitGroup
	cond := sync.NewCond(&sync.Mutex{})
	turn := 0
	wait.Add(10)
	for i := 0; i < 2; i++ {
		go sleeper(&wait, 400)
		go yielder(&wait, 3000)
		go caller(&wait, 2000)
		go creator(&wait, 500)
		go waiter(&wait, cond, &turn, i, 1000)
	}
	wait.Wait()
	wait.Add(1)
	go burner(&wait, 50*time.Millisecond)
	wait.Wait()
}

// Sizes of small and large objects; most are garbage at once.
func garbage() {
	runtime.GC()
	var wait sync.WaitGroup
	for i := 0; i < 4; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			var keep [64][]byte
			for n := 0; n < 6000; n++ {
				keep[n*7%64] = make([]byte, 1<<(n%16))
			}
			runtime.KeepAlive(keep)
		}()
	}
	wait.Wait()
	runtime.GC()
}

func obey(line string, file **os.File) string {
	words := strings.Fields(line)
	switch words[0] {
	case "work":
		done = map[string]counts{}
		work()
		text, _ := json.Marshal(done)
		return string(text)
	case "garbage":
		garbage()
		return "ok"
	case "trace":
		var err error
		if *file, err = os.Create(words[1]); err == nil {
			err = trace.Start(*file)
		}
		if err != nil {
			return err.Error()
		}
		return "ok"
	case "end-trace":
		trace.Stop()
		(*file).Close()
		return "ok"
	case "check":
		return "ok " + strconv.Itoa(runtime.NumGoroutine())
	}
	return "what?"
}

func main() {
	var file *os.File
	var err error
	if zero, err = syscall.Open("/dev/zero", syscall.O_RDONLY, 0); err != nil {
		panic(err)
	}
	fmt.Println("ready", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(obey(in.Text(), &file))
	}
}
