package main

import (
	"bytes"
	"math/rand"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// worker is the private state of a goroutine.
type worker struct {
	id     uint64
	round  uint16
	random *rand.Rand
	mutex  sync.Mutex
	wake   chan int
	pipe   [2]int
	sink   [][]byte
	table  *table
	phase  phase
	enough bool   // it shall rest now
	turn   func() // to the other side of iter.Pull
}

// table is shared by the two of a pair.
type table struct{ there, back chan bool }

// live is the start function of the workers.
func live(w *worker) {
	w.begin()
	for i := 0; i < *life; i++ {
		if w.random.Intn(100) < *grow {
			stretch(60)
		}
		w.walk(w.random.Intn(mixed))
	}
	go live(w)
}

// serve is the start function of that one of a pair which decides when to rest.
func serve(w *worker) {
	w.begin()
	for i := 0; i < *life; i++ {
		w.enough = w.phase.over()
		w.walk(kindServe)
		if w.enough {
			w.rest()
		}
	}
	go serve(w)
}

// answer is the start function of the other one.
func answer(w *worker) {
	w.begin()
	for i := 0; i < *life; i++ {
		w.walk(kindAnswer)
		if w.enough {
			w.rest()
		}
	}
	go answer(w)
}

// nap is the start function of the nappers.
func nap(w *worker) {
	w.begin()
	for i := 0; i < *life; i++ {
		w.walk(kindNap)
		if w.phase.over() {
			w.rest()
		}
	}
	go nap(w)
}

func (w *worker) begin() {
	w.id = goroutineID()
	w.round = 0
}

// walk goes down the twelve frames of a new round, and waits there.
func (w *worker) walk(kind int) {
	w.round++
	work := &walk{leaf: leaves[kind], state: w}
	work.spell(uint16(w.id), w.round*stir, uint16(kind))
	work.descend()
	atomic.AddUint64(&rounds, 1)
}

// stir is odd, so that each round has another product and other digits.
const stir = 0x9e37

func (w *worker) rest() {
	start := time.Now()
	w.phase.of.busy.add(start.Sub(w.phase.start))
	w.walk(kindRest)
	w.phase.start = time.Now()
	w.phase.of.rest.add(w.phase.start.Sub(start))
}

// spent is how long the goroutines of one kind were busy and at rest, up to their last rest.
type spent struct{ busy, rest total }

type total struct{ nanoseconds int64 }

func (t *total) add(d time.Duration) { atomic.AddInt64(&t.nanoseconds, int64(d)) }
func (t *total) sum() int64          { return atomic.LoadInt64(&t.nanoseconds) }

var ofPairs, ofNappers spent

// phase is a period of being busy; it outlives a goroutine.
type phase struct {
	of    *spent
	start time.Time
}

func (p phase) over() bool { return *rest > 0 && time.Since(p.start) >= *busy }

// goroutineID reads the id where the runtime shows it: "goroutine 18 [running]:".
func goroutineID() uint64 {
	buf := make([]byte, 64)
	text := bytes.Fields(buf[:runtime.Stack(buf, false)])[1]
	id, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		panic(err)
	}
	return id
}

// checksum is the 32-bit FNV-1a hash of three numbers, low byte first, folded to 16 bits.
func checksum(id, round, kind uint16) uint16 {
	hash := uint32(2166136261)
	for _, n := range [...]uint16{id, round, kind} {
		hash = (hash ^ uint32(n&0xff)) * 16777619
		hash = (hash ^ uint32(n>>8)) * 16777619
	}
	return uint16(hash>>16) ^ uint16(hash)
}

func (w *walk) spell(id, round, kind uint16) {
	for i, n := range [...]uint16{id, round, checksum(id, round, kind)} {
		for digit := 0; digit < 4; digit++ {
			w.path[i*4+digit] = byte(n>>(12-4*digit)) & 15
		}
	}
}
