// Program burst is at rest until it is told to do very much at once, on one processor: two
// goroutines pass a token to and fro, and in each round there is a system call, a region and a log,
// in each tenth a goroutine that ends at once.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	burst N   N rounds, as fast as it can; prints as JSON what happened, and the time in ns
//	check     "ok N"
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/trace"
	"syscall"
	"time"
)

func short(done chan<- int) {
	done <- 1
}

func echo(in <-chan int, out chan<- int) {
	for n := range in {
		out <- n + 1
	}
	close(out)
}

// What a trace has to have of it.
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

func main() {
	runtime.GOMAXPROCS(1)
	fmt.Println("ready", os.Getpid())
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var rounds int
		if n, _ := fmt.Sscanf(input.Text(), "burst %d", &rounds); n == 1 {
			json.NewEncoder(os.Stdout).Encode(burst(rounds))
			continue
		}
		result := burst(100)
		fmt.Println("ok", result.Echoed)
	}
}
