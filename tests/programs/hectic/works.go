package main

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func init() {
	add("channels", channels)
	add("births", births)
	add("stacks", stacks)
	add("garbage", garbage)
	add("mutexes", mutexes)
	add("selects", selects)
	add("timers", timers)
	add("sockets", sockets)
	add("files", files)
	add("children", children)
	add("signals", signals)
	add("threads", threads)
	add("loops", loops)
	add("procs", procs)
	add("profiles", profiles)
	add("panics", panics)
	addAlone("storm", storm)
}

func channels(w *work) {
	in, out := make(chan int), make(chan int)
	go func() {
		for v := range in {
			out <- v + 1
		}
	}()
	for i := 0; ; i++ {
		in <- i
		got := <-out
		w.must(got == i+1, "%d came back as %d", i, got)
		if i%1000 == 0 {
			w.done()
		}
	}
}

func births(w *work) {
	for {
		var wait sync.WaitGroup
		results := make([]int, 64)
		for i := range results {
			wait.Add(1)
			go func(i int) {
				defer wait.Done()
				results[i] = i * i
			}(i)
		}
		wait.Wait()
		for i, r := range results {
			w.must(r == i*i, "goroutine %d made %d", i, r)
		}
		w.done()
	}
}

// A pointer into each frame is checked on the way back: the stack moves as it grows.
func descend(w *work, depth int, outer *int) int {
	var pad [40]int
	mine := depth
	pad[depth%40] = depth
	if depth == 0 {
		runtime.Gosched()
		return 0
	}
	sum := descend(w, depth-1, &mine) + depth
	w.must(mine == depth && pad[depth%40] == depth, "frame %d changed", depth)
	w.must(outer == nil || *outer == depth+1, "the frame above %d changed", depth)
	return sum
}

func stacks(w *work) {
	for {
		got := make(chan int)
		go func() { got <- descend(w, 500, nil) }()
		sum := <-got
		w.must(sum == 500*501/2, "the sum is %d", sum)
		w.done()
	}
}

type node struct {
	next *node
	data [10]int
}

func garbage(w *work) {
	debug.SetGCPercent(50)
	for {
		var list *node
		for i := 0; i < 20000; i++ {
			list = &node{next: list}
			list.data[3] = i
		}
		for i := 19999; list != nil; list, i = list.next, i-1 {
			w.must(list.data[3] == i, "node %d has %d", i, list.data[3])
		}
		w.done()
	}
}

func mutexes(w *work) {
	var mutex sync.Mutex
	var rw sync.RWMutex
	for {
		var wait sync.WaitGroup
		count := 0
		for i := 0; i < 8; i++ {
			wait.Add(1)
			go func() {
				defer wait.Done()
				for k := 0; k < 50; k++ {
					rw.RLock()
					mutex.Lock()
					count++
					if k%10 == 0 {
						runtime.Gosched()
					}
					mutex.Unlock()
					rw.RUnlock()
				}
			}()
		}
		rw.Lock()
		rw.Unlock()
		wait.Wait()
		w.must(count == 400, "counted %d", count)
		w.done()
	}
}

func selects(w *work) {
	a, b, end := make(chan int), make(chan int), make(chan bool)
	for {
		go func() {
			for i := 0; i < 200; i++ {
				select {
				case a <- i:
				case b <- i:
				}
			}
			end <- true
		}()
		sum := 0
		for over := false; !over; {
			select {
			case v := <-a:
				sum += v
			case v := <-b:
				sum += v
			case over = <-end:
			}
		}
		w.must(sum == 199*200/2, "the sum is %d", sum)
		w.done()
	}
}

func timers(w *work) {
	for {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Millisecond)
		<-ctx.Done()
		cancel()
		passed := time.Since(began)
		w.must(passed >= 3*time.Millisecond, "3 ms took %v", passed)
		time.Sleep(time.Millisecond)
		w.done()
	}
}

func echo(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			io.Copy(conn, conn)
			conn.Close()
		}()
	}
}

func sockets(w *work) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err == nil, "%v", err)
	go echo(listener)
	for {
		conn, err := net.Dial("tcp", listener.Addr().String())
		w.must(err == nil, "%v", err)
		buffer := make([]byte, 100)
		for i := 0; i < 20; i++ {
			buffer[7] = byte(i)
			_, err = conn.Write(buffer)
			w.must(err == nil, "%v", err)
			buffer[7] = 255
			_, err = io.ReadFull(conn, buffer)
			w.must(err == nil && buffer[7] == byte(i), "%v, %d", err, buffer[7])
		}
		conn.Close()
		w.done()
	}
}

func files(w *work) {
	for {
		text, err := os.ReadFile("/proc/self/stat")
		w.must(err == nil && len(text) > 50, "%v", err)
		for i := 0; i < 100; i++ {
			w.must(syscall.Getppid() >= 0, "no parent")
		}
		w.done()
	}
}

func children(w *work) {
	for {
		out, err := exec.Command("/bin/echo", "seven").Output()
		w.must(err == nil && string(out) == "seven\n", "%v %q", err, out)
		w.done()
		time.Sleep(5 * time.Millisecond)
	}
}

func signals(w *work) {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGUSR2)
	for {
		syscall.Kill(os.Getpid(), syscall.SIGUSR2)
		<-got
		w.done()
		time.Sleep(time.Millisecond)
	}
}

var stormSignal int32 = 40

// storm always has a signal under way; with -each, so many, each of another number.
func storm(w *work) {
	number := syscall.Signal(atomic.AddInt32(&stormSignal, 1))
	got := make(chan os.Signal, 1)
	signal.Notify(got, number)
	for {
		syscall.Kill(os.Getpid(), number)
		select {
		case <-got:
			w.done()
		case <-time.After(5 * time.Second):
			w.must(false, "signal %d is lost", number)
		}
	}
}

func threads(w *work) {
	for {
		var wait sync.WaitGroup
		for i := 0; i < 3; i++ {
			wait.Add(1)
			go func(keep bool) {
				defer wait.Done()
				runtime.LockOSThread()
				first := syscall.Gettid()
				for k := 0; k < 20; k++ {
					runtime.Gosched()
					w.must(syscall.Gettid() == first, "a locked goroutine moved")
				}
				if !keep { // else the thread ends with the goroutine
					runtime.UnlockOSThread()
				}
			}(i == 0)
		}
		wait.Wait()
		w.done()
		time.Sleep(2 * time.Millisecond)
	}
}

//go:noinline
func spin(n int) int {
	x := 1
	for i := 0; i < n; i++ {
		x = x*1103515245 + 12345
	}
	return x
}

// Loops that call nothing are preempted by signals.
func loops(w *work) {
	want := spin(20000000)
	for {
		got := spin(20000000)
		w.must(got == want, "%d is not %d", got, want)
		w.done()
	}
}

func procs(w *work) {
	n := runtime.GOMAXPROCS(0)
	for {
		runtime.GOMAXPROCS(n + 1)
		time.Sleep(10 * time.Millisecond)
		runtime.GOMAXPROCS(n)
		time.Sleep(10 * time.Millisecond)
		w.done()
	}
}

func profiles(w *work) {
	for {
		if pprof.StartCPUProfile(io.Discard) == nil {
			time.Sleep(100 * time.Millisecond)
			pprof.StopCPUProfile()
		}
		pprof.Lookup("goroutine").WriteTo(io.Discard, 1)
		runtime.Stack(make([]byte, 1<<16), true)
		w.done()
	}
}

func throwAt(depth int) {
	if depth == 0 {
		panic("at the bottom")
	}
	throwAt(depth - 1)
}

func panics(w *work) {
	for {
		func() {
			defer func() { w.must(recover() == "at the bottom", "another panic") }()
			throwAt(30)
		}()
		w.done()
		runtime.Gosched()
	}
}
