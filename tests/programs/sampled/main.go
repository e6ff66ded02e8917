// Sampled has goroutines each of which runs one function of its own, and says which.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	run MS FILE  for so much CPU time, goroutine i works in fi and, a quarter of its time, in shared, as
//	             request ri (a label), and hands over to another one in between. FILE gets Go's own
//	             CPU profile of that. Prints as JSON the goroutine of each request
//	check        "ok N"
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

var sink [8 * 64]uint64

//go:noinline
func shared(i, n int) {
	x := sink[64*i]
	for k := 0; k < n; k++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink[64*i] = x
}

//go:noinline
func f0(n int) {
	x := sink[0]
	for k := 0; k < n; k++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink[0] = x
}

//go:noinline
func f1(n int) {
	x := sink[64]
	for k := 0; k < n; k++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink[64] = x
}

//go:noinline
func f2(n int) {
	x := sink[128]
	for k := 0; k < n; k++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink[128] = x
}

//go:noinline
func f3(n int) {
	x := sink[192]
	for k := 0; k < n; k++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink[192] = x
}

//go:noinline
func f4(n int) {
	x := sink[256]
	for k := 0; k < n; k++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink[256] = x
}

//go:noinline
func f5(n int) {
	x := sink[320]
	for k := 0; k < n; k++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink[320] = x
}

var functions = []func(int){f0, f1, f2, f3, f4, f5}

func goid() int {
	buffer := make([]byte, 64)
	id, _ := strconv.Atoi(string(bytes.Fields(buffer[:runtime.Stack(buffer, false)])[1]))
	return id
}

// Some 0.1 ms; fewer for later functions, so that their shares differ.
func turns(i int) int { return 90000 / (i + 2) }

// CPU time of the process.
func used() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(syscall.TimevalToNsec(r.Utime) + syscall.TimevalToNsec(r.Stime))
}

func serve(i int, until time.Duration) {
	for used() < until {
		functions[i](3 * turns(i))
		shared(i, turns(i))
		switch i % 3 {
		case 0:
			runtime.Gosched()
		case 1:
			time.Sleep(100 * time.Microsecond)
		}
	}
}

func run(ms int, file string) (map[string]int, error) {
	out, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if err := pprof.StartCPUProfile(out); err != nil {
		return nil, err
	}
	defer pprof.StopCPUProfile()
	var (
		ids   = map[string]int{}
		lock  sync.Mutex
		group sync.WaitGroup
		until = used() + time.Duration(ms)*time.Millisecond
	)
	for i := range functions {
		i, name := i, fmt.Sprintf("r%d", i)
		group.Add(1)
		go pprof.Do(context.Background(), pprof.Labels("request", name), func(context.Context) {
			defer group.Done()
			lock.Lock()
			ids[name] = goid()
			lock.Unlock()
			serve(i, until)
		})
	}
	group.Wait()
	return ids, nil
}

// The same at each time.
func check() (sum int) {
	for i := 0; i < 1000; i++ {
		sum += i * i
	}
	return sum
}

func main() {
	fmt.Println("ready", os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if words[0] == "check" {
			fmt.Println("ok", check())
			continue
		}
		ms, _ := strconv.Atoi(words[1])
		ids, err := run(ms, words[2])
		if err != nil {
			fmt.Println(err)
			continue
		}
		answer, _ := json.Marshal(ids)
		fmt.Println(string(answer))
	}
}
