// Program profiled spends CPU time as servers do, and can profile itself meanwhile.
//
// Its argument says how: "http" serves and asks itself, "json" encodes and decodes, "pingpong" hands
// numbers from goroutine to goroutine. Its labels are "work". It prints "ready PID" and obeys lines
// on standard input:
//
//	check       "ok 1"
//	start PATH  Go's own CPU profile begins; "ok"
//	stop        it ends; "ok"
//	end         ends with exit status 7
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/pprof"
	"sort"
	"strings"
)

func work(name string, f func()) {
	pprof.Do(context.Background(), pprof.Labels("work", name), func(context.Context) { f() })
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

type order struct {
	ID       int               `json:"id"`
	Customer string            `json:"customer"`
	Prices   []float64         `json:"prices"`
	Tags     map[string]string `json:"tags"`
	Notes    []string          `json:"notes,omitempty"`
}

func orders(n int) []order {
	var ret []order
	for i := 0; i < n; i++ {
		o := order{ID: i, Customer: fmt.Sprintf("customer %d", i), Tags: map[string]string{}}
		for j := 0; j < 8; j++ {
			o.Prices = append(o.Prices, float64(i*j)/7)
			o.Tags[fmt.Sprint("key", j)] = strings.Repeat("v", j)
		}
		ret = append(ret, o)
	}
	return ret
}

func encode(all []order) []byte {
	text, err := json.Marshal(all)
	check(err)
	return text
}

func decode(text []byte) {
	var all []order
	check(json.Unmarshal(text, &all))
}

func jsons() {
	all := orders(50)
	text := encode(all)
	go work("encode", func() {
		for {
			encode(all)
		}
	})
	go work("decode", func() {
		for {
			decode(text)
		}
	})
}

func sorted(w http.ResponseWriter, r *http.Request) {
	work("sort", func() {
		numbers := make([]int, 2000)
		for i := range numbers {
			numbers[i] = i * 7919 % 2003
		}
		sort.Ints(numbers)
		fmt.Fprintln(w, numbers[0])
	})
}

func hashed(w http.ResponseWriter, r *http.Request) {
	work("hash", func() {
		fmt.Fprintf(w, "%x\n", sha256.Sum256(make([]byte, 50000)))
	})
}

func listed(w http.ResponseWriter, r *http.Request) {
	work("list", func() {
		w.Write(encode(orders(5)))
	})
}

func ask(url string) {
	r, err := http.Get(url)
	check(err)
	_, err = io.Copy(io.Discard, r.Body)
	check(err)
	r.Body.Close()
}

func serve() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	http.HandleFunc("/sort", sorted)
	http.HandleFunc("/hash", hashed)
	http.HandleFunc("/list", listed)
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 10
	go http.Serve(l, nil)
	for _, path := range []string{"sort", "hash", "list"} {
		url := fmt.Sprintf("http://%s/%s", l.Addr(), path)
		go work("client", func() {
			for {
				ask(url)
			}
		})
	}
}

//go:noinline
func count(n, times int) int {
	for i := 0; i < times; i++ {
		n = n*1664525 + 1013904223
	}
	return n
}

func pingpong() {
	for i := 0; i < 2; i++ {
		ping, pong := make(chan int), make(chan int)
		go work("pong", func() {
			for n := range ping {
				pong <- count(n, 200)
			}
		})
		go work("ping", func() {
			for n := 0; ; n++ {
				ping <- count(n, 600)
				<-pong
			}
		})
	}
}

func obey(line string) {
	words := strings.Fields(line)
	switch {
	case line == "check":
		fmt.Println("ok 1")
	case line == "end":
		os.Exit(7)
	case line == "stop":
		pprof.StopCPUProfile()
		fmt.Println("ok")
	case len(words) == 2 && words[0] == "start":
		file, err := os.Create(words[1])
		check(err)
		check(pprof.StartCPUProfile(file))
		fmt.Println("ok")
	}
}

func main() {
	map[string]func(){"http": serve, "json": jsons, "pingpong": pingpong}[os.Args[1]]()
	fmt.Printf("ready %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		obey(in.Text())
	}
}
