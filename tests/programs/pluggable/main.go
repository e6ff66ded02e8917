// Program pluggable opens a plugin whose goroutines wait and work.
//
//	pluggable PLUGIN        opens it at once
//	pluggable PLUGIN later  opens it when it is told to
//
// It prints "ready PID" and obeys lines on standard input:
//
//	check   "ok N"
//	open    opens the plugin; "ok"
//	stack   the length of runtime.Stack's text, then the text
package main

import (
	"bufio"
	"fmt"
	"os"
	"plugin"
	"runtime"
	"time"
)

func open(path string) {
	p, err := plugin.Open(path)
	if err != nil {
		panic(err)
	}
	start, err := p.Lookup("Start")
	if err != nil {
		panic(err)
	}
	start.(func(func(func())))(call)
	time.Sleep(100 * time.Millisecond)
}

// call is a frame of the program between two of the plugin.
//
//go:noinline
func call(f func()) {
	f()
	runtime.KeepAlive(f)
}

func stack() {
	text := make([]byte, 1<<20)
	text = text[:runtime.Stack(text, true)]
	fmt.Printf("%d\n%s", len(text), text)
}

func main() {
	if len(os.Args) < 3 {
		open(os.Args[1])
	}
	fmt.Println("ready", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "check":
			fmt.Println("ok", 6*7)
		case "open":
			open(os.Args[1])
			fmt.Println("ok")
		case "stack":
			stack()
		}
	}
}
