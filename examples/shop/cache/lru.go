// Package cache keeps the pages that were asked for last.
package cache

import (
	"sync"
	"sync/atomic"
)

type entry struct {
	page []byte
	used int64 // the cache's clock when it was last asked for; atomic
}

// An LRU serves many readers at once: a hit takes the read lock and a counter. Only an eviction
// scans all entries, with the write lock.
type LRU struct {
	size  int
	clock int64 // atomic
	mu    sync.RWMutex
	pages map[int]*entry
}

func New(size int) *LRU {
	return &LRU{size: size, pages: make(map[int]*entry, size)}
}

func (c *LRU) Get(key int) ([]byte, bool) {
	c.mu.RLock()
	e := c.pages[key]
	c.mu.RUnlock()
	if e == nil {
		return nil, false
	}
	atomic.StoreInt64(&e.used, atomic.AddInt64(&c.clock, 1))
	return e.page, true
}

func (c *LRU) Put(key int, page []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pages) >= c.size {
		c.evict()
	}
	c.pages[key] = &entry{page, atomic.AddInt64(&c.clock, 1)}
}

// Forget drops everything.
func (c *LRU) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages = make(map[int]*entry, c.size)
}

func (c *LRU) evict() {
	oldest, key := int64(-1), 0
	for k, e := range c.pages {
		if used := atomic.LoadInt64(&e.used); oldest < 0 || used < oldest {
			oldest, key = used, k
		}
	}
	delete(c.pages, key)
}
