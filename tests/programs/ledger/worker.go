package main

import (
	"context"
	"runtime/trace"
	"sync"
	"time"
)

// stay is one stay in a place.
type stay struct {
	place    string
	from, to time.Duration // since start; to is 0 while it lasts
	cpu      int64         // ns that its thread used, when that is known
}

type worker struct {
	kind   string
	random uint64
	cpu    func() int64 // of its own thread; nil: its thread is not its own

	sync.Mutex // of stays
	stays      []stay
	region     *trace.Region
}

var start = time.Now()

func (w *worker) cpuNow() int64 {
	if w.cpu == nil {
		return 0
	}
	return w.cpu()
}

func (w *worker) enter(place string) {
	w.region = trace.StartRegion(context.Background(), w.kind+" "+place)
	now, cpu := time.Since(start), w.cpuNow()
	w.Lock()
	w.stays = append(w.stays, stay{place: place, from: now, cpu: -cpu})
	w.Unlock()
}

func (w *worker) leave() {
	now, cpu := time.Since(start), w.cpuNow()
	w.Lock()
	last := &w.stays[len(w.stays)-1]
	last.to = now
	last.cpu += cpu
	w.Unlock()
	w.region.End()
}

// between is a random time, uniformly.
func (w *worker) between(least, most time.Duration) time.Duration {
	w.random ^= w.random << 13
	w.random ^= w.random >> 7
	w.random ^= w.random << 17
	return least + time.Duration(w.random%uint64(most-least))
}

// spent is what was spent in a place.
type spent struct {
	Wall  int64 `json:"wall"`
	CPU   int64 `json:"cpu"`
	Stays int   `json:"stays"`
}

// times gives, by kind and place, what was spent between two moments, in ns since 1970.
func times(workers map[string][]*worker, from, to int64) map[string]map[string]*spent {
	now := time.Since(start)
	zero := time.Now().UnixNano() - int64(now)
	ret := map[string]map[string]*spent{}
	for kind, all := range workers {
		ret[kind] = map[string]*spent{}
		for _, w := range all {
			w.add(ret[kind], time.Duration(from-zero), time.Duration(to-zero), now)
		}
	}
	return ret
}

func (w *worker) add(total map[string]*spent, from, to, now time.Duration) {
	w.Lock()
	defer w.Unlock()
	for _, s := range w.stays {
		lasting := s.to == 0
		if lasting {
			s.to = now
		}
		a, b := s.from, s.to
		if a < from {
			a = from
		}
		if b > to {
			b = to
		}
		if a >= b {
			continue
		}
		if total[s.place] == nil {
			total[s.place] = &spent{}
		}
		t := total[s.place]
		t.Wall += int64(b - a)
		t.Stays++
		if !lasting {
			t.CPU += int64(float64(s.cpu) * float64(b-a) / float64(s.to-s.from))
		}
	}
}
