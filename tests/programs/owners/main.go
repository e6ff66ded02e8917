// A heap whose objects are known one by one, for `gospect heap --retained`: who holds what, and of
// which types there are how many.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	entries  = 1000
	bodySize = 1024
	nodes    = 5000
	depth    = 10
	ring     = 100
	messages = 50
	squares  = 200
	records  = 500
	boxes    = 64
	copies   = 800
	workers  = 7
	scratch  = 128 << 10
	buffer   = 2 << 20
	captured = 1 << 20
)

type Entry struct {
	name string
	body []byte
	more *Entry
}

type Node struct {
	next  *Node
	value [4]int
}

type Tree struct {
	left, right *Tree
	key         int
}

type Ring struct {
	next, previous *Ring
	number         int
}

type Message struct {
	text *[3]int
	from string
}

type Shape interface{ Area() float64 }

type Circle struct{ radius *float64 }

func (c *Circle) Area() float64 { return *c.radius * *c.radius * 3 }

type Square struct {
	side *float64
	name [5]int
}

type Record struct {
	next   *Record
	number [6]int
}

type Box struct {
	inside *int
	filled [1000]byte
}

type Shared struct {
	parts [10]*int
}

type Server struct {
	cache    map[string]*Entry
	list     *Node
	settings struct{ names []string }
}

type Lost struct {
	big []byte
	own *Lost
}

var (
	server  = &Server{}
	tree    *Tree
	circle  *Ring
	numbers map[int]int
	few     map[string]*Square
	queue   chan *Message
	handler func() int
	shape   Shape
	shapes  []interface{}
	table   []*Box
	one     *Shared
	other   *Shared
	matrix  [][]*Square
	sink    int
)

func text(i int) string {
	return string([]byte(fmt.Sprintf("%d is the name of an entry", i)))
}

func number(f float64) *float64 { p := new(float64); *p = f; return p }

func grow(n int) *Tree {
	if n == 0 {
		return nil
	}
	return &Tree{grow(n - 1), grow(n - 1), n}
}

func fillServer() {
	server.cache = map[string]*Entry{}
	for i := 0; i < entries; i++ {
		server.cache[text(i)] = &Entry{name: text(-i - 1), body: make([]byte, bodySize)}
	}
	for i := 0; i < nodes; i++ {
		server.list = &Node{next: server.list}
	}
	for i := 0; i < copies; i++ {
		server.settings.names = append(server.settings.names, string([]byte(strings.Repeat("copy ", 20))))
	}
	server.settings.names = append([]string(nil), server.settings.names...)
}

func fillOthers() {
	tree = grow(depth)
	first := &Ring{}
	last := first
	for i := 1; i < ring; i++ {
		last.next = &Ring{previous: last, number: i}
		last = last.next
	}
	last.next, first.previous = first, last
	circle = first
	numbers = map[int]int{}
	for i := 0; i < 3000; i++ {
		numbers[i] = i
	}
	few = map[string]*Square{"a": {}, "b": {}}
	queue = make(chan *Message, messages)
	for i := 0; i < messages; i++ {
		queue <- &Message{text: new([3]int), from: text(i + 5000)}
	}
	big, circle := make([]byte, captured), &Circle{number(3)}
	handler = func() int { return len(big) + int(circle.Area()) }
	shape = &Circle{number(2)}
	for i := 0; i < squares; i++ {
		shapes = append(shapes, &Square{side: number(float64(i))})
	}
	shapes = append([]interface{}(nil), shapes...)
	for i := 0; i < boxes; i++ {
		table = append(table, &Box{inside: new(int)})
	}
	table = append([]*Box(nil), table...)
	one = &Shared{}
	for i := range one.parts {
		one.parts[i] = new(int)
	}
	other = one
	for i := 0; i < 10; i++ {
		matrix = append(matrix, make([]*Square, 100))
		for k := range matrix[i] {
			matrix[i][k] = &Square{}
		}
	}
	matrix = append([][]*Square(nil), matrix...)
}

// Holds memory from its stack alone.
//
//go:noinline
func hold(ready chan<- bool, stop <-chan bool) int {
	held := make([]byte, buffer)
	var list *Record
	for i := 0; i < records; i++ {
		list = &Record{next: list}
	}
	ready <- true
	<-stop
	for r := list; r != nil; r = r.next {
		sink += r.number[0]
	}
	return len(held) + int(held[0])
}

//go:noinline
func work(ready chan<- bool, stop <-chan bool) {
	own := make([]byte, scratch)
	ready <- true
	<-stop
	sink += int(own[0])
}

// An object whose finalizer waits to be run is held by that alone.
//
//go:noinline
func lose(started chan<- bool, stop <-chan bool) {
	for i := 0; i < 2; i++ {
		l := &Lost{big: make([]byte, 100<<10)}
		runtime.SetFinalizer(l, func(*Lost) {
			started <- true
			<-stop
		})
	}
}

//go:noinline
func clear() int {
	var words [4096]int
	for i := range words {
		words[i] = i * sink
	}
	return words[sink&4095]
}

func main() {
	debug.SetGCPercent(-1)
	ready, stop := make(chan bool), make(chan bool)
	fillServer()
	fillOthers()
	more()
	go hold(ready, stop)
	<-ready
	for i := 0; i < workers; i++ {
		go work(ready, stop)
		<-ready
	}
	lose(ready, stop)
	sink = clear() & 1
	runtime.GC()
	<-ready
	runtime.GC()
	fmt.Println("ready", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch words := strings.Fields(in.Text()); words[0] {
		case "add":
			n, _ := strconv.Atoi(words[1])
			for i := 0; i < n; i++ {
				server.list = &Node{next: server.list}
			}
			runtime.GC()
			fmt.Println("ok")
		default:
			fmt.Println("?")
		}
	}
	close(stop)
}
