package main

import (
	"encoding/json"
	"fmt"
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

// startPingPong is four pairs that hand a number to and fro. One round in 64 is timed: the clock
// costs as much as the round.
func startPingPong(w *workload) error {
	for i := 0; i < 4; i++ {
		c := w.counter()
		ping, pong := make(chan int), make(chan int)
		go func() {
			for n := range ping {
				pong <- n + 1
			}
		}()
		go func() {
			for n := 0; ; n++ {
				if n&63 != 0 {
					ping <- n
					<-pong
				} else {
					start := time.Now()
					ping <- n
					<-pong
					c.took(time.Since(start))
				}
				c.op()
			}
		}()
	}
	return nil
}
