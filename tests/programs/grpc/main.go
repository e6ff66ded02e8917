// Grpc is a gRPC server and its own client. With the argument "workers" the server's goroutines are
// a pool's, else one for each call.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	call N   so many calls, one after the other; prints as JSON how long each computed, in ns
//	names N  so many calls of two methods, some with a traceparent, with a status each; prints as
//	         JSON what each was
//	slow N   so many calls, each of which sleeps, eight at a time; prints "done"
//	ask N    so many requests of net/http, whose handler makes calls; prints as JSON how often, and
//	         how long they took, in ns: at least, as the server says, and at most
//	h2c N    the same of requests to a server of golang.org/x/net/http2, without TLS
//	check    "ok"
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

type server struct {
	grpc_health_v1.UnimplementedHealthServer
	mu    sync.Mutex
	spent []int64
	peer  string // of the last call
}

const secret = "secret value"

func (s *server) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	began := time.Now()
	for time.Since(began) < 50*time.Microsecond {
	}
	s.mu.Lock()
	s.spent = append(s.spent, int64(time.Since(began)))
	if p, ok := peer.FromContext(ctx); ok {
		s.peer = p.Addr.String()
	}
	s.mu.Unlock()
	if r.Service == "slow" {
		rest()
	}
	code := codes.OK
	if md, ok := metadata.FromIncomingContext(ctx); ok && len(md.Get("answer")) > 0 {
		n, _ := strconv.Atoi(md.Get("answer")[0])
		code = codes.Code(n)
	}
	if code != codes.OK {
		return nil, status.Error(code, secret)
	}
	return &grpc_health_v1.HealthCheckResponse{Status: 1}, nil
}

// called is what a call or a request was.
type called struct {
	Method     string `json:"method"`
	Path       string `json:"path"`
	Route      string `json:"route,omitempty"`
	Status     int    `json:"status"`
	StatusName string `json:"status_name,omitempty"`
	Peer       string `json:"peer,omitempty"`
	TraceID    string `json:"trace_id,omitempty"`
	SpanID     string `json:"span_id,omitempty"`
}

// parent gives every third call no traceparent.
func (c *called) parent(i int) string {
	if i%3 == 0 {
		return ""
	}
	c.TraceID, c.SpanID = fmt.Sprintf("%032x", i*7919), fmt.Sprintf("%016x", i*104729)
	return "00-" + c.TraceID + "-" + c.SpanID + "-01"
}

func names(conn *grpc.ClientConn, h *server, n int) (all []called) {
	for i := 0; i < n; i++ {
		c := called{Method: "gRPC", Path: "/grpc.health.v1.Health/Check"}
		if i%5 == 0 {
			c.Path = fmt.Sprintf("/none.Service/Method%d", i)
		}
		answer := i % 19 // 17 and 18 have no names
		ctx := metadata.AppendToOutgoingContext(context.Background(), "answer", strconv.Itoa(answer), "authorization", secret)
		for k := 0; k < i%20; k++ {
			ctx = metadata.AppendToOutgoingContext(ctx, fmt.Sprint("key", k), "value")
		}
		if parent := c.parent(i); parent != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", parent)
		}
		err := conn.Invoke(ctx, c.Path, &grpc_health_v1.HealthCheckRequest{}, &grpc_health_v1.HealthCheckResponse{})
		if i%5 == 0 {
			answer = int(codes.Unimplemented)
		}
		if status.Code(err) != codes.Code(answer) {
			log.Fatal(answer, err)
		}
		c.Route = c.Path
		c.Status, c.StatusName = answer, codes.Code(answer).String()
		all = append(all, c)
	}
	for i := range all {
		all[i].Peer = h.peer // there is one connection
	}
	return all
}

//go:noinline
func rest() { time.Sleep(5 * time.Millisecond) }

func slow(client grpc_health_v1.HealthClient, n int) {
	var group sync.WaitGroup
	for w := 0; w < 8; w++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < n/8; i++ {
				if _, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{Service: "slow"}); err != nil {
					log.Fatal(err)
				}
			}
		}()
	}
	group.Wait()
}

// asked is what a request asked, by function.
type asked struct {
	Path  string             `json:"path"`
	Asked map[string]*length `json:"asked"`
}

type length struct {
	Count int   `json:"count"`
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
}

const invoke = "google.golang.org/grpc.(*ClientConn).Invoke"

func ask(client grpc_health_v1.HealthClient, h *server, n int) []asked {
	all := make([]asked, n)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var i int
		fmt.Sscanf(r.URL.Path, "/ask/%d", &i)
		sum := &length{Count: i % 4}
		for k := 0; k < sum.Count; k++ {
			h.spent = nil
			began := time.Now()
			if _, err := client.Check(r.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
				log.Fatal(err)
			}
			sum.Most += int64(time.Since(began))
			sum.Least += h.spent[0]
		}
		all[i] = asked{r.URL.Path, map[string]*length{invoke: sum}}
		if sum.Count == 0 {
			all[i].Asked = map[string]*length{}
		}
	}))
	for i := range all {
		response, err := http.Get(fmt.Sprint("http://", l.Addr(), "/ask/", i))
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
	}
	l.Close()
	return all
}

func h2c(n int) []called {
	all := make([]called, n)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var i int
		fmt.Sscanf(r.URL.Path, "/h2c/%d", &i)
		all[i].Peer = r.RemoteAddr
		if all[i].Status != 200 {
			w.WriteHeader(all[i].Status)
		}
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go (&http2.Server{}).ServeConn(conn, &http2.ServeConnOpts{Handler: handler})
		}
	}()
	client := &http.Client{Transport: &http2.Transport{AllowHTTP: true,
		DialTLSContext: func(_ context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
			return net.Dial(network, addr)
		}}}
	for i := range all {
		c := &all[i]
		c.Method, c.Path, c.Status = []string{"GET", "POST"}[i%2], fmt.Sprint("/h2c/", i), 200+i%4
		r, _ := http.NewRequest(c.Method, fmt.Sprint("http://", l.Addr(), c.Path, "?secret=query"), nil)
		if parent := c.parent(i); parent != "" {
			r.Header.Set("traceparent", parent)
		}
		response, err := client.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
	}
	client.CloseIdleConnections()
	l.Close()
	return all
}

func main() {
	var options []grpc.ServerOption
	if len(os.Args) > 1 {
		options = append(options, grpc.NumStreamWorkers(4))
	}
	s := grpc.NewServer(options...)
	h := &server{}
	grpc_health_v1.RegisterHealthServer(s, h)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go s.Serve(l)
	conn, err := grpc.Dial(l.Addr().String(), grpc.WithInsecure()) // also of old versions
	if err != nil {
		log.Fatal(err)
	}
	client := grpc_health_v1.NewHealthClient(conn)
	fmt.Println("ready", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var n int
		if k, _ := fmt.Sscanf(in.Text(), "call %d", &n); k == 1 {
			h.spent = nil
			for i := 0; i < n; i++ {
				if _, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
					log.Fatal(err)
				}
			}
			text, _ := json.Marshal(h.spent)
			fmt.Println(string(text))
		} else if k, _ := fmt.Sscanf(in.Text(), "names %d", &n); k == 1 {
			text, _ := json.Marshal(names(conn, h, n))
			fmt.Println(string(text))
		} else if k, _ := fmt.Sscanf(in.Text(), "slow %d", &n); k == 1 {
			slow(client, n)
			fmt.Println("done")
		} else if k, _ := fmt.Sscanf(in.Text(), "ask %d", &n); k == 1 {
			text, _ := json.Marshal(ask(client, h, n))
			fmt.Println(string(text))
		} else if k, _ := fmt.Sscanf(in.Text(), "h2c %d", &n); k == 1 {
			text, _ := json.Marshal(h2c(n))
			fmt.Println(string(text))
		} else {
			fmt.Println("ok")
		}
	}
}
