// Swapper waits until its tracer makes it create a file in memory. Then it replaces or changes the
// descriptor, which would harm a tracer that trusts it.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	arm KIND NAME FILE  waits for a file in memory of that name, and then, KIND
//	                    path    puts an O_PATH descriptor of FILE in its place
//	                    open    puts an open descriptor of FILE in its place
//	                    shrink  keeps a descriptor of it, and makes the file empty, again and again
//	                    grow    makes the file large at once, and seals its size
//	                    prints "armed"
//	disarm              closes what it has put there, or waits no more; prints "disarmed"
//	done                prints how often it has done so
//	check               "ok"
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	oPath     = 0x200000
	addSeals  = 1033 // F_ADD_SEALS
	sealSize  = 6    // F_SEAL_SHRINK | F_SEAL_GROW
	largeSize = 1 << 40
	patience  = 10 * time.Second
)

var (
	done  int64
	over  int32 // what is armed shall end
	ended chan bool
)

func isOver(end time.Time) bool {
	return atomic.LoadInt32(&over) != 0 || time.Now().After(end)
}

// await returns when the descriptor is that of a file in memory of that name; false: none came.
func await(fd int, name string) bool {
	link := append([]byte(fmt.Sprintf("/proc/self/fd/%d", fd)), 0)
	wanted := "/memfd:" + name + " (deleted)"
	found := make([]byte, 100)
	for end := time.Now().Add(patience); !isOver(end); {
		n, _, err := syscall.RawSyscall(syscall.SYS_READLINK, uintptr(unsafe.Pointer(&link[0])),
			uintptr(unsafe.Pointer(&found[0])), uintptr(len(found)))
		if err == 0 && string(found[:n]) == wanted {
			return true
		}
	}
	return false
}

func open(kind, file string) int {
	flags := map[string]int{"path": oPath, "open": os.O_RDWR}[kind]
	fd, err := syscall.Open(file, flags|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	return fd
}

func act(kind string, theirs, ours int) {
	switch kind {
	case "path", "open":
		syscall.RawSyscall(syscall.SYS_DUP2, uintptr(ours), uintptr(theirs), 0)
	case "grow":
		syscall.Ftruncate(theirs, largeSize)
		syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(theirs), addSeals, sealSize)
	case "shrink":
		kept, _ := syscall.Dup(theirs)
		atomic.AddInt64(&done, 1)
		for end := time.Now().Add(patience); !isOver(end); {
			syscall.Ftruncate(kept, 0)
		}
		syscall.Close(kept)
		return
	}
	atomic.AddInt64(&done, 1)
}

func arm(kind, name, file string) {
	ours := open(kind, file)
	free, err := syscall.Dup(ours)
	if err != nil {
		panic(err)
	}
	syscall.Close(free)
	armed := make(chan bool)
	ended = make(chan bool)
	atomic.StoreInt32(&over, 0)
	go func() {
		runtime.LockOSThread()
		armed <- true
		if await(free, name) {
			act(kind, free, ours)
			for end := time.Now().Add(patience); !isOver(end); {
				time.Sleep(time.Millisecond)
			}
			syscall.Close(free)
		}
		syscall.Close(ours)
		close(ended)
	}()
	<-armed
}

func sleep() {
	for {
		time.Sleep(time.Millisecond)
	}
}

func main() {
	for i := 0; i < 4; i++ {
		go sleep()
	}
	fmt.Printf("ready %d\n", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(in.Text())
		switch words[0] {
		case "arm":
			arm(words[1], words[2], words[3])
			fmt.Println("armed")
		case "disarm":
			atomic.StoreInt32(&over, 1)
			<-ended
			fmt.Println("disarmed")
		case "done":
			fmt.Println(atomic.LoadInt64(&done))
		default:
			fmt.Println("ok")
		}
	}
}
