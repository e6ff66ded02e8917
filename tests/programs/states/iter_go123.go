//go:build go1.23

package main

import (
	"iter"
	"unique"
)

func init() {
	register("iter", func() {
		go holdPulled()
		go holdInCoroutine()
		go holdRangeFunc()
	})
}

func numbers(yield func(int) bool) {
	for i := 0; yield(i); i++ {
	}
}

// The coroutine waits until its next number is requested.
func holdPulled() {
	next, stop := iter.Pull(numbers)
	defer stop()
	next()
	next()
	block()
}

// The coroutine is blocked, and the caller of its next number waits for it.
func holdInCoroutine() {
	next, stop := iter.Pull(func(yield func(int) bool) {
		block()
	})
	defer stop()
	next()
}

func holdRangeFunc() {
	for n := range numbers {
		if n == 2 {
			block()
		}
	}
	keep = append(keep, unique.Make("kept"))
}
