// A cache that forgets nothing: it keeps each page that it was asked for. docs/guide/memory.md,
// heap.md, retained.md and growth.md find out what its memory is, who allocated it, and what holds it.
package main

import (
	"fmt"
	_ "net/http/pprof" // so that the program keeps a heap profile
	"strings"
	"sync"
	"time"
)

type Page struct {
	Title string
	Body  []byte
}

// Cache has no limit: that is the fault.
type Cache struct {
	mu    sync.Mutex
	pages map[string]*Page
}

var pages = Cache{pages: make(map[string]*Page, 10000)}

func (c *Cache) get(url string) *Page {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pages[url]
	if p == nil {
		p = render(url)
		c.pages[url] = p
	}
	return p
}

//go:noinline
func render(url string) *Page {
	body := make([]byte, 32<<10)
	for i := range body {
		body[i] = byte(i)
	}
	return &Page{Title: strings.Repeat("Page ", 4), Body: body}
}

// A worker keeps its buffer while it waits for a job.
func worker(jobs <-chan int) {
	buffer := make([]byte, 1<<20)
	for i := range buffer {
		buffer[i] = 1
	}
	for job := range jobs {
		buffer[job%len(buffer)]++
	}
}

func main() {
	jobs := make(chan int)
	for i := 0; i < 4; i++ {
		go worker(jobs)
	}
	for i := 0; ; i++ {
		pages.get(fmt.Sprint("/page/", i))
		time.Sleep(50 * time.Millisecond)
	}
}
