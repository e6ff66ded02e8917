package main

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	subBits     = 5 // buckets 3 % apart
	bucketCount = 64 << subBits
)

// A counter belongs to one goroutine, which alone adds; others read.
type counter struct {
	ops     uint64
	buckets [bucketCount]uint64
}

func (c *counter) op() {
	atomic.AddUint64(&c.ops, 1)
}

func (c *counter) took(d time.Duration) {
	atomic.AddUint64(&c.buckets[bucketOf(uint64(d))], 1)
}

func bucketOf(ns uint64) int {
	if ns < 1<<subBits {
		return int(ns)
	}
	shift := bits.Len64(ns) - subBits - 1
	return shift<<subBits + int(ns>>shift)
}

// bucketUpper is the largest number of nanoseconds that bucketOf puts there.
func bucketUpper(i int) uint64 {
	if i < 2<<subBits {
		return uint64(i)
	}
	shift := i>>subBits - 1
	return uint64(i-shift<<subBits+1)<<shift - 1
}

// Counts are sums over counters, at one moment or between two.
type counts struct {
	ops     uint64
	buckets [bucketCount]uint64
}

func (s *counts) add(c *counter) {
	s.ops += atomic.LoadUint64(&c.ops)
	for i := range c.buckets {
		s.buckets[i] += atomic.LoadUint64(&c.buckets[i])
	}
}
