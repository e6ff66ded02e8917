// Meter is the target of the benchmarks: goroutines parked in seven ways, and a workload that
// measures itself. It reads commands from standard input and answers each with a line of JSON:
//
//	slice MS        what the workload did in the next MS milliseconds
//	fgprof start    profiles itself as github.com/felixge/fgprof does, 99 times a second
//	fgprof stop     how many times it really did
//	module start    profiles itself by gospect's Go module, where it is built with it
//	module stop
//	trace start     traces itself by runtime/trace, into nowhere
//	trace start FILE
//	trace stop      how many bytes that were
//	dump            writes its own goroutines as /debug/pprof/goroutine?debug=2 does
//	begin           from here on
//	end             what the workload did since then
//	profile         writes its own heap profile as /debug/pprof/heap does
//	heapdump FILE   writes all of its heap there (debug.WriteHeapDump)
//
// It ends when standard input does.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	parked := flag.Int("parked", 1000, "parked goroutines")
	name := flag.String("work", "none", "workload: http, paced, json, pingpong, deep, yield, flood, syscalls or none")
	heap := flag.Int("heap", 64, "MB of live heap")
	mixed := flag.Bool("mixed", false, "its objects are of several kinds, not one list")
	flag.Parse()

	kept := fill(*heap, *mixed)
	park(*parked)
	work, err := startWorkload(*name)
	if err != nil {
		fmt.Fprintln(os.Stderr, "meter:", err)
		os.Exit(1)
	}
	runtime.GC()
	answer(map[string]interface{}{
		"pid":        os.Getpid(),
		"go":         runtime.Version(),
		"goroutines": runtime.NumGoroutine(),
		"frames":     meanFrames(),
	})
	obey(work)
	runtime.KeepAlive(kept)
}

func obey(work *workload) {
	var own inProcess
	var traced ownTrace
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		words := strings.Fields(commands.Text())
		switch {
		case len(words) == 2 && words[0] == "slice":
			ms, _ := strconv.Atoi(words[1])
			answer(work.slice(time.Duration(ms) * time.Millisecond))
		case len(words) == 2 && profilers[words[0]] != nil && words[1] == "start":
			answer(own.start(words[0]))
		case len(words) == 2 && profilers[words[0]] != nil && words[1] == "stop":
			answer(own.stop())
		case len(words) == 2 && words[0] == "trace" && words[1] == "start":
			answer(traced.start(""))
		case len(words) == 3 && words[0] == "trace" && words[1] == "start":
			answer(traced.start(words[2]))
		case len(words) == 2 && words[0] == "trace" && words[1] == "stop":
			answer(traced.stop())
		case len(words) == 1 && words[0] == "dump":
			answer(dumpSelf())
		case len(words) == 1 && words[0] == "begin":
			work.begin()
			answer(map[string]bool{"began": true})
		case len(words) == 1 && words[0] == "end":
			answer(work.end())
		case len(words) == 1 && words[0] == "profile":
			answer(profileHeap())
		case len(words) == 2 && words[0] == "heapdump":
			answer(dumpHeap(words[1]))
		default:
			answer(map[string]interface{}{"error": "what is " + commands.Text() + "?"})
		}
	}
}

func answer(v interface{}) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}
