// Leak leaks a goroutine for each slow query. ask gives up after a timeout, so nobody receives the
// answer, and the goroutine that sends it waits for ever. docs/guide/leaks.md finds it.
package main

import (
	"fmt"
	"math/rand"
	"time"
)

func query() string {
	time.Sleep(time.Duration(rand.Intn(20)) * time.Millisecond)
	return "answer"
}

func ask() (string, error) {
	answer := make(chan string) // a buffer of 1 would fix it
	go func() { answer <- query() }()
	select {
	case text := <-answer:
		return text, nil
	case <-time.After(10 * time.Millisecond):
		return "", fmt.Errorf("timeout")
	}
}

func main() {
	failed := 0
	for {
		if _, err := ask(); err != nil {
			failed++
		}
	}
}
