// Program escapes has names and labels that would write to the terminal of whoever prints them. Its
// functions and its file have long names, in whose place the test writes bytes that no compiler
// permits.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	check         "ok N"
//	threads NAME  gives all its threads this name, a string as Go writes it; "ok"
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"
)

const hostile = "\x1b]0;x\x07\n\r\x00\xff\u202e\u009b31m;main.forged 5\n"

func main() {
	labels := pprof.Labels("k\x1b[31m\u202e</script>", hostile)
	pprof.Do(context.Background(), labels, func(ctx context.Context) {
		go sleeperAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA(make(chan int))
		go worker_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB(ctx)
	})
	fmt.Println("ready", os.Getpid())
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		if name, found := strings.CutPrefix(input.Text(), "threads "); found {
			nameThreads(name)
			fmt.Println("ok")
			continue
		}
		fmt.Println("ok", sum(1000))
	}
}

func nameThreads(quoted string) {
	name, err := strconv.Unquote(quoted)
	if err != nil {
		panic(err)
	}
	files, _ := filepath.Glob("/proc/self/task/*/comm")
	for _, file := range files {
		if err := os.WriteFile(file, []byte(name), 0); err != nil {
			panic(err)
		}
	}
}

func sum(n int) int {
	if n == 0 {
		return 0
	}
	return n + sum(n-1)
}

//go:noinline
func sleeperAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA(c chan int) {
	<-c
}

//go:noinline
func worker_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB(ctx context.Context) {
	for {
		ctx, task := trace.NewTask(ctx, "task"+hostile)
		trace.Log(ctx, "category\x1b[32m", hostile)
		trace.WithRegion(ctx, "region"+hostile, func() { time.Sleep(5 * time.Millisecond) })
		task.End()
		for begin := time.Now(); time.Since(begin) < 2*time.Millisecond; {
		}
	}
}
