// Routers is a server with the routers gin, echo, chi and gorilla/mux, and its own client.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	serve KIND N  so many requests of "gin", "echo", "chi" or "gorilla"; prints as JSON of each its
//	              method, path, route and status
//	check         "ok"
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gorilla/mux"
	"github.com/labstack/echo/v4"
)

type request struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Route  string `json:"route,omitempty"`
	Peer   string `json:"peer"`
	Status int    `json:"status"`
}

// The request that is served: there is one at a time.
var now *request

func note(r *http.Request, route string) {
	now.Peer, now.Route = r.RemoteAddr, route
}

func ofGin() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(func(c *gin.Context) { c.Next() })
	e.NoRoute(func(c *gin.Context) { note(c.Request, ""); c.Status(404) })
	for _, route := range []string{"/users/:id", "/files/*name", "/exact"} {
		e.Any(route, func(c *gin.Context) { note(c.Request, c.FullPath()); c.Status(200) })
	}
	return e
}

func ofEcho() http.Handler {
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { note(c.Request(), ""); return next(c) }
	})
	for _, route := range []string{"/users/:id", "/files/*", "/exact"} {
		e.Any(route, func(c echo.Context) error { note(c.Request(), c.Path()); return c.NoContent(200) })
	}
	return e
}

func ofChi() http.Handler {
	served := func(w http.ResponseWriter, r *http.Request) { note(r, chi.RouteContext(r.Context()).RoutePattern()) }
	inner := chi.NewRouter()
	inner.HandleFunc("/{name}", served)
	m := chi.NewRouter()
	m.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { note(r, ""); next.ServeHTTP(w, r) })
	})
	m.HandleFunc("/users/{id}", served)
	m.HandleFunc("/exact", served)
	m.Mount("/files", inner)
	return m
}

func ofGorilla() http.Handler {
	m := mux.NewRouter()
	served := func(w http.ResponseWriter, r *http.Request) {
		route, _ := mux.CurrentRoute(r).GetPathTemplate()
		note(r, route)
	}
	m.HandleFunc("/users/{id}", served)
	m.HandleFunc("/exact", served)
	m.PathPrefix("/files/").Subrouter().HandleFunc("/{name}", served)
	m.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { note(r, ""); w.WriteHeader(404) })
	return m
}

func serve(kind string, n int) (all []*request) {
	handler := map[string]func() http.Handler{"gin": ofGin, "echo": ofEcho, "chi": ofChi, "gorilla": ofGorilla}[kind]()
	web := httptest.NewServer(handler)
	defer web.Close()
	paths := []string{"/users/%d", "/files/f%d", "/exact", "/none/%d"}
	for i := 0; i < n; i++ {
		now = &request{Method: []string{"GET", "POST"}[i%2], Path: paths[i%4]}
		if strings.Contains(now.Path, "%d") {
			now.Path = fmt.Sprintf(now.Path, i)
		}
		r, _ := http.NewRequest(now.Method, web.URL+now.Path+"?secret=query", nil)
		r.Header.Set("Authorization", "secret")
		response, err := web.Client().Do(r)
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		now.Status = response.StatusCode
		all = append(all, now)
	}
	return all
}

func main() {
	fmt.Println("ready", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var kind string
		var n int
		if k, _ := fmt.Sscanf(in.Text(), "serve %s %d", &kind, &n); k == 2 {
			text, _ := json.Marshal(serve(kind, n))
			fmt.Println(string(text))
		} else {
			serve("chi", 4)
			fmt.Println("ok")
		}
	}
}
