// Program cgo burns CPU in C code under Go, in Go code under C, and in a library's C code.
//
// Its arguments say which: "c", "back", "thread", "library PATH". It prints "ready PID" and obeys
// lines on standard input:
//
//	check   "ok N"
//	end     ends with exit status 7
package main

/*
#cgo CFLAGS: -O2 -fomit-frame-pointer
#cgo LDFLAGS: -ldl -lpthread
#include <stdint.h>
uint64_t c_outer(uint64_t n);
uint64_t c_back(uint64_t n);
void c_thread(void);
int c_library(const char *path);
uint64_t c_library_call(uint64_t n);
*/
import "C"

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/pprof"
)

var sink C.uint64_t

//go:noinline
func burnInC() {
	for {
		sink = C.c_outer(sink)
	}
}

//go:noinline
func burnInGoUnderC() {
	for {
		sink = C.c_back(sink)
	}
}

//go:noinline
func burnInLibrary() {
	for {
		sink = C.c_library_call(sink)
	}
}

//go:noinline
func spin(n C.uint64_t) C.uint64_t {
	for i := 0; i < 20000000; i++ {
		n = n*2862933555777941757 + 3037000493
	}
	return n
}

//export goBurn
func goBurn(n C.uint64_t) C.uint64_t {
	return spin(n)
}

func start(name string, f func()) {
	go pprof.Do(context.Background(), pprof.Labels("burns", name), func(context.Context) { f() })
}

func main() {
	for i := 1; i < len(os.Args); i++ {
		switch os.Args[i] {
		case "c":
			start("c", burnInC)
		case "back":
			start("back", burnInGoUnderC)
		case "thread":
			C.c_thread()
		case "library":
			i++
			if C.c_library(C.CString(os.Args[i])) == 0 {
				panic("no library")
			}
			start("library", burnInLibrary)
		}
	}
	fmt.Printf("ready %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "check":
			fmt.Println("ok 1")
		case "end":
			os.Exit(7)
		}
	}
}
