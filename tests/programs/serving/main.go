// Serving is a server of HTTP/1 and HTTP/2 and its own client. Each handler gives its goroutine the
// pprof labels truth_method, truth_path, truth_route, truth_trace and truth_span, and sleeps or
// computes: so each sample of it has, in the program's own words, what request it served.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	serve KIND N WORKERS  so many requests of "http", "http2" or "copied" (a middleware before the
//	                      mux copies each request); prints "done"
//	compute KIND N WORKERS  likewise, of handlers that compute
//	check                 "ok"
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"time"
)

var (
	methods = []string{"GET", "POST", "DELETE", "PROPFIND"}
	// A pattern, and a path that it matches.
	routes = [][2]string{{"/users/", "/users/%d"}, {"/exact", "/exact"}, {"/items/{id}", "/items/%d"}, {"/", "/other/%d"}}
)

// knowsPatterns is whether a pattern may have methods and wildcards, and a request has it.
func knowsPatterns() bool {
	var minor int
	fmt.Sscanf(runtime.Version(), "go1.%d", &minor)
	return minor >= 22
}

// The handlers compute.
var computing bool

func handle(pattern string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		parent := r.Header.Get("Traceparent") + strings.Repeat(" ", 55)
		labels := pprof.Labels("truth_method", r.Method, "truth_path", r.URL.Path, "truth_route", pattern,
			"truth_trace", strings.TrimSpace(parent[3:35]), "truth_span", strings.TrimSpace(parent[36:52]))
		pprof.Do(r.Context(), labels, func(context.Context) {
			if computing {
				compute(time.Now().Add(time.Duration(1+rand.Intn(4)) * time.Millisecond))
			} else {
				wait(r)
			}
		})
	}
}

//go:noinline
func compute(end time.Time) {
	for n := 0; time.Now().Before(end); n++ {
	}
}

//go:noinline
func wait(r *http.Request) {
	time.Sleep(time.Duration(2+rand.Intn(8)) * time.Millisecond)
	if r.Method == "GET" {
		done := make(chan bool)
		go func() { time.Sleep(3 * time.Millisecond); close(done) }()
		<-done
	}
}

func handler(kind string) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		if !strings.Contains(route[0], "{") || knowsPatterns() {
			mux.Handle(route[0], handle(route[0]))
		}
	}
	if kind != "copied" {
		return mux
	}
	type key struct{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, 1)))
	})
}

func send(client *http.Client, base string) {
	path := routes[rand.Intn(len(routes))][1]
	if strings.Contains(path, "%d") {
		path = fmt.Sprintf(path, rand.Intn(5))
	}
	r, err := http.NewRequest(methods[rand.Intn(len(methods))], base+path+"?secret-query", nil)
	if err != nil {
		log.Fatal(err)
	}
	r.Header.Set("Authorization", "secret-token")
	for i := rand.Intn(20); i > 0; i-- {
		r.Header.Set(fmt.Sprintf("X-More-%d", i), "secret-value")
	}
	if rand.Intn(4) > 0 {
		r.Header.Set("Traceparent", fmt.Sprintf("00-%016x%016x-%016x-01", rand.Int63(), rand.Int63(), rand.Int63()|1))
	}
	response, err := client.Do(r)
	if err != nil {
		log.Fatal(err)
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

func serve(kind string, n, workers int) {
	web := httptest.NewUnstartedServer(handler(kind))
	web.EnableHTTP2 = kind == "http2"
	if kind == "http2" {
		web.StartTLS()
	} else {
		web.Start()
	}
	client := web.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = workers
	var group sync.WaitGroup
	for w := 0; w < workers; w++ {
		group.Add(1)
		go func(w int) {
			defer group.Done()
			for i := w; i < n; i += workers {
				send(client, web.URL)
			}
		}(w)
	}
	group.Wait()
	web.Close()
}

func main() {
	fmt.Println("ready", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var kind string
		var n, workers int
		if k, _ := fmt.Sscanf(in.Text(), "serve %s %d %d", &kind, &n, &workers); k == 3 {
			computing = false
			serve(kind, n, workers)
			fmt.Println("done")
		} else if k, _ := fmt.Sscanf(in.Text(), "compute %s %d %d", &kind, &n, &workers); k == 3 {
			computing = true
			serve(kind, n, workers)
			fmt.Println("done")
		} else {
			serve("http", 1, 1)
			fmt.Println("ok")
		}
	}
}
