// Goroutines that nothing can wake any more, of each kind, and goroutines that look alike and are
// healthy, for `gospect leaks`. A line of JSON says which is which.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

type truth struct {
	Leaked  map[string][]int // by what they wait for
	Healthy []int
}

var (
	all  = truth{Leaked: map[string][]int{}}
	lock sync.Mutex // of all

	globalChannel = make(chan int)
	globalMutex   sync.Mutex
	table         = map[string]chan int{}
	chain         *link
)

const (
	eachKind      = 3
	retainedBytes = 1 << 20
)

type link struct {
	next    *link
	channel chan int
}

func id() int {
	var text [64]byte
	words := strings.Fields(string(text[:runtime.Stack(text[:], false)]))
	n, _ := strconv.Atoi(words[1])
	return n
}

// leaked is called by a goroutine that is about to wait for ever.
func leaked(kind string) {
	n := id()
	lock.Lock()
	all.Leaked[kind] = append(all.Leaked[kind], n)
	lock.Unlock()
}

func healthy() {
	n := id()
	lock.Lock()
	all.Healthy = append(all.Healthy, n)
	lock.Unlock()
}

// ---- leaks ----

func receive() {
	kept := make([]byte, retainedBytes)
	leaked("channel (receive)")
	<-make(chan int)
	kept[0]++
	runtime.KeepAlive(kept)
}

func send() {
	leaked("channel (send)")
	make(chan int) <- 1
}

func receiveFromNil() {
	var none chan int
	leaked("nil channel")
	<-none
}

func selectNothing() {
	leaked("select without channels")
	select {}
}

func selectTwo() {
	leaked("select")
	select {
	case <-make(chan int):
	case make(chan int) <- 1:
	}
}

// A lockOfItsOwn is large enough to share its memory with no other object, as a sync.Mutex does.
type lockOfItsOwn struct {
	sync.Mutex
	_ [16]byte
}

func mutex() {
	mu := new(lockOfItsOwn)
	mu.Lock()
	leaked("mutex")
	mu.Lock()
}

func readLock() {
	mu := new(sync.RWMutex)
	mu.Lock()
	leaked("rwmutex (read)")
	mu.RLock()
}

func writeLock() {
	mu := new(sync.RWMutex)
	mu.RLock()
	leaked("rwmutex (write)")
	mu.Lock()
}

func waitGroup() {
	group := new(sync.WaitGroup)
	group.Add(1)
	leaked("waitgroup")
	group.Wait()
}

func cond() {
	c := sync.NewCond(new(lockOfItsOwn))
	c.L.Lock()
	leaked("cond")
	c.Wait()
}

// Two that wait for each other, and a third one that has both of their channels.
func circle() {
	a, b, c := make(chan int), make(chan int), make(chan int)
	for i := 0; i < 3; i++ {
		go func() {
			leaked("channel (receive)")
			<-a
			b <- 1
			<-c
		}()
		a, b, c = b, c, a
	}
}

// Two that keep the same.
func sendWith(shared []byte) {
	leaked("channel (send)")
	make(chan int) <- 1
	shared[0]++
}

func receiveWith(shared []byte) {
	leaked("channel (receive)")
	<-make(chan int)
	shared[0]++
}

// ---- what looks alike ----

func receiveFrom(c chan int) {
	healthy()
	<-c
}

func lockGlobal() {
	healthy()
	globalMutex.Lock()
}

func timeout() {
	healthy()
	select {
	case <-make(chan int):
	case <-time.After(time.Hour):
	}
}

// A finalizer of a living object has the channel.
func finalized() *[64]byte {
	c := make(chan int)
	object := new([64]byte)
	runtime.SetFinalizer(object, func(*[64]byte) { close(c) })
	go receiveFrom(c)
	return object
}

// Only a timer's function has the channel.
func timed() {
	c := make(chan int)
	time.AfterFunc(time.Hour, func() { close(c) })
	go receiveFrom(c)
}

// A goroutine that sleeps has it on its stack.
func onStack() {
	c := make(chan int)
	go receiveFrom(c)
	healthy()
	time.Sleep(time.Hour)
	c <- 1
}

// It is the last of a long list.
func listed() {
	c := make(chan int)
	chain = &link{nil, c}
	for i := 0; i < 10000; i++ {
		chain = &link{chain, nil}
	}
	go receiveFrom(c)
}

func mapped() {
	for i := 0; i < 100; i++ {
		c := make(chan int)
		table[strconv.Itoa(i)] = c
		go receiveFrom(c)
	}
}

func interfaced(held []interface{}) []interface{} {
	c := make(chan int)
	go receiveFrom(c)
	return append(held, struct {
		name string
		call func()
	}{"held", func() { c <- 1 }})
}

// The finalizer waits to be run: another one never ends.
func queued() {
	blocked := make(chan bool)
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) {
		close(blocked)
		<-globalChannel
	})
	runtime.GC()
	<-blocked
	c := make(chan int)
	go receiveFrom(c)
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) { close(c) })
	runtime.GC()
	runtime.GC()
}

// A map has their channels, and they only become more.
func grow() {
	for i := 0; i < 3000; i++ {
		c := make(chan int)
		table["more "+strconv.Itoa(i)] = c
		go receiveFrom(c)
		time.Sleep(10 * time.Millisecond)
	}
}

func begin() []interface{} {
	kinds := []func(){receive, send, receiveFromNil, selectNothing, selectTwo, mutex, readLock,
		writeLock, waitGroup, cond}
	for _, kind := range kinds {
		for i := 0; i < eachKind; i++ {
			go kind()
		}
	}
	circle()
	shared := make([]byte, retainedBytes)
	go sendWith(shared)
	go receiveWith(shared)
	globalMutex.Lock()
	go lockGlobal()
	go receiveFrom(globalChannel)
	go timeout()
	go onStack()
	timed()
	listed()
	mapped()
	queued()
	cleaned()
	held := interfaced(nil)
	return append(held, finalized())
}

func main() {
	held := begin()
	time.Sleep(300 * time.Millisecond) // until all of them wait
	runtime.GC()
	fmt.Println("ready", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if in.Text() == "check" {
			fmt.Println("right")
			continue
		}
		if in.Text() == "grow" {
			go grow()
			fmt.Println("ok")
			continue
		}
		lock.Lock()
		line, _ := json.Marshal(all)
		lock.Unlock()
		fmt.Println(string(line))
	}
	runtime.KeepAlive(held)
}
