// Execer calls exec on itself from any thread, every so many milliseconds, and waits with goroutines
// in between.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Println("ready", os.Getpid())
		os.Args = append(os.Args, "again")
	}
	for i := 0; i < 20; i++ {
		go func() { select {} }()
	}
	pause, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	done := make(chan error)
	go func() {
		time.Sleep(time.Duration(pause) * time.Millisecond)
		done <- syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}()
	panic(<-done)
}
