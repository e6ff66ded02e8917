package main

import (
	"context"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"
)

const forever = 1000 * time.Hour

func init() {
	register("chan", func() {
		go holdReceive(make(chan int))
		go holdSend(make(chan int))
		go holdFullBuffer(make(chan string, 2))
		go holdNilReceive(nil)
		go holdNilSend(nil)
		go holdRange(make(chan int))
	})
	register("select", func() {
		go holdSelectNone()
		go holdSelectTwo(make(chan int), make(chan int))
		go holdSelectSend(make(chan int), make(chan int))
	})
	register("time", func() {
		go holdSleep()
		go holdTimer()
		go holdTicker()
		time.AfterFunc(time.Millisecond, holdInAfterFunc)
		go holdContext()
	})
	register("sync", startSync)
	register("net", startNet)
	register("syscall", startSyscall)
	register("thread", func() {
		go holdLockedThread(make(chan int))
		go holdLockedSyscall(blockingPipe())
	})
	register("signal", func() {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGUSR1)
		go holdSignal(c)
	})
	register("labels", startLabels)
}

func holdReceive(c chan int)       { <-c }
func holdSend(c chan int)          { c <- 1 }
func holdNilReceive(c chan int)    { <-c }
func holdNilSend(c chan int)       { c <- 1 }
func holdFullBuffer(c chan string) { c <- "a"; c <- "b"; c <- "c" }
func holdRange(c chan int) {
	for range c {
	}
}

func holdSelectNone() { select {} }
func holdSelectTwo(a, b chan int) {
	select {
	case <-a:
	case <-b:
	}
}
func holdSelectSend(a, b chan int) {
	select {
	case a <- 1:
	case <-b:
	case <-time.After(forever):
	}
}

func holdSleep()  { time.Sleep(forever) }
func holdTimer()  { <-time.NewTimer(forever).C }
func holdTicker() { <-time.NewTicker(forever).C }

//go:noinline
func holdInAfterFunc() { <-make(chan int) }

func holdContext() {
	ctx, cancel := context.WithTimeout(context.Background(), forever)
	defer cancel()
	<-ctx.Done()
}

var (
	mutex       sync.Mutex
	readLocked  sync.RWMutex
	writeLocked sync.RWMutex
	once        sync.Once
)

func startSync() {
	mutex.Lock()
	go holdMutex()
	go holdMutex()

	readLocked.RLock()
	go holdWriter(&readLocked)
	writeLocked.Lock()
	go holdReader(&writeLocked)

	go holdCond(sync.NewCond(&sync.Mutex{}))

	group := &sync.WaitGroup{}
	group.Add(1)
	go holdWaitGroup(group)

	started := make(chan struct{})
	go once.Do(func() { close(started); select {} })
	<-started
	go holdOnce()
}

func holdMutex()                      { mutex.Lock() }
func holdWriter(m *sync.RWMutex)      { m.Lock() }
func holdReader(m *sync.RWMutex)      { m.RLock() }
func holdWaitGroup(g *sync.WaitGroup) { g.Wait() }
func holdOnce()                       { once.Do(func() {}) }
func holdCond(c *sync.Cond)           { c.L.Lock(); c.Wait() }
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func startNet() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	client, err := net.Dial("tcp", listener.Addr().String())
	must(err)
	server, err := listener.Accept()
	must(err)
	keep = append(keep, server)
	go holdNetRead(client)
	go holdAccept(listener)
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(err)
	go holdPacket(packets)
	r, w, err := os.Pipe()
	must(err)
	keep = append(keep, w)
	go holdPipeFile(r)
}

// keep holds what must not be collected.
var keep []interface{}

func holdNetRead(c net.Conn)      { c.Read(make([]byte, 10)) }
func holdAccept(l net.Listener)   { l.Accept() }
func holdPacket(c net.PacketConn) { c.ReadFrom(make([]byte, 10)) }
func holdPipeFile(f *os.File)     { f.Read(make([]byte, 10)) }

// blockingPipe is the reading end of a pipe that nobody writes to and that the netpoller does not
// know.
func blockingPipe() int {
	var fds [2]int
	must(syscall.Pipe(fds[:]))
	return fds[0]
}

func startSyscall() {
	go holdSyscallRead(blockingPipe())
	go holdRawNanosleep()
}

func holdSyscallRead(fd int) { syscall.Read(fd, make([]byte, 10)) }
func holdRawNanosleep() {
	for {
		syscall.Nanosleep(&syscall.Timespec{Sec: 1 << 30}, nil)
	}
}

func holdLockedThread(c chan int) {
	runtime.LockOSThread()
	<-c
}

func holdLockedSyscall(fd int) {
	runtime.LockOSThread()
	syscall.Read(fd, make([]byte, 10))
}

func holdSignal(c chan os.Signal) { <-c }

func startLabels() {
	go pprof.Do(context.Background(), pprof.Labels("user", "a b", "zone", "eu"), holdLabels)
	go pprof.Do(context.Background(), pprof.Labels("empty", "", "quote", `x"y`, "utf", "naïve"), holdLabels)
	many := []string{}
	for _, c := range "abcdefghijklmnop" {
		many = append(many, "key-"+string(c), "value of "+string(c))
	}
	go pprof.Do(context.Background(), pprof.Labels(many...), holdManyLabels)
}

func holdLabels(context.Context)     { <-make(chan int) }
func holdManyLabels(context.Context) { startInherited(make(chan int)) }

func startInherited(c chan int) {
	go holdInherited(c)
	<-c
}

func holdInherited(c chan int) { <-c }
