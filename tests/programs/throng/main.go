// Program throng has many waiting goroutines, each in a stack of its own, and can have many more
// for a short time.
//
// It prints "ready PID" when all wait. It answers "check" with "ok N", and "burst N" with "over" when
// N more goroutines have come and gone. It ends when standard input does.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"sync"
)

var (
	parked = flag.Int("parked", 1000, "goroutines that wait")
	alike  = flag.Bool("alike", false, "all in the same stack")
	depth  = flag.Int("depth", 17, "frames of each that tell it from others, and as many between")
)

var (
	forever = make(chan int)
	waiting sync.WaitGroup
)

func main() {
	flag.Parse()
	waiting.Add(*parked)
	for i := 0; i < *parked; i++ {
		way := uint32(i)
		if *alike {
			way = 0
		}
		go left(way, *depth, stay)
	}
	waiting.Wait()
	fmt.Printf("ready %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var n int
		if _, err := fmt.Sscanf(in.Text(), "burst %d", &n); err == nil {
			burst(n)
			fmt.Println("over")
		} else if in.Text() == "check" {
			fmt.Printf("ok %d\n", *parked)
		}
	}
}

func stay() {
	waiting.Done()
	<-forever
}

// burst starts n goroutines at a time, which then end.
func burst(n int) {
	var there, gone sync.WaitGroup
	end := make(chan int)
	there.Add(n)
	gone.Add(n)
	for i := 0; i < n; i++ {
		go left(0, 1, func() {
			there.Done()
			<-end
			gone.Done()
		})
	}
	there.Wait()
	close(end)
	gone.Wait()
}

// left and right spell the bits of a number.
//
//go:noinline
func left(way uint32, depth int, end func()) { step(way, depth, end) }

//go:noinline
func right(way uint32, depth int, end func()) { step(way, depth, end) }

//go:noinline
func step(way uint32, depth int, end func()) {
	switch {
	case depth == 0:
		end()
	case way&1 == 0:
		left(way>>1, depth-1, end)
	default:
		right(way>>1, depth-1, end)
	}
}
