// Program callers burns CPU where frame pointers lose the caller: in a leaf without a frame, in
// prologues and epilogues, under runtime.duffcopy (golang/go#73753).
//
// It prints "ready PID" and obeys lines on standard input:
//
//	check          "ok N"
//	profile FILE   "begun": from now on the runtime's own CPU profile of this program
//	over           "over": it is in the file
//	end            ends with exit status 7
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
)

type large struct{ words [40]uint64 }

var sink uint64

//go:noinline
func leaf(n uint64) uint64 {
	for i := uint64(0); i < 64; i++ {
		n = n*2862933555777941757 + 3037000493
	}
	return n
}

//go:noinline
func tiny(n uint64) uint64 { return n + 1 }

//go:noinline
func framed(n uint64) uint64 { return tiny(n) + tiny(n+1) }

//go:noinline
func duff(l large) uint64 { return l.words[0] + l.words[39] }

//go:noinline
func work(n uint64) uint64 {
	var l large
	for i := 0; i < 1000; i++ {
		n = leaf(n)
		n += framed(n)
		l.words[i%40] = n
		n += duff(l)
	}
	return n
}

//go:noinline
func burn() {
	for {
		sink = work(sink)
	}
}

func main() {
	go burn()
	fmt.Printf("ready %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	var profile *os.File
	for in.Scan() {
		command := strings.SplitN(in.Text(), " ", 2)
		switch command[0] {
		case "check":
			fmt.Println("ok 1")
		case "profile":
			profile = begin(command[1])
			fmt.Println("begun")
		case "over":
			pprof.StopCPUProfile()
			profile.Close()
			fmt.Println("over")
		case "end":
			os.Exit(7)
		}
	}
}

func begin(name string) *os.File {
	file, err := os.Create(name)
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		panic(err)
	}
	return file
}
