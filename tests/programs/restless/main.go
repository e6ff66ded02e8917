// Program restless replaces itself by itself again and again (execve), so that it changes while it is
// read. It prints "ready PID" at first. After -times it prints "ok N", the
// number of times it did so, and execs -then, or ends.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var (
	times = flag.Int("times", 100, "how often to exec")
	pause = flag.Duration("pause", 5*time.Millisecond, "time between")
	then  = flag.String("then", "", "command to become at the end, words split at spaces")
)

const counter = "RESTLESS_COUNT"

func main() {
	flag.Parse()
	count, _ := strconv.Atoi(os.Getenv(counter))
	if count == 0 {
		fmt.Printf("ready %d\n", os.Getpid())
	}
	for i := 0; i < 20; i++ {
		go wait(make(chan int))
	}
	time.Sleep(*pause)
	if count < *times {
		os.Setenv(counter, strconv.Itoa(count+1))
		become("/proc/self/exe", os.Args)
	}
	fmt.Printf("ok %d\n", count)
	if *then != "" {
		words := strings.Fields(*then)
		become(words[0], words)
	}
}

func become(file string, args []string) {
	if err := syscall.Exec(file, args, os.Environ()); err != nil {
		panic(err)
	}
}

//go:noinline
func wait(c chan int) { <-c }
