// Program spender allocates known amounts for requests.
//
// Each request to /few allocates 100 objects of 1024 bytes in main.few; to /many 1000 objects of 48
// bytes in main.many; to /large one of 1 MiB in main.large. A job of a tenant (the pprof label
// `tenant`) allocates 10 objects of 4096 bytes in main.work: half of them in a goroutine that it
// starts.
//
// It samples each allocation, or one in so many bytes as the environment's RATE says. It prints
// "ready PID" and obeys lines on standard input:
//
//	gc            collects twice, so that all of the heap profile is published; "ok"
//	serve N       so many requests to each route, one after the other; "ok"
//	jobs N        so many jobs of each of the tenants a and b; "ok"
//	write PATH    writes its own profile of allocations; "ok"
//	check         "ok N", a checksum of a list that it makes
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
)

// Before anything is allocated.
var _ = setRate()

func setRate() int {
	runtime.MemProfileRate = 1
	if text := os.Getenv("RATE"); text != "" {
		runtime.MemProfileRate, _ = strconv.Atoi(text)
	}
	return 0
}

type node struct {
	next  *node
	value [5]int
}

var (
	block []byte
	list  *node
)

//go:noinline
func few() {
	for i := 0; i < 100; i++ {
		block = make([]byte, 1024)
	}
}

//go:noinline
func many() {
	list = nil
	for i := 0; i < 1000; i++ {
		list = &node{next: list}
	}
}

//go:noinline
func large() { block = make([]byte, 1<<20) }

//go:noinline
func work() {
	for i := 0; i < 5; i++ {
		block = make([]byte, 4096)
	}
}

func handle(mux *http.ServeMux, route string, spend func()) {
	mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
		spend()
		io.WriteString(w, "ok")
	})
}

func serve(url string, n int) {
	for i := 0; i < n; i++ {
		for _, route := range []string{"/few", "/many", "/large"} {
			response, err := http.Get(url + route)
			if err != nil {
				log.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
}

func jobs(n int) {
	for i := 0; i < n; i++ {
		for _, tenant := range []string{"a", "b"} {
			pprof.Do(context.Background(), pprof.Labels("tenant", tenant), func(context.Context) {
				finished := make(chan bool)
				go func() {
					work()
					finished <- true
				}()
				<-finished
				work()
			})
		}
	}
}

func check() int {
	var head *node
	for i := 0; i < 100; i++ {
		head = &node{next: head, value: [5]int{i}}
	}
	sum := 0
	for ; head != nil; head = head.next {
		sum = sum*31 + head.value[0]
	}
	return sum
}

func write(path string) {
	file, err := os.Create(path)
	if err == nil {
		err = pprof.Lookup("allocs").WriteTo(file, 0)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		log.Fatal(err)
	}
}

func obey(words []string, url string) string {
	n := 0
	if len(words) > 1 {
		n, _ = strconv.Atoi(words[1])
	}
	switch words[0] {
	case "gc":
		runtime.GC()
		runtime.GC()
	case "serve":
		serve(url, n)
	case "jobs":
		jobs(n)
	case "write":
		write(words[1])
	case "check":
		return fmt.Sprint("ok ", check())
	default:
		log.Fatal("unknown command ", words)
	}
	return "ok"
}

func main() {
	mux := http.NewServeMux()
	handle(mux, "/few", few)
	handle(mux, "/many", many)
	handle(mux, "/large", large)
	server := httptest.NewServer(mux)
	fmt.Println("ready", os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(obey(strings.Fields(lines.Text()), server.URL))
	}
}
