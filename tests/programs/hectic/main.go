// Program hectic does at once all that a tracer could disturb: goroutines come and go, stacks
// grow, the GC runs, channels, mutexes, timers, sockets, files, children, signals, locked
// threads, changes of GOMAXPROCS, profiles. Each kind of work checks its own results and counts
// its rounds.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	check      "ok" when every kind of work has made progress since the last check; else which has not
//	counts     rounds of each kind, as JSON
//
// A wrong result ends it with a message.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var (
	calm = flag.Bool("calm", false, "rest between rounds, for machines with much else to do")
	only = flag.String("only", "", "these kinds of work, separated by commas")
	each = flag.Int("each", 1, "how many do each kind of work at once")
)

type work struct {
	name   string
	run    func(*work)
	rounds int64
	before int64
	alone  bool
}

var works []*work

func add(name string, run func(*work)) {
	works = append(works, &work{name: name, run: run})
}

// addAlone adds work that excludes other work: it runs only when it is named.
func addAlone(name string, run func(*work)) {
	works = append(works, &work{name: name, run: run, alone: true})
}

// done counts a round.
func (w *work) done() {
	atomic.AddInt64(&w.rounds, 1)
	if *calm {
		time.Sleep(2 * time.Millisecond)
	}
}

// must ends the program if a result is wrong: the tracer has broken it.
func (w *work) must(ok bool, format string, args ...interface{}) {
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: %s\n", w.name, fmt.Sprintf(format, args...))
		fmt.Printf("wrong: %s: %s\n", w.name, fmt.Sprintf(format, args...))
		os.Exit(3)
	}
}

func chosen() []*work {
	var some []*work
	for _, w := range works {
		if *only == "" && !w.alone || strings.Contains(","+*only+",", ","+w.name+",") {
			some = append(some, w)
		}
	}
	return some
}

func main() {
	flag.Parse()
	all := chosen()
	for _, w := range all {
		for i := 0; i < *each; i++ {
			go w.run(w)
		}
	}
	fmt.Printf("ready %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "check":
			fmt.Println(check(all))
		case "counts":
			counts := map[string]int64{}
			for _, w := range all {
				counts[w.name] = atomic.LoadInt64(&w.rounds)
			}
			text, _ := json.Marshal(counts)
			fmt.Printf("%s\n", text)
		}
	}
}

// How much slower than usual the machine is: an emulated one may be.
func slower() int {
	n, err := strconv.Atoi(os.Getenv("GOSPECT_SLOWER"))
	if err != nil {
		return 1
	}
	return n
}

// check waits up to ten seconds, on a machine of usual speed, for those that had no round since the last check.
func check(all []*work) string {
	var late []string
	for _, w := range all {
		for i := 0; i < 1000*slower() && atomic.LoadInt64(&w.rounds) == w.before; i++ {
			time.Sleep(10 * time.Millisecond)
		}
		now := atomic.LoadInt64(&w.rounds)
		if now == w.before {
			late = append(late, w.name)
		}
		w.before = now
	}
	if late != nil {
		return "late: " + strings.Join(late, " ")
	}
	return "ok"
}
