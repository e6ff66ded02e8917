// Program steps is made for single-stepping, instruction by instruction: leaves without a frame,
// prologues, epilogues, runtime.duffcopy, a stack that has to grow.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	check   "ok N"
//	tid     the thread that will run steps(), and only that
//	go      it begins
//	end     ends with exit status 7
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

type large struct{ words [40]uint64 }

type shape interface{ area(uint64) uint64 }

type square struct{ side, other uint64 }

var (
	sink   uint64
	shapes = []shape{square{3, 4}, &square{5, 6}}
)

//go:noinline
func (s square) area(n uint64) uint64 { return s.side*s.other + n }

//go:noinline
func leaf(n uint64) uint64 {
	for i := uint64(0); i < 4; i++ {
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
	for i := 0; i < 3; i++ {
		n = leaf(n)
		n += framed(n)
		l.words[i] = n
		n += duff(l)
	}
	return n
}

//go:noinline
func descend(n uint64) uint64 {
	var words [64]uint64
	if n == 0 {
		return 1
	}
	words[n%64] = descend(n - 1)
	return words[n%64] + words[(n+1)%64]
}

//go:noinline
func deferred(n uint64) (ret uint64) {
	defer func() { ret += tiny(n) }()
	return leaf(n)
}

//go:noinline
func steps(n uint64) uint64 {
	n = work(n)
	for _, s := range shapes {
		n = s.area(n)
	}
	closure := func(m uint64) uint64 { return leaf(m + n) }
	return closure(n) + descend(6) + deferred(n)
}

func run(tid chan int, begin int) {
	runtime.LockOSThread()
	tid <- syscall.Gettid()
	var b [1]byte
	for {
		if n, _ := syscall.Read(begin, b[:]); n == 1 {
			break
		}
	}
	for {
		sink = steps(sink)
	}
}

func main() {
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		panic(err)
	}
	tid := make(chan int)
	go run(tid, pipe[0])
	id := <-tid
	fmt.Printf("ready %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "check":
			fmt.Println("ok 1")
		case "tid":
			fmt.Println(id)
		case "go":
			syscall.Write(pipe[1], []byte{1})
			fmt.Println("gone")
		case "end":
			os.Exit(7)
		}
	}
}
