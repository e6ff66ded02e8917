// Program annotated has goroutines whose stacks are worth explaining: main.foo calls main.bar, and
// both have arguments and local variables of known values.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	check   "ok N"
//	die     dies of a nil pointer
//
// With -spin one more goroutine runs all the time, in main.spin. With -die it dies of a nil pointer.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

var (
	spins = flag.Bool("spin", false, "have a goroutine that runs")
	dies  = flag.Bool("die", false, "die of a nil pointer")
	sink  int
	hold  = make(chan int)
)

type point struct {
	ok   bool
	x, y int16
	name string
}

type text interface{ Len() int }

func (p *point) Len() int { return len(p.name) }

//go:noinline
func wait() { <-hold }

//go:noinline
func foo(a int, b int) int {
	return bar(a, b) + 1
}

//go:noinline
func bar(a int, b int) int {
	s := 3
	for i := 0; i < 100; i++ {
		s += a * b
		wait()
	}
	return s
}

// kinds has one of each.
//
//go:noinline
func kinds(s string, p *int, ok bool, n int32, f float64, xs []int, t point, e error) int {
	bytes := [12]uint8{'b', 'y', 't', 'e', 's'}
	pair := [2]string{"first", "second"}
	var small [3]point
	var some text = &small[1]
	negative := -5
	for i := 0; i < 100; i++ {
		small[i%3] = t
		negative -= scaled(i, int(bytes[i%12]))
		wait()
		sink += negative + len(s) + *p + int(n) + int(f) + len(xs) + len(e.Error()) + some.Len()
		sink += int(bytes[i%12]) + len(pair[i%2]) + len(small[i%3].name)
	}
	if ok {
		return len(t.name)
	}
	return sink
}

// scaled is small enough to be inlined; what it keeps while it waits is not.
func scaled(a, b int) int {
	product := a * b
	wait()
	return product + a
}

//go:noinline
func recurse(depth int, from *int) int {
	local := depth
	if depth == 0 {
		wait()
		return *from
	}
	return recurse(depth-1, &local) + local
}

//go:noinline
func spin(n int) {
	for {
		sink += triple(n)
	}
}

//go:noinline
func triple(m int) int {
	return 3 * m
}

//go:noinline
func die(p *point, n int) int16 {
	return p.x + int16(n)
}

func main() {
	flag.Parse()
	start := 7
	go foo(1, 2)
	go func() {
		kinds("seven", &start, true, -3, 2.5, []int{1, 2, 3}, point{true, -1, 300, "here"},
			errors.New("wrong"))
	}()
	go recurse(20, &start)
	if *spins {
		go spin(11)
	}
	time.Sleep(20 * time.Millisecond)
	fmt.Printf("ready %d\n", os.Getpid())
	if *dies {
		die(nil, 42)
	}
	obey()
}

func obey() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "check":
			fmt.Printf("ok %d\n", 42)
		case "die":
			die(nil, 42)
		}
	}
}
