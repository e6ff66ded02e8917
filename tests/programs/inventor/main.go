// Inventor replaces the runtime's list of goroutines by invented ones.
//
//	inventor COUNT STRIDE GOID   COUNT of them, STRIDE bytes apart, their ids (2 and 3 in turns)
//	                           GOID bytes into each g; with a fourth argument the first few are
//	                           real, and the others memory that nobody has touched
//
// Built with Go 1.22, whose linker still lets a program name the runtime's variables.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

//go:linkname allglen runtime.allglen
var allglen uintptr

//go:linkname allgptr runtime.allgptr
var allgptr **byte

const (
	schedG = 72 // g.sched.g
	copied = 400
)

func number(i int) uintptr {
	n, err := strconv.Atoi(os.Args[i])
	if err != nil {
		panic(err)
	}
	return uintptr(n)
}

func bytes(at uintptr) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(at)), copied)
}

func main() {
	count, stride, goid := number(1), number(2), number(3)
	size := count * (stride + 8)
	memory, _, errno := syscall.Syscall6(syscall.SYS_MMAP, 0, size+8192, 3, 0x4022, ^uintptr(0), 0)
	if errno != 0 {
		panic(errno)
	}
	go func() { select {} }()
	time.Sleep(50 * time.Millisecond)
	list := unsafe.Slice((*uintptr)(unsafe.Pointer(memory+count*stride+4096)), int(count))
	all := unsafe.Slice((*uintptr)(unsafe.Pointer(allgptr)), int(allglen))
	waiter := all[len(all)-1]
	untouched := len(os.Args) > 4
	for i := range list {
		g := memory + uintptr(i)*stride
		list[i] = g
		if !untouched {
			copy(bytes(g), bytes(waiter))
			*(*uintptr)(unsafe.Pointer(g + schedG)) = g
			*(*uint64)(unsafe.Pointer(g + goid)) = uint64(2 + i%2)
		}
	}
	if untouched {
		copy(list, all)
	}
	allgptr = (**byte)(unsafe.Pointer(&list[0]))
	allglen = count
	fmt.Println("ready", os.Getpid())
	for {
		time.Sleep(time.Second)
	}
}
