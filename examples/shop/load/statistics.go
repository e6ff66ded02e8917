package load

import (
	"fmt"
	"io"
	"sort"
	"sync"
	"time"
)

type statistics struct {
	mu     sync.Mutex
	start  time.Time
	routes map[string]*route
}

type route struct {
	times  []time.Duration
	failed int
}

func newStatistics() *statistics {
	return &statistics{start: time.Now(), routes: map[string]*route{}}
}

func (s *statistics) at(name string) *route {
	r := s.routes[name]
	if r == nil {
		r = &route{}
		s.routes[name] = r
	}
	return r
}

func (s *statistics) answered(name string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.at(name)
	r.times = append(r.times, took)
}

func (s *statistics) failed(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at(name).failed++
}

func (s *statistics) print(out io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.routes {
		names = append(names, name)
	}
	sort.Strings(names)
	seconds := time.Since(s.start).Seconds()
	fmt.Fprintf(out, "%-10s %8s %9s %9s %9s %9s %7s\n", "route", "per sec", "mean", "p50", "p95", "max", "failed")
	for _, name := range names {
		r := s.routes[name]
		fmt.Fprintf(out, "%-10s %8.1f %9s %9s %9s %9s %7d\n", name, float64(len(r.times))/seconds,
			milliseconds(r.mean()), milliseconds(r.quantile(0.5)), milliseconds(r.quantile(0.95)),
			milliseconds(r.quantile(1)), r.failed)
	}
}

func (r *route) mean() time.Duration {
	sum := time.Duration(0)
	for _, t := range r.times {
		sum += t
	}
	if len(r.times) == 0 {
		return 0
	}
	return sum / time.Duration(len(r.times))
}

func (r *route) quantile(q float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	sort.Slice(r.times, func(i, j int) bool { return r.times[i] < r.times[j] })
	return r.times[int(q*float64(len(r.times)-1))]
}

func milliseconds(t time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(t)/1e6)
}
