package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand"
	"net"
	"net/http"
	"time"
)

const httpClients = 32

type message struct {
	ID    int      `json:"id"`
	Name  string   `json:"name"`
	Tags  []string `json:"tags"`
	Price float64  `json:"price"`
}

// startHTTP starts a server and its clients in one process, with small JSON both ways. A client sends its
// next request at once.
func startHTTP(w *workload) error {
	return serveAndAsk(w, 0)
}

// startPaced is the same with clients that pause between requests: some 9,000 requests a
// second, which leaves two CPUs half idle.
func startPaced(w *workload) error {
	return serveAndAsk(w, 3*time.Millisecond)
}

func serveAndAsk(w *workload, pause time.Duration) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, http.HandlerFunc(echo)) }()
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: httpClients}}
	for i := 0; i < httpClients; i++ {
		go ask(web, "http://"+l.Addr().String(), w.counter(), pause)
	}
	return nil
}

func echo(w http.ResponseWriter, r *http.Request) {
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.Price *= 1.19
	_ = json.NewEncoder(w).Encode(&m)
}

// ask pauses so long on average.
func ask(web *http.Client, url string, c *counter, pause time.Duration) {
	body, _ := json.Marshal(message{7, "kettle", []string{"copper", "large"}, 19.99})
	for {
		start := time.Now()
		response, err := web.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			panic(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			panic(err)
		}
		response.Body.Close()
		c.took(time.Since(start))
		c.op()
		if pause > 0 {
			time.Sleep(time.Duration(rand.ExpFloat64() * float64(pause)))
		}
	}
}
