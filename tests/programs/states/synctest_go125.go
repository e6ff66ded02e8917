//go:build go1.25

package main

import (
	"testing"
	"testing/synctest"
)

func init() {
	register("bubble", func() {
		outside := make(chan int)
		go testing.Main(
			func(pat, str string) (bool, error) { return true, nil },
			[]testing.InternalTest{{Name: "Bubble", F: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					go holdInBubble(make(chan int))
					holdOutOfBubble(outside)
				})
			}}}, nil, nil)
	})
}

//go:noinline
func holdInBubble(c chan int) { <-c }

//go:noinline
func holdOutOfBubble(c chan int) { <-c }
