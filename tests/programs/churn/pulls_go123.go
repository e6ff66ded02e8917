//go:build go1.23

package main

import (
	"flag"
	"iter"
)

var pulls = flag.Int("pulls", 0, "pairs of goroutines that are the two sides of iter.Pull")

const (
	kindTake = 12
	kindGive = 13
)

func init() {
	startPulls = func() {
		for i := 0; i < *pulls; i++ {
			go take(newWorker(i, nil), newWorker(i, nil))
		}
	}
}

// take is the start function of that side that asks. Neither side goes through the scheduler.
func take(w, giver *worker) {
	w.begin()
	next, stop := iter.Pull(func(yield func(int) bool) { give(giver, yield) })
	w.turn = func() { next() }
	for i := 0; i < *life; i++ {
		w.walk(kindTake)
	}
	stop()
	go take(w, giver)
}

func give(w *worker, yield func(int) bool) {
	w.begin()
	more := true
	w.turn = func() { more = yield(0) }
	for more {
		w.walk(kindGive)
	}
}
