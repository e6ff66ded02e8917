// Hoarder has memory, and events.
//
//	hoarder MB [lock]
//
// With "lock" it locks all that it has and will ever map (mlockall). It prints "ready PID", and
// answers each line with "ok"; the line "processors N" sets GOMAXPROCS.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

const lockAll = 1 | 2 // MCL_CURRENT | MCL_FUTURE

var hoard [][]byte

func send(c chan int) {
	for {
		c <- 1
	}
}

func receive(c chan int) {
	for {
		<-c
	}
}

func main() {
	megabytes, _ := strconv.Atoi(os.Args[1])
	for i := 0; i < megabytes; i++ {
		part := make([]byte, 1<<20)
		for k := range part {
			part[k] = 1
		}
		hoard = append(hoard, part)
	}
	if len(os.Args) > 2 {
		if _, _, err := syscall.Syscall(syscall.SYS_MLOCKALL, lockAll, 0, 0); err != 0 {
			panic(err)
		}
	}
	for i := 0; i < 4; i++ {
		c := make(chan int)
		go send(c)
		go receive(c)
	}
	fmt.Printf("ready %d\n", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(in.Text())
		if words[0] == "processors" {
			n, _ := strconv.Atoi(words[1])
			runtime.GOMAXPROCS(n)
		}
		fmt.Println("ok")
	}
}
