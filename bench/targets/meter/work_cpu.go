package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"syscall"
	"time"
)

type tree struct {
	Name     string            `json:"name"`
	Values   []float64         `json:"values"`
	Tags     map[string]string `json:"tags"`
	Children []*tree           `json:"children"`
}

func grow(depth, width int) *tree {
	t := &tree{
		Name:   fmt.Sprintf("node at %d", depth),
		Values: []float64{1.5, 2.25, 3.125},
		Tags:   map[string]string{"zone": "eu", "kind": "tree"},
	}
	for i := 0; depth > 0 && i < width; i++ {
		t.Children = append(t.Children, grow(depth-1, width))
	}
	return t
}

// startJSON marshals and unmarshals a tree of 341 nodes on two goroutines.
func startJSON(w *workload) error {
	for i := 0; i < 2; i++ {
		c := w.counter()
		go func() {
			t := grow(4, 4)
			for {
				start := time.Now()
				text, err := json.Marshal(t)
				if err != nil {
					panic(err)
				}
				t = &tree{}
				if err := json.Unmarshal(text, t); err != nil {
					panic(err)
				}
				c.took(time.Since(start))
				c.op()
			}
		}()
	}
	return nil
}

// startPingPong starts four pairs that pass a number back and forth.
func startPingPong(w *workload) error {
	startPairs(w, 0)
	return nil
}

// startDeepPingPong does the same with 20 more frames on each stack.
func startDeepPingPong(w *workload) error {
	startPairs(w, 20)
	return nil
}

//go:noinline
func below(frames int, f func()) {
	if frames == 0 {
		f()
	} else {
		below(frames-1, f)
	}
}

func startPairs(w *workload, frames int) {
	for i := 0; i < 4; i++ {
		c := w.counter()
		ping, pong := make(chan int), make(chan int)
		go below(frames, func() {
			for n := range ping {
				pong <- n + 1
			}
		})
		go below(frames, func() {
			for n := 0; ; n++ {
				c.round(n, func() {
					ping <- n
					<-pong
				})
			}
		})
	}
}

// A pair of goroutines for each P, which pass a number back and forth; a round is many passes.
func startFlood(w *workload) error {
	for i := 0; i < runtime.GOMAXPROCS(0); i++ {
		c := w.counter()
		to, from := make(chan int), make(chan int)
		go func() {
			for v := range to {
				from <- v
			}
		}()
		go func() {
			for n := 0; ; n++ {
				c.round(n, func() {
					for k := 0; k < 64; k++ {
						to <- k
						<-from
					}
				})
			}
		}()
	}
	return nil
}

// startYield starts two goroutines for each P that only let the next one run.
func startYield(w *workload) error {
	for i := 0; i < 2*runtime.GOMAXPROCS(0); i++ {
		c := w.counter()
		go func() {
			for n := 0; ; n++ {
				c.round(n, runtime.Gosched)
			}
		}()
	}
	return nil
}

// startSyscalls starts a goroutine that calls getppid all the time, by Syscall, which tells the scheduler.
func startSyscalls(w *workload) error {
	c := w.counter()
	go func() {
		for n := 0; ; n++ {
			c.round(n, func() { _, _, _ = syscall.Syscall(syscall.SYS_GETPPID, 0, 0, 0) })
		}
	}()
	return nil
}

// round is an operation. One in 64 is timed: the clock costs as much as the operation.
func (c *counter) round(n int, f func()) {
	if n&63 != 0 {
		f()
	} else {
		start := time.Now()
		f()
		c.took(time.Since(start))
	}
	c.op()
}
