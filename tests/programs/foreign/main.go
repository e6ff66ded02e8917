// Foreign serves and asks with libraries that have their own ways: connect, on top of net/http, and
// fasthttp, instead of it.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	connect N   so many calls of procedures, each of which calls another; prints as JSON what each was
//	fasthttp N  so many requests, whose handler asks another server; prints as JSON what each asked
//	check       "ok"
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/valyala/fasthttp"
	"google.golang.org/protobuf/types/known/emptypb"
)

// called is what a request was, and what it asked, by function.
type called struct {
	Method  string            `json:"method,omitempty"`
	Path    string            `json:"path,omitempty"`
	Status  int               `json:"status,omitempty"`
	TraceID string            `json:"trace_id,omitempty"`
	SpanID  string            `json:"span_id,omitempty"`
	Asked   map[string]*asked `json:"asked"`
}

type asked struct {
	Count int   `json:"count"`
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
}

func (c *called) ask(function string, f func() (took int64)) {
	if c.Asked[function] == nil {
		c.Asked[function] = &asked{}
	}
	a := c.Asked[function]
	began := time.Now()
	a.Least += f()
	a.Most += int64(time.Since(began))
	a.Count++
}

func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return l
}

func rest() int64 {
	began := time.Now()
	time.Sleep(300 * time.Microsecond)
	return int64(time.Since(began))
}

type empty = emptypb.Empty

const inner = "/acme.v1.Store/Find"

// connect's answers as net/http has them: no Go version maps its codes to others.
var answers = map[connect.Code]int{0: 200, connect.CodeNotFound: 404, connect.CodeUnavailable: 503}

func serveConnect(n int) (all []*called) {
	l := listen()
	base := "http://" + l.Addr().String()
	mux := http.NewServeMux()
	var now *called
	var code connect.Code
	var took int64
	store := connect.NewClient[empty, empty](http.DefaultClient, base+inner)
	mux.Handle(inner, connect.NewUnaryHandler(inner, func(context.Context, *connect.Request[empty]) (*connect.Response[empty], error) {
		took = rest()
		return connect.NewResponse(&empty{}), nil
	}))
	procedures := []string{"/acme.v1.Users/Get", "/acme.v1.Users/Put", "/acme.v1.Items/List"}
	for _, procedure := range procedures {
		mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(ctx context.Context, _ *connect.Request[empty]) (*connect.Response[empty], error) {
			now.ask("net/http.(*Client).do", func() int64 {
				if _, err := store.CallUnary(ctx, connect.NewRequest(&empty{})); err != nil {
					log.Fatal(err)
				}
				return took
			})
			if code != 0 {
				return nil, connect.NewError(code, errors.New("secret message"))
			}
			return connect.NewResponse(&empty{}), nil
		}))
	}
	go http.Serve(l, mux)
	for i := 0; i < n; i++ {
		code = []connect.Code{0, 0, connect.CodeNotFound, connect.CodeUnavailable}[i%4]
		now = &called{Method: "POST", Path: procedures[i%3], Status: answers[code], Asked: map[string]*asked{}}
		request := connect.NewRequest(&empty{})
		if i%2 == 0 {
			now.TraceID, now.SpanID = fmt.Sprintf("%032x", i*7919+1), fmt.Sprintf("%016x", i*104729+1)
			request.Header().Set("traceparent", "00-"+now.TraceID+"-"+now.SpanID+"-01")
		}
		_, err := connect.NewClient[empty, empty](http.DefaultClient, base+now.Path).CallUnary(context.Background(), request)
		if (code != 0) != (err != nil) {
			log.Fatal(code, err)
		}
		all = append(all, now)
	}
	l.Close()
	return all
}

var (
	asking *called
	other  string
)

//go:noinline
func serveFast(ctx *fasthttp.RequestCtx) {
	ctx.SetStatusCode(200)
	for i := len(ctx.Path()) % 3; i >= 0; i-- {
		asking.ask("github.com/valyala/fasthttp.(*HostClient).Do", func() int64 {
			_, body, err := fasthttp.Get(nil, other)
			if err != nil {
				log.Fatal(err)
			}
			var took int64
			fmt.Sscan(string(body), &took)
			return took
		})
	}
}

func serveFasthttp(n int) (all []*called) {
	l, second := listen(), listen()
	other = "http://" + second.Addr().String() + "/"
	go fasthttp.Serve(second, func(ctx *fasthttp.RequestCtx) { fmt.Fprint(ctx, rest()) })
	go fasthttp.Serve(l, serveFast)
	for i := 0; i < n; i++ {
		asking = &called{Asked: map[string]*asked{}}
		response, err := http.Get("http://" + l.Addr().String() + "/" + strings.Repeat("a", i%7))
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		all = append(all, asking)
	}
	l.Close()
	second.Close()
	return all
}

func main() {
	fmt.Println("ready", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var all []*called
		var n int
		if k, _ := fmt.Sscanf(in.Text(), "connect %d", &n); k == 1 {
			all = serveConnect(n)
		} else if k, _ := fmt.Sscanf(in.Text(), "fasthttp %d", &n); k == 1 {
			all = serveFasthttp(n)
		} else {
			fmt.Println("ok")
			continue
		}
		text, _ := json.Marshal(all)
		fmt.Println(string(text))
	}
}
