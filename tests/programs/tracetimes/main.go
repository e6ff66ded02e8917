// Program tracetimes reads an execution trace of program ledger and says, for each region, how long
// its goroutines were in which state, as JSON: {region: {state: ns}}. A state is running, runnable,
// syscall, or why the goroutine waited, in the runtime's words.
//
//	tracetimes FILE FROM TO      (ns since 1970)
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/exp/trace"
)

// goroutine is the state of a goroutine while the trace is read.
type goroutine struct {
	regions []string // innermost last
	state   string
	since   trace.Time
}

// clock is a time that the program logged, and the trace's time then.
type clock struct {
	wall int64
	at   trace.Time
}

// step is a period of a goroutine in one state and one region.
type step struct {
	region, state string
	from, to      trace.Time
}

type reading struct {
	goroutines map[trace.GoID]*goroutine
	clocks     []clock
	steps      []step
}

func main() {
	if len(os.Args) != 4 {
		fail("usage: tracetimes FILE FROM TO")
	}
	from, err1 := strconv.ParseInt(os.Args[2], 10, 64)
	to, err2 := strconv.ParseInt(os.Args[3], 10, 64)
	file, err3 := os.Open(os.Args[1])
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			fail(err)
		}
	}
	r, err := read(bufio.NewReaderSize(file, 1<<20))
	if err != nil {
		fail(err)
	}
	if len(r.clocks) < 2 {
		fail("the trace says less than twice what time it was")
	}
	json.NewEncoder(os.Stdout).Encode(r.sum(r.traceTime(from), r.traceTime(to)))
}

func fail(why interface{}) {
	fmt.Fprintln(os.Stderr, "tracetimes:", why)
	os.Exit(1)
}

func read(in io.Reader) (*reading, error) {
	reader, err := trace.NewReader(in)
	if err != nil {
		return nil, err
	}
	r := &reading{goroutines: map[trace.GoID]*goroutine{}}
	for {
		e, err := reader.ReadEvent()
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		r.take(e)
	}
}

func (r *reading) take(e trace.Event) {
	switch e.Kind() {
	case trace.EventLog:
		if log := e.Log(); log.Category == "clock" {
			wall, _ := strconv.ParseInt(log.Message, 10, 64)
			r.clocks = append(r.clocks, clock{wall, e.Time()})
		}
	case trace.EventRegionBegin:
		g := r.end(e.Goroutine(), e.Time())
		g.regions = append(g.regions, e.Region().Type)
	case trace.EventRegionEnd:
		g := r.end(e.Goroutine(), e.Time())
		if n := len(g.regions); n > 0 {
			g.regions = g.regions[:n-1]
		}
	case trace.EventStateTransition:
		t := e.StateTransition()
		if t.Resource.Kind != trace.ResourceGoroutine {
			return
		}
		g := r.end(t.Resource.Goroutine(), e.Time())
		_, state := t.Goroutine()
		g.state = strings.ToLower(state.String())
		if state == trace.GoWaiting {
			g.state = t.Reason
		}
	}
}

// end ends the step that the goroutine is in.
func (r *reading) end(id trace.GoID, now trace.Time) *goroutine {
	g := r.goroutines[id]
	if g == nil {
		g = &goroutine{}
		r.goroutines[id] = g
	}
	if n := len(g.regions); n > 0 && g.state != "" {
		r.steps = append(r.steps, step{g.regions[n-1], g.state, g.since, now})
	}
	g.since = now
	return g
}

// traceTime is the trace's time at that moment, by the first and the last of the program's clocks.
func (r *reading) traceTime(wall int64) trace.Time {
	a, b := r.clocks[0], r.clocks[len(r.clocks)-1]
	rate := float64(b.at-a.at) / float64(b.wall-a.wall)
	return a.at + trace.Time(float64(wall-a.wall)*rate)
}

func (r *reading) sum(from, to trace.Time) map[string]map[string]int64 {
	ret := map[string]map[string]int64{}
	for _, s := range r.steps {
		a, b := max(s.from, from), min(s.to, to)
		if a >= b {
			continue
		}
		if ret[s.region] == nil {
			ret[s.region] = map[string]int64{}
		}
		ret[s.region][s.state] += int64(b - a)
	}
	return ret
}
