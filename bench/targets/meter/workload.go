package main

import (
	"fmt"
	"sort"
	"syscall"
	"time"
)

// A workload is some goroutines, each with a counter of its own that counts up for ever.
type workload struct {
	counters []*counter
	from     moment // of the last begin
}

// A moment is what was counted up to it.
type moment struct {
	wall time.Time
	cpu  int64
	sums counts
}

func (w *workload) now() moment { return moment{time.Now(), cpuTime(), w.snapshot()} }

func startWorkload(name string) (*workload, error) {
	start := map[string]func(*workload) error{
		"none":     func(*workload) error { return nil },
		"http":     startHTTP,
		"paced":    startPaced,
		"json":     startJSON,
		"pingpong": startPingPong,
		"deep":     startDeepPingPong,
		"yield":    startYield,
		"flood":    startFlood,
		"syscalls": startSyscalls,
	}[name]
	if start == nil {
		return nil, fmt.Errorf("no such workload: %s", name)
	}
	w := &workload{}
	if err := start(w); err != nil {
		return nil, err
	}
	time.Sleep(200 * time.Millisecond)
	return w, nil
}

func (w *workload) counter() *counter {
	c := &counter{}
	w.counters = append(w.counters, c)
	return c
}

// A slice is what happened between two moments.
type slice struct {
	Ops    uint64  `json:"ops"`
	WallNs int64   `json:"wall_ns"`
	CPUNs  int64   `json:"cpu_ns"` // of the whole process
	P50Us  float64 `json:"p50_us"`
	P999Us float64 `json:"p999_us"`
	MaxUs  float64 `json:"max_us"`
}

func (w *workload) slice(d time.Duration) slice {
	w.begin()
	time.Sleep(d)
	return w.end()
}

func (w *workload) begin() { w.from = w.now() }

func (w *workload) end() slice {
	after := w.now()
	s := slice{WallNs: after.wall.Sub(w.from.wall).Nanoseconds(), CPUNs: after.cpu - w.from.cpu}
	for i := range after.sums.buckets {
		after.sums.buckets[i] -= w.from.sums.buckets[i]
	}
	s.Ops = after.sums.ops - w.from.sums.ops
	s.P50Us, s.P999Us, s.MaxUs = after.sums.quantile(0.5), after.sums.quantile(0.999), after.sums.quantile(1)
	return s
}

func (w *workload) snapshot() (sum counts) {
	for _, c := range w.counters {
		sum.add(c)
	}
	return sum
}

func (c *counts) quantile(q float64) float64 {
	cumulated := make([]uint64, len(c.buckets))
	total := uint64(0)
	for i, n := range c.buckets {
		total += n
		cumulated[i] = total
	}
	if total == 0 {
		return 0
	}
	want := uint64(q*float64(total-1)) + 1
	i := sort.Search(len(cumulated), func(i int) bool { return cumulated[i] >= want })
	return float64(bucketUpper(i)) / 1000
}

func cpuTime() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
