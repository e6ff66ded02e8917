// Program kept makes all profiles that the runtime keeps, and writes them itself.
//
// It samples memory every 512 bytes, or every so many as the environment's RATE says, and all
// blocking and contention. It allocates in small and large objects, in inlined and in deep calls,
// frees some of it, blocks, contends for a mutex, and runs goroutines with labels. It prints
// "ready PID" and obeys lines on standard input:
//
//	check            "ok N", a checksum of what it keeps
//	gc               collects twice, so that all of it is published; "ok"
//	more             allocates 1 MB in main.grow; "ok"
//	write KIND PATH  writes its own profile of this kind, as runtime/pprof does; "ok"
//	text KIND PATH   the same as text (debug=1); "ok"
//	debug2 KIND PATH  the same with debug=2; "ok"
//	churn            begins to collect and to allocate all the time; "ok"
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Before anything is allocated.
var _ = setRate()

func setRate() int {
	runtime.MemProfileRate = 512
	if text := os.Getenv("RATE"); text != "" {
		runtime.MemProfileRate, _ = strconv.Atoi(text)
	}
	return 0
}

type node struct {
	next  *node
	value [3]int
}

var (
	lists   []*node
	blocks  [][]byte
	garbage []byte
	texts   = map[string][]byte{}
)

func inner(n int) []byte { return make([]byte, n) }

func middle(n int) []byte { return inner(n) }

func outer(n int) []byte { return middle(n) }

//go:noinline
func list(n int) *node {
	var head *node
	for i := 0; i < n; i++ {
		head = &node{next: head}
	}
	return head
}

//go:noinline
func deep(n int) []byte {
	if n == 0 {
		return outer(3000)
	}
	return deep(n - 1)
}

//go:noinline
func grow(n int) {
	blocks = append(blocks, outer(n))
}

type shape interface{ area(n int) []byte }

type square struct{ side int }

func (s square) area(n int) []byte { return make([]byte, n*s.side) }

func allocate() {
	for i := 0; i < 200; i++ {
		lists = append(lists, list(i%7))
		blocks = append(blocks, outer(10+i%5*100))
		garbage = outer(700 + i)
		texts[fmt.Sprint("key", i)] = []byte(strings.Repeat("text", i))
	}
	blocks = append(blocks, deep(5), deep(60), inner(1<<20))
	for _, s := range []shape{square{2}, &square{3}} {
		blocks = append(blocks, s.area(1000))
	}
}

func contend() {
	var m sync.Mutex
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for j := 0; j < 5; j++ {
				m.Lock()
				time.Sleep(200 * time.Microsecond)
				m.Unlock()
			}
		}()
	}
	all.Wait()
	c := make(chan int)
	go func() {
		for i := 0; i < 5; i++ {
			time.Sleep(200 * time.Microsecond)
			c <- i
		}
		close(c)
	}()
	for range c {
	}
}

func wait(c chan int) { <-c }

func park() {
	for i := 0; i < 6; i++ {
		labels := pprof.Labels("work", fmt.Sprint(i%2), "zone", "eu west")
		pprof.Do(context.Background(), labels, func(context.Context) {
			go wait(make(chan int))
		})
	}
	for i := 0; i < 3; i++ {
		go func() { select {} }()
		go wait(make(chan int))
	}
}

func churn() {
	for {
		for i := 0; i < 100; i++ {
			garbage = outer(100 + i*10)
			list(i)
		}
		runtime.GC()
	}
}

func write(kind, path string, debug int) {
	f, err := os.Create(path)
	if err == nil {
		err = pprof.Lookup(kind).WriteTo(f, debug)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		panic(err)
	}
}

func checksum() int {
	sum := len(texts)
	for _, b := range blocks {
		sum += len(b)
	}
	for _, l := range lists {
		for ; l != nil; l = l.next {
			sum++
		}
	}
	return sum
}

var sum int

func obey(words []string) string {
	switch words[0] {
	case "check":
		return fmt.Sprint("ok ", sum)
	case "gc":
		runtime.GC()
		runtime.GC()
	case "more":
		grow(1 << 20)
	case "write":
		write(words[1], words[2], 0)
	case "text":
		write(words[1], words[2], 1)
	case "debug2":
		write(words[1], words[2], 2)
	case "churn":
		go churn()
	}
	return "ok"
}

func main() {
	// Only "gc" collects, so that what is published stays as it is.
	debug.SetGCPercent(-1)
	if os.Getenv("EVENTS") != "off" {
		runtime.SetBlockProfileRate(1)
		runtime.SetMutexProfileFraction(2)
	}
	// The first samples were drawn with the rate that was before.
	for i := 0; i < 8; i++ {
		garbage = make([]byte, 1<<20)
	}
	allocate()
	contend()
	park()
	sum = checksum()
	fmt.Println("ready", os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(obey(strings.Fields(lines.Text())))
	}
}
