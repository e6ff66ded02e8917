// Program crowd has many goroutines in 20 places. Some stay, and some move from place to place.
//
// It prints "ready PID" when all are where they belong, and obeys lines on standard input:
//
//	check   "ok N"
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"
)

var count = flag.Int("goroutines", 100000, "how many")

// One in this many moves from place to place.
const moving = 50

func main() {
	flag.Parse()
	var begun sync.WaitGroup
	never := make(chan int)
	for i := 0; i < *count; i++ {
		begun.Add(1)
		if i%moving == 0 {
			go wander(uint64(i)*0x9e3779b97f4a7c15+1, begun.Done)
			continue
		}
		// Neighbours are alike, and the later places have more.
		place := i / 100 % 210
		for k := range places {
			if place -= k + 1; place < 0 {
				go settle(k, never, begun.Done)
				break
			}
		}
	}
	begun.Wait()
	time.Sleep(200 * time.Millisecond)
	fmt.Printf("ready %d\n", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "check" {
			fmt.Printf("ok %d\n", *count)
		}
	}
}

func settle(place int, never chan int, begun func()) {
	begun()
	places[place](never, 0)
}

// wander stays in a place for 0.2 to 4 seconds, in the first ones more often.
func wander(random uint64, begun func()) {
	begun()
	for {
		random ^= random << 13
		random ^= random >> 7
		random ^= random << 17
		place := random % 20 * (random >> 32 % 20) / 20
		places[place](nil, time.Duration(200+random>>40%3800)*time.Millisecond)
	}
}

// stay waits for the channel, or for a time.
func stay(never chan int, d time.Duration) {
	if never != nil {
		<-never
	}
	time.Sleep(d)
}
