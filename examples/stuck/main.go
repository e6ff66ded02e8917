// Stuck deadlocks: transfers lock two accounts, each in the order of its arguments. Two transfers in
// opposite directions wait for each other, and every later transfer waits for them. The ticker goes
// on, so the runtime does not report a deadlock. docs/guide/stuck.md finds it with gospect.
package main

import (
	"fmt"
	"sync"
	"time"
)

type account struct {
	mu      sync.Mutex
	balance int
}

func transfer(from, to *account, amount int) {
	from.mu.Lock()
	defer from.mu.Unlock()
	time.Sleep(10 * time.Millisecond) // ask the bank
	to.mu.Lock()
	defer to.mu.Unlock()
	from.balance -= amount
	to.balance += amount
}

func main() {
	alice, bob := &account{balance: 100}, &account{balance: 100}
	for i := 0; i < 5; i++ {
		go transfer(alice, bob, 10)
		go transfer(bob, alice, 10)
	}
	for range time.Tick(time.Second) {
		fmt.Println("still here")
	}
}
