// Program burst is idle until it is told to do very much at once, on one P: two
// goroutines pass a token to and fro, and in each round there is a system call, a region and a log,
// in each tenth a goroutine that ends at once.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	hold N      starts N goroutines, which wait; the next burst lets them end, spread over its rounds
//	burst N     N rounds, as fast as it can; prints as JSON what happened, and the time in ns
//	goroutines  the ids of all that there are, as the runtime says them; in one line
//	check       "ok N"
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/trace"
	"strings"
	"syscall"
	"time"
)

var (
	held    int
	release = make(chan int)
)

func wait() {
	<-release
}

func short(done chan<- int) {
	done <- 1
}

func echo(in <-chan int, out chan<- int) {
	for n := range in {
		out <- n + 1
	}
	close(out)
}

// The content that a trace must have.
type did struct {
	Rounds int   `json:"rounds"`
	Echoed int   `json:"echoed"`
	NS     int64 `json:"ns"`
}

func burst(rounds int) did {
	ctx := context.Background()
	there, back, done := make(chan int), make(chan int), make(chan int)
	go echo(there, back)
	result := did{Rounds: rounds}
	began := time.Now()
	for i := 0; i < rounds; i++ {
		there <- i
		result.Echoed += <-back - i
		syscall.Syscall(syscall.SYS_GETPPID, 0, 0, 0)
		if held > 0 && i%(rounds/held+1) == 0 {
			release <- 1
		}
		if i%10 == 0 {
			go short(done)
			<-done
		}
		trace.WithRegion(ctx, "round", func() {
			trace.Log(ctx, "burst", "in the midst of a round")
		})
	}
	result.NS = time.Since(began).Nanoseconds()
	close(there)
	<-back
	return result
}

var header = regexp.MustCompile(`(?m)^goroutine (\d+) `)

func goroutines() string {
	text := make([]byte, 1<<20)
	text = text[:runtime.Stack(text, true)]
	var ids []string
	for _, found := range header.FindAllSubmatch(text, -1) {
		ids = append(ids, string(found[1]))
	}
	return strings.Join(ids, " ")
}

func main() {
	runtime.GOMAXPROCS(1)
	fmt.Println("ready", os.Getpid())
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var rounds int
		if n, _ := fmt.Sscanf(input.Text(), "burst %d", &rounds); n == 1 {
			json.NewEncoder(os.Stdout).Encode(burst(rounds))
			held = 0
			continue
		}
		if n, _ := fmt.Sscanf(input.Text(), "hold %d", &held); n == 1 {
			for i := 0; i < held; i++ {
				go wait()
			}
			fmt.Println("ok", held)
			continue
		}
		if input.Text() == "goroutines" {
			fmt.Println(goroutines())
			continue
		}
		result := burst(100)
		fmt.Println("ok", result.Echoed)
	}
}
