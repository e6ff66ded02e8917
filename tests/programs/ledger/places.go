package main

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const ms = time.Millisecond

func sleepAround(w *worker) {
	for {
		nap(w, w.between(2*ms, 20*ms))
		rest(w, w.between(10*ms, 60*ms))
	}
}

func receiveAround(w *worker) {
	for {
		receive(w, w.between(5*ms, 60*ms))
		rest(w, w.between(5*ms, 30*ms))
	}
}

func lockAround(w *worker) {
	var mutex sync.Mutex
	for {
		lock(w, &mutex, w.between(5*ms, 40*ms))
		rest(w, w.between(5*ms, 40*ms))
	}
}

func callAround(w *worker) {
	for {
		call(w, w.between(3*ms, 50*ms))
		rest(w, w.between(3*ms, 30*ms))
	}
}

func readAround(w *worker) {
	in, out, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	for {
		read(w, in, out, w.between(5*ms, 30*ms))
		rest(w, w.between(5*ms, 50*ms))
	}
}

// burnAround has its own thread, so that it knows its CPU time.
func burnAround(w *worker) {
	runtime.LockOSThread()
	w.cpu = threadCPU
	for {
		crunch(w, w.between(1*ms, 12*ms))
		mash(w, w.between(1*ms, 5*ms))
		rest(w, w.between(10*ms, 60*ms))
	}
}

//go:noinline
func rest(w *worker, d time.Duration) {
	w.enter("main.rest")
	time.Sleep(d)
	w.leave()
}

//go:noinline
func nap(w *worker, d time.Duration) {
	w.enter("main.nap")
	time.Sleep(d)
	w.leave()
}

//go:noinline
func receive(w *worker, d time.Duration) {
	w.enter("main.receive")
	c := make(chan int)
	time.AfterFunc(d, func() { c <- 1 })
	<-c
	w.leave()
}

//go:noinline
func lock(w *worker, mutex *sync.Mutex, d time.Duration) {
	mutex.Lock()
	w.enter("main.lock")
	time.AfterFunc(d, mutex.Unlock)
	mutex.Lock()
	w.leave()
	mutex.Unlock()
}

// call blocks in a system call that the runtime does not expect to block.
//
//go:noinline
func call(w *worker, d time.Duration) {
	w.enter("main.call")
	ts := syscall.NsecToTimespec(int64(d))
	syscall.Syscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
	w.leave()
}

// read waits for the netpoller.
//
//go:noinline
func read(w *worker, in, out *os.File, d time.Duration) {
	w.enter("main.read")
	time.AfterFunc(d, func() { out.Write([]byte{1}) })
	in.Read(make([]byte, 1))
	w.leave()
}

// threadCPU is the CPU time of this thread.
func threadCPU() int64 {
	const threadCPUTime = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPUTime, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

var sink uint64

// compute runs until its thread has used so much CPU time.
func compute(d time.Duration, factor uint64) {
	sum := factor
	for end := threadCPU() + int64(d); threadCPU() < end; {
		for i := uint64(0); i < 20000; i++ {
			sum = sum*factor + i
		}
	}
	sink = sum
}

//go:noinline
func crunch(w *worker, d time.Duration) {
	w.enter("main.crunch")
	compute(d, 31)
	w.leave()
}

//go:noinline
func mash(w *worker, d time.Duration) {
	w.enter("main.mash")
	compute(d, 37)
	w.leave()
}
