// A heap of a given size: small objects that point to each other, and leaked goroutines. A goroutine
// changes objects anywhere in it, and measures each of its operations.
//
//	held -megabytes N
//
// "start" begins to count; "stop" prints one line of JSON.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"sync"
	"time"
)

const (
	leaked     = 1000
	nodesEach  = 1 << 16
	touches    = 20
	bucketUnit = time.Microsecond
	buckets    = 1 << 20 // to a second
)

type node struct {
	next  *node
	value [4]uint64
	name  *string
}

type account struct {
	Ops       uint64  `json:"ops"`
	Seconds   float64 `json:"seconds"`
	P999us    float64 `json:"p999_us"`
	Longestus float64 `json:"longest_us"`
}

var (
	parts [][]*node
	lock  sync.Mutex
	times [buckets]uint32
	began time.Time
)

func build(megabytes int) {
	name := "node"
	for made := 0; made < megabytes<<20; made += nodesEach * 56 {
		part := make([]*node, nodesEach)
		for i := range part {
			part[i] = &node{name: &name}
			if i > 0 {
				part[i].next = part[rand.Intn(i)]
			}
		}
		parts = append(parts, part)
	}
}

func leak() {
	for i := 0; i < leaked; i++ {
		c := make(chan int)
		go func() { c <- 1 }()
	}
}

// work does some 1,000 operations a second, each on objects that are far apart.
func work() {
	random := rand.New(rand.NewSource(1))
	for {
		start := time.Now()
		for i := 0; i < touches; i++ {
			part := parts[random.Intn(len(parts))]
			part[random.Intn(len(part))].value[0]++
		}
		at := int(time.Since(start) / bucketUnit)
		if at >= buckets {
			at = buckets - 1
		}
		lock.Lock()
		times[at]++
		lock.Unlock()
		time.Sleep(time.Millisecond)
	}
}

func stop() account {
	lock.Lock()
	defer lock.Unlock()
	a := account{Seconds: time.Since(began).Seconds()}
	for _, n := range times {
		a.Ops += uint64(n)
	}
	seen := uint64(0)
	for at, n := range times {
		if n == 0 {
			continue
		}
		seen += uint64(n)
		if a.P999us == 0 && seen*1000 >= a.Ops*999 {
			a.P999us = float64(at + 1)
		}
		a.Longestus = float64(at + 1)
	}
	return a
}

func main() {
	megabytes := flag.Int("megabytes", 100, "of the heap")
	flag.Parse()
	build(*megabytes)
	leak()
	go work()
	fmt.Println("ready", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "start" {
			lock.Lock()
			times, began = [buckets]uint32{}, time.Now()
			lock.Unlock()
			continue
		}
		line, _ := json.Marshal(stop())
		fmt.Println(string(line))
	}
}
