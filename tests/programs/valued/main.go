// Program valued has goroutines that wait with arguments and variables of every kind.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	check   "ok N"
//	stack   the number of bytes of runtime.Stack's text of all goroutines, and these
//	connections  both addresses of each connection, as "KIND,LISTENER,CLIENT"
//
// With -spin one more goroutine runs all the time, in main.spin.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"
)

var (
	spins = flag.Bool("spin", false, "have a goroutine that runs")
	hold  = make(chan int)
	sink  int

	connections string
)

type pair struct {
	a uint8
	b string
}

type nested struct {
	one  pair
	deep struct {
		x struct {
			y struct {
				z struct {
					last struct{ n int }
				}
			}
		}
	}
	two [2]int16
}

type big struct{ words [40]int }

type shape interface{ area(scale int) int }

type square struct{ side int }

//go:noinline
func (s square) area(scale int) int {
	<-hold
	return s.side * s.side * scale
}

//go:noinline
func wait() { <-hold }

//go:noinline
func many(a int8, b uint16, c bool, d, e, f, g, h, i, j, k, l int) int {
	wait()
	return int(a) + int(b) + d + e + f + g + h + i + j + k + l
}

//go:noinline
func structures(n nested, p *pair, e struct{}, after int) int {
	wait()
	return len(n.one.b) + len(p.b) + after + int(n.two[1])
}

//go:noinline
func large(b big, after string, more int) int {
	wait()
	return b.words[3] + len(after) + more
}

//go:noinline
func dead(used int, unused string, float float64, s []byte) int {
	sink += len(s) + used + int(float)
	wait()
	return sink
}

//go:noinline
func variadic(format string, values ...interface{}) int {
	wait()
	return len(format) + len(values)
}

//go:noinline
func results(x int) (n int, err error) {
	defer func() { n++ }()
	wait()
	return x, nil
}

//go:noinline
func deep(n int, s string) int {
	if n == 0 {
		wait()
		return len(s)
	}
	return deep(n-1, s) + 1
}

// Its deferred call waits while a panic is under way.
//
//go:noinline
func panics(code int) {
	defer func() {
		wait()
		_ = recover()
	}()
	panic(fmt.Sprint("code ", code))
}

//go:noinline
func spin(n int, name string) {
	total := 0
	for {
		total += len(name) * n
		if total < 0 {
			sink += total
		}
	}
}

//go:noinline
func use(values ...interface{}) {
	if len(values) > 1000 {
		fmt.Println(values...)
	}
}

//go:noinline
func locals(count int) int {
	text := "a \"quoted\" text\n"
	long := "0123456789012345678901234567890123456789012345678901234567890123456789"
	umlauts := "naïve ☃"
	empty := ""
	numbers := []int{3, -5, 7}
	bytes := []byte("bytes\x00\xff")
	var none []string
	words := []string{"one", "two"}
	table := map[string]int{"a": 1, "b": 2}
	var noTable map[int]bool
	queue := make(chan int, 5)
	queue <- 1
	queue <- 2
	err := errors.New("wrong")
	var noErr error
	var any interface{} = &pair{1, "x"}
	var number interface{} = 42
	fn := many
	duration := 3 * time.Second
	z := complex(1.5, -2)
	p := pair{7, "seven"}
	grid := [3][2]int8{{1, 2}, {3, 4}, {5, 6}}
	yes := true
	var small int8 = -8
	var f32 float32 = 0.25
	pointer := &p
	wait()
	use(&text, &long, &umlauts, &empty, &numbers, &bytes, &none, &words, &table, &noTable, &queue, &err,
		&noErr, &any, &number, &fn, &duration, &z, &grid, &yes, &small, &f32, &pointer)
	return count
}

// Variables that stay on the stack and in registers.
//
//go:noinline
func optimized(name string, xs []int, m map[string]int, e error) int {
	total, label := len(xs), name+"!"
	for i, x := range xs {
		total += i * x
		wait()
	}
	return total + len(label) + len(m) + len(e.Error())
}

func network(kind, address string) {
	l, err := net.Listen(kind, address)
	if err != nil {
		return
	}
	c, err := net.Dial(kind, l.Addr().String())
	if err != nil {
		panic(err)
	}
	s, err := l.Accept()
	if err != nil {
		panic(err)
	}
	connections += fmt.Sprintf(" %s,%v,%v", kind, l.Addr(), c.LocalAddr())
	go l.Accept()
	go reads(c)
	go reads(s)
}

func reads(c net.Conn) {
	var buffer [10]byte
	c.Read(buffer[:])
}

func main() {
	flag.Parse()
	start := pair{1, "start"}
	go many(-1, 2, true, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	n := nested{one: pair{9, "nine"}, two: [2]int16{-1, 1}}
	n.deep.x.y.z.last.n = 77
	go structures(n, &start, struct{}{}, 5)
	go large(big{[40]int{1, 2, 3, 4}}, "after", 6)
	go dead(1, "unused", 1.5, []byte("abc"))
	go variadic("%d %s", 1, "two")
	go results(3)
	go deep(30, "thirty")
	go deep(200, "two hundred")
	go panics(3)
	go locals(11)
	go optimized("name", []int{4, 5, 6}, map[string]int{"k": 1}, errors.New("bad"))
	var s shape = square{4}
	go s.area(2)
	go func(captured int) { use(captured, start); wait() }(8)
	network("tcp", "127.0.0.1:0")
	network("tcp", "[::1]:0")
	network("unix", fmt.Sprintf("@valued-%d]", os.Getpid()))
	if *spins {
		go spin(3, "spinner")
	}
	runtime.GC()
	time.Sleep(50 * time.Millisecond)
	fmt.Printf("ready %d\n", os.Getpid())
	obey()
}

func obey() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "check":
			fmt.Printf("ok %d\n", 42)
		case "stack":
			buffer := make([]byte, 1<<20)
			n := runtime.Stack(buffer, true)
			fmt.Printf("%d\n%s", n, buffer[:n])
		case "connections":
			fmt.Println(connections)
		}
	}
}
