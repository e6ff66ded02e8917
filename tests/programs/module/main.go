// A program with fgprof's handler. Tests change its import line. Goroutines nap, wait and work while it is recorded.
package main

import (
	"bytes"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/felixge/fgprof"
)

//go:noinline
func nap() {
	for {
		time.Sleep(50 * time.Millisecond)
	}
}

//go:noinline
func waitForever(c chan int) {
	<-c
}

//go:noinline
func work() (sum uint64) {
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
		for i := uint64(0); i < 10000; i++ {
			sum += i * i
		}
	}
	return sum
}

func slow(w http.ResponseWriter, r *http.Request) {
	time.Sleep(30 * time.Millisecond)
	fmt.Fprintln(w, "slow")
}

// called records with the functions of the package, for half a second.
func called(w http.ResponseWriter, r *http.Request) {
	var out bytes.Buffer
	stop := fgprof.Start(&out, fgprof.Format(r.URL.Query().Get("format")))
	time.Sleep(500 * time.Millisecond)
	if err := stop(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Write(out.Bytes())
}

// hide makes this process one that only root may read.
func hide(w http.ResponseWriter, r *http.Request) {
	const prSetDumpable = 4
	if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, prSetDumpable, 0, 0); errno != 0 {
		http.Error(w, errno.Error(), http.StatusInternalServerError)
	}
}

func main() {
	http.DefaultServeMux.Handle("/debug/fgprof", fgprof.Handler())
	http.HandleFunc("/slow", slow)
	http.HandleFunc("/called", called)
	http.HandleFunc("/hide", hide)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go nap()
	go waitForever(make(chan int))
	go func() {
		for {
			work()
			time.Sleep(20 * time.Millisecond)
		}
	}()
	fmt.Println("ready", os.Getpid(), listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}
