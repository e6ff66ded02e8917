// Named serves HTTP requests of random methods, paths, routes, statuses and traceparents, and knows
// of each what it was.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	serve KIND N WORKERS SEED  so many requests; prints them as JSON. KIND is http or http2
//	check                      "ok" and what three requests were
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// request is what was sent, and what the server knows of it.
type request struct {
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Path    string `json:"path"`
	Route   string `json:"route"`
	Peer    string `json:"peer"`
	Status  int    `json:"status"`
	TraceID string `json:"trace_id"`
	SpanID  string `json:"span_id"`
	// Calls of query, and how long they took.
	Queries int   `json:"queries"`
	QueryNs int64 `json:"query_ns"`
	// How it is sent and answered.
	escaped string
	parent  string
	headers int
	how     int
}

const (
	implicit    = iota // nothing is written
	written            // a body, and no status
	explicit           // WriteHeader
	superfluous        // twice
	early              // 103 before it, where there is that
	flushed
	hows
)

type key struct{}

// The patterns, and what a path of each looks like.
type pattern struct{ pattern, path string }

func patterns() []pattern {
	all := []pattern{{"/users/", "/users/%d/%s"}, {"/exact", "/exact"}, {"/a/b/", "/a/b/%d"}}
	if minor() >= 22 {
		all = append(all, pattern{"GET /v2/items/{id}", "/v2/items/%d"},
			pattern{"/v2/{kind}/of/{rest...}", "/v2/x%d/of/%s"})
	}
	return append(all, pattern{"", "/nowhere/%d"}, pattern{"/sub/", "/sub/inner/%d"})
}

func minor() int {
	n, _ := strconv.Atoi(strings.Split(strings.Split(runtime.Version(), ".")[1], "-")[0])
	return n
}

type server struct {
	sync.Mutex
	requests []request
}

func (s *server) of(r *http.Request) *request {
	id, err := strconv.Atoi(r.Header.Get("X-Id"))
	if err != nil {
		log.Fatal(err)
	}
	return &s.requests[id]
}

func (s *server) answer(w http.ResponseWriter, r *http.Request, route string) {
	q := s.of(r)
	q.Route = route
	for i := 0; i < q.ID%3; i++ {
		q.query(i)
	}
	switch q.how {
	case written:
		io.WriteString(w, "hello")
	case explicit:
		w.WriteHeader(q.Status)
	case superfluous:
		w.WriteHeader(q.Status)
		w.WriteHeader(299)
	case early:
		w.WriteHeader(103)
		w.WriteHeader(q.Status)
	case flushed:
		w.(http.Flusher).Flush()
	}
}

// query is a part of a request: it computes, and calls itself.
//
//go:noinline
func (q *request) query(n int) {
	began := time.Now()
	if n > 0 {
		q.query(0)
		q.Queries--
	}
	for time.Since(began) < 20*time.Microsecond {
	}
	q.Queries++
	if n == 0 {
		q.QueryNs += int64(time.Since(began))
	}
}

// handler is a mux behind a middleware that copies the request, as those of tracing do.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, p := range patterns() {
		p := p
		if p.pattern == "" {
			continue
		}
		if p.pattern == "/sub/" {
			inner := http.NewServeMux()
			inner.HandleFunc("/inner/", func(w http.ResponseWriter, r *http.Request) {
				s.answer(w, r, "/inner/")
			})
			mux.Handle(p.pattern, http.StripPrefix("/sub", inner))
			continue
		}
		mux.HandleFunc(p.pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, p.pattern) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := s.of(r)
		q.Peer = r.RemoteAddr
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, q)))
	})
}

func hexadecimal(random *rand.Rand, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = "0123456789abcdef"[random.Intn(16)]
	}
	return string(text)
}

// traceparent makes a valid one, none, or one that is invalid.
func (q *request) traceparent(random *rand.Rand) {
	trace, span := hexadecimal(random, 32), hexadecimal(random, 16)
	q.parent = "00-" + trace + "-" + span + "-01"
	switch random.Intn(8) {
	case 0:
		q.parent = ""
	case 1:
		q.parent = "00-" + strings.Repeat("0", 32) + "-" + span + "-01"
	case 2:
		q.parent = "00-" + strings.ToUpper(trace[:31]) + "G-" + span + "-01"
	case 3:
		q.parent = q.parent[:40]
	default:
		q.TraceID, q.SpanID = trace, span
	}
}

// join makes it a request of the other's trace.
func (q *request) join(other *request) {
	q.TraceID, q.SpanID = other.TraceID, fmt.Sprintf("%016x", q.ID+1)
	q.parent = "00-" + q.TraceID + "-" + q.SpanID + "-00"
}

func words(random *rand.Rand) string {
	return []string{"plain", "with space", "a%b=c", "\u00fcber/\u732b", "q?u#", strings.Repeat("long", 60),
		"tab\there"}[random.Intn(7)]
}

func make1(id int, random *rand.Rand) request {
	all := patterns()
	p := all[random.Intn(len(all))]
	q := request{ID: id, Method: []string{"GET", "POST", "PUT", "DELETE", "PATCH"}[random.Intn(5)],
		Status: []int{200, 201, 204, 304, 400, 404, 418, 500, 503, 599}[random.Intn(10)],
		how:    random.Intn(hows), headers: []int{0, 3, 9, 14, 40}[random.Intn(5)]}
	if strings.HasPrefix(p.pattern, "GET ") {
		q.Method = "GET"
	}
	q.Path = p.path
	if strings.Contains(q.Path, "%d") {
		q.Path = strings.Replace(q.Path, "%d", strconv.Itoa(id), 1)
	}
	q.Path = strings.Replace(q.Path, "%s", words(random), 1)
	if p.pattern == "" {
		q.Status = 404
	} else if q.how == implicit || q.how == written || q.how == flushed {
		q.Status = 200
	} else if q.how == early && minor() < 19 {
		q.how = explicit
	}
	q.traceparent(random)
	return q
}

func send(client *http.Client, base string, q *request) {
	u := base + (&url.URL{Path: q.Path}).EscapedPath() + "?secret=query"
	r, err := http.NewRequest(q.Method, u, nil)
	if err != nil {
		log.Fatal(err)
	}
	r.Header.Set("X-Id", strconv.Itoa(q.ID))
	r.Header.Set("Authorization", "Bearer secret-token")
	for i := 0; i < q.headers; i++ {
		r.Header.Set(fmt.Sprint("X-More-", i), "more")
	}
	if q.parent != "" {
		r.Header.Set("traceparent", q.parent)
	}
	response, err := client.Do(r)
	if err != nil {
		log.Fatal("request ", q.ID, ": ", err)
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if response.StatusCode != q.Status {
		log.Fatal("request ", q.ID, ": ", response.StatusCode, ", not ", q.Status)
	}
}

func start(s *server, kind string) *httptest.Server {
	web := httptest.NewUnstartedServer(s.handler())
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.EnableHTTP2 = kind == "http2"
	if kind == "http2" {
		web.StartTLS()
	} else {
		web.Start()
	}
	return web
}

func serve(kind string, n, workers int, seed int64) []request {
	s := &server{requests: make([]request, n)}
	random := rand.New(rand.NewSource(seed))
	for i := range s.requests {
		s.requests[i] = make1(i, random)
		if i%4 == 3 && s.requests[i-1].TraceID != "" {
			s.requests[i].join(&s.requests[i-1])
		}
	}
	web := start(s, kind)
	client := web.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = workers
	var group sync.WaitGroup
	for w := 0; w < workers; w++ {
		group.Add(1)
		go func(w int) {
			defer group.Done()
			for i := w; i < n; i += workers {
				send(client, web.URL, &s.requests[i])
			}
		}(w)
	}
	group.Wait()
	web.Close()
	return s.requests
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func main() {
	fmt.Println("ready", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if words[0] == "check" {
			all := serve("http", 3, 1, 1)
			fmt.Println("ok", all[0].Status, all[1].Path, all[2].Route)
			continue
		}
		all := serve(words[1], number(words[2]), number(words[3]), int64(number(words[4])))
		text, err := json.Marshal(all)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(text))
	}
}
