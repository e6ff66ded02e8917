// Program ledger keeps a ledger of where its workers spend their time, and reports it for any
// interval. Each kind of worker waits in its own way, in functions of known names, for random
// times.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	check            "ok N"
//	times FROM TO    the time in each place between these moments (ns since 1970), as JSON
//	trace FILE       starts an execution trace; "ok"
//	stop             ends it; "ok"
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"time"
)

var each = flag.Int("each", 3, "workers of each kind")

var kinds = []struct {
	name string
	work func(*worker)
}{
	{"sleeper", sleepAround},
	{"receiver", receiveAround},
	{"locker", lockAround},
	{"caller", callAround},
	{"reader", readAround},
	{"burner", burnAround},
}

func main() {
	flag.Parse()
	workers := map[string][]*worker{}
	for i := 0; i < *each; i++ {
		for k, kind := range kinds {
			w := &worker{kind: kind.name, random: uint64(i*len(kinds)+k)*0x9e3779b97f4a7c15 + 1}
			work := kind.work
			workers[kind.name] = append(workers[kind.name], w)
			go pprof.Do(context.Background(), pprof.Labels("worker", kind.name),
				func(context.Context) { work(w) })
		}
	}
	fmt.Printf("ready %d\n", os.Getpid())
	obey(workers)
}

func obey(workers map[string][]*worker) {
	in := bufio.NewScanner(os.Stdin)
	var file *os.File
	for in.Scan() {
		words := strings.SplitN(in.Text(), " ", 2)
		switch words[0] {
		case "check":
			fmt.Printf("ok %d\n", *each)
		case "times":
			var from, to int64
			fmt.Sscan(words[1], &from, &to)
			text, _ := json.Marshal(times(workers, from, to))
			fmt.Printf("%s\n", text)
		case "trace":
			file = startTrace(words[1])
			fmt.Println("ok")
		case "stop":
			logClock()
			trace.Stop()
			file.Close()
			fmt.Println("ok")
		}
	}
}

func startTrace(path string) *os.File {
	file, err := os.Create(path)
	if err == nil {
		err = trace.Start(file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	logClock()
	return file
}

// logClock logs the current time for the reader of the trace.
func logClock() {
	trace.Log(context.Background(), "clock", fmt.Sprint(time.Now().UnixNano()))
}
