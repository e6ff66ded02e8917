// Sandboxed has threads that may not make files in memory: each has put a seccomp filter on itself
// alone, as a worker in a sandbox does. Its first thread has none.
//
//	sandboxed ACTION
//
// ACTION is the effect of such a call: kill, trap or errno. It prints "ready PID"; 200 ms after the
// line "filter" every thread has the filter. It answers each line with "ok N": N is 1 while the
// workers make progress.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	workers        = 3
	sysSeccomp     = 317
	sysMemfdCreate = 319
	setModeFilter  = 1
	noNewPrivs     = 38
	onAllThreads   = 1 // SECCOMP_FILTER_FLAG_TSYNC
)

var actions = map[string]uint32{"kill": 0x80000000, "trap": 0x00030000, "errno": 0x00050001}

type instruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

type program struct {
	count uint16
	code  *instruction
}

func filter(action uint32, flags uintptr) {
	code := []instruction{
		{0x20, 0, 0, 0}, // the number of the call
		{0x15, 0, 1, sysMemfdCreate},
		{0x06, 0, 0, action},
		{0x06, 0, 0, 0x7fff0000},
	}
	p := program{uint16(len(code)), &code[0]}
	syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivs, 1, 0, 0, 0, 0)
	_, _, err := syscall.RawSyscall(sysSeccomp, setModeFilter, flags, uintptr(unsafe.Pointer(&p)))
	if err != 0 {
		panic(err)
	}
}

var rounds int64

func work(action uint32, ready chan bool) {
	runtime.LockOSThread()
	filter(action, 0)
	ready <- true
	for {
		time.Sleep(time.Millisecond)
		atomic.AddInt64(&rounds, 1)
	}
}

func goesOn() int {
	before := atomic.LoadInt64(&rounds)
	time.Sleep(20 * time.Millisecond)
	if atomic.LoadInt64(&rounds) > before {
		return 1
	}
	return 0
}

func main() {
	runtime.LockOSThread()
	action := actions[os.Args[1]]
	ready := make(chan bool)
	for i := 0; i < workers; i++ {
		go work(action, ready)
		<-ready
	}
	fmt.Printf("ready %d\n", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "filter" {
			go func() {
				time.Sleep(200 * time.Millisecond)
				filter(action, onAllThreads)
			}()
		}
		fmt.Printf("ok %d\n", goesOn())
	}
}
