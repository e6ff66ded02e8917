// Reads execution traces with Go's own reader, validator and summarizer, and prints what they make
// of each as a line of JSON. It is built inside a copy of the Go tree, whose packages are internal.
package main

import (
	"encoding/json"
	"fmt"
	"internal/trace"
	"internal/trace/testtrace"
	"internal/trace/version"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

type goroutine struct {
	Name     string                   `json:"name"`
	Running  time.Duration            `json:"running"`
	Runnable time.Duration            `json:"runnable"`
	Syscall  time.Duration            `json:"syscall"`
	Blocked  map[string]time.Duration `json:"blocked"`
	Ranges   map[string]time.Duration `json:"ranges"`
	Total    time.Duration            `json:"total"`
	Events   map[string]int           `json:"events"`
	Created  int64                    `json:"created"`
	Ended    int64                    `json:"ended"`
}

type stop struct {
	Name string `json:"name"`
	G    uint64 `json:"g"`
	NS   int64  `json:"ns"`
}

// machine is what began and ended in the trace, but for Ps: they are held since it began.
type machine struct {
	Stops      []stop           `json:"stops"`
	Cycles     []int64          `json:"cycles"` // ns
	Waits      int              `json:"waits"`  // of goroutines that could run
	Waited     int64            `json:"waited"`
	Longest    int64            `json:"longest"`
	Syscalls   int              `json:"syscalls"`
	InSyscalls int64            `json:"in_syscalls"`
	Assists    int              `json:"assists"` // also those that did not begin or end
	Assisted   int64            `json:"assisted"`
	Held       map[string]int64 `json:"held"`

	since   map[trace.GoID]trace.Time // the change to its state
	held    map[trace.ProcID]trace.Time
	ranges  map[string]trace.Time // by name and goroutine
	assists map[trace.GoID]trace.Time
	first   trace.Time
	last    trace.Time
}

func newMachine() *machine {
	return &machine{Stops: []stop{}, Cycles: []int64{}, Held: map[string]int64{}, since: map[trace.GoID]trace.Time{}, held: map[trace.ProcID]trace.Time{},
		ranges: map[string]trace.Time{}, assists: map[trace.GoID]trace.Time{}}
}

func (m *machine) goroutine(id trace.GoID, from, to trace.GoState, now trace.Time) {
	if id >= 1<<62 {
		return // gospect's own: it does what needs a goroutine
	}
	began, known := m.since[id]
	took := int64(now - began)
	if known && from == trace.GoRunnable && to == trace.GoRunning {
		m.Waits++
		m.Waited += took
		m.Longest = max(m.Longest, took)
	}
	if known && from == trace.GoSyscall && to != trace.GoNotExist {
		m.Syscalls++
		m.InSyscalls += took
	}
	if from == trace.GoUndetermined || (from == trace.GoNotExist && to == trace.GoSyscall) {
		delete(m.since, id)
	} else {
		m.since[id] = now
	}
	if to == trace.GoNotExist {
		m.endAssist(id, now)
		delete(m.since, id)
	}
}

func (m *machine) endAssist(id trace.GoID, now trace.Time) {
	if began, ok := m.assists[id]; ok {
		m.Assists++
		m.Assisted += int64(now - began)
		delete(m.assists, id)
	}
}

func (m *machine) proc(id trace.ProcID, from, to trace.ProcState, now trace.Time) {
	if from == trace.ProcUndetermined {
		now = m.first
	}
	if to == trace.ProcRunning {
		m.held[id] = now
	} else if began, ok := m.held[id]; ok {
		m.Held[fmt.Sprint(int64(id))] += int64(now - began)
		delete(m.held, id)
	}
}

func (m *machine) event(ev *trace.Event) {
	if m.first == 0 {
		m.first = ev.Time()
	}
	m.last = ev.Time()
	switch ev.Kind() {
	case trace.EventStateTransition:
		st := ev.StateTransition()
		if st.Resource.Kind == trace.ResourceGoroutine {
			if from, to := st.Goroutine(); from != to {
				m.goroutine(st.Resource.Goroutine(), from, to, ev.Time())
			}
		} else if st.Resource.Kind == trace.ResourceProc {
			if from, to := st.Proc(); from != to {
				m.proc(st.Resource.Proc(), from, to, ev.Time())
			}
		}
	case trace.EventRangeBegin, trace.EventRangeActive, trace.EventRangeEnd:
		m.rangeEvent(ev)
	}
}

func (m *machine) rangeEvent(ev *trace.Event) {
	name, scope := ev.Range().Name, ev.Range().Scope
	key := fmt.Sprint(name, scope)
	began, ok := m.ranges[key]
	assist := name == "GC mark assist" && scope.Kind == trace.ResourceGoroutine
	if ev.Kind() != trace.EventRangeEnd {
		if !ok && ev.Kind() == trace.EventRangeBegin {
			m.ranges[key] = ev.Time()
		}
		if assist {
			id := scope.Goroutine()
			if _, open := m.assists[id]; !open {
				m.assists[id] = ev.Time()
				if ev.Kind() == trace.EventRangeActive {
					m.assists[id] = m.first
				}
			}
		}
		return
	}
	delete(m.ranges, key)
	if assist {
		m.endAssist(scope.Goroutine(), ev.Time())
	}
	if ok && name == "GC concurrent mark phase" {
		m.Cycles = append(m.Cycles, int64(ev.Time()-began))
	}
	if ok && scope.Kind == trace.ResourceGoroutine && strings.HasPrefix(name, "stop-the-world") {
		m.Stops = append(m.Stops, stop{name, uint64(scope.Goroutine()), int64(ev.Time() - began)})
	}
}

func (m *machine) complete() {
	for id := range m.assists {
		m.endAssist(id, m.last)
	}
	for id, began := range m.held {
		m.Held[fmt.Sprint(int64(id))] += int64(m.last - began)
	}
}

type result struct {
	File       string                `json:"file"`
	Error      string                `json:"error,omitempty"`
	Events     int                   `json:"events"`
	First      int64                 `json:"first"`
	Last       int64                 `json:"last"`
	Goroutines map[uint64]*goroutine `json:"goroutines"`
	Procs      map[string]int        `json:"procs"`   // transitions of processors
	Ranges     map[string]int        `json:"ranges"`  // that began
	Metrics    map[string]int        `json:"metrics"` // values given
	Labels     map[string]int        `json:"labels"`
	Tasks      map[string]int        `json:"tasks"`
	Regions    map[string]int        `json:"regions"`
	Logs       map[string]int        `json:"logs"`
	Swept      uint64                `json:"swept"` // bytes
	Reasons    map[string]int        `json:"reasons"`
	Stacks     map[string][]string   `json:"stacks"` // one by kind of transition and reason
	Switches   map[string]int        `json:"switches"`
	Stood      map[uint64][]string   `json:"stood"`  // where goroutines were from the beginning on
	Clocks     [][2]int64            `json:"clocks"` // monotonic, and since 1970
	Machine    *machine              `json:"machine"`
	Samples    []sample              `json:"samples"`
}

// sample is a CPU sample.
type sample struct {
	G     int64    `json:"g"` // -1: none
	P     int64    `json:"p"` // likewise
	Funcs []string `json:"funcs"`
}

func newResult(file string) *result {
	return &result{File: file, Goroutines: map[uint64]*goroutine{}, Procs: map[string]int{}, Ranges: map[string]int{},
		Metrics: map[string]int{}, Labels: map[string]int{}, Tasks: map[string]int{}, Regions: map[string]int{},
		Logs: map[string]int{}, Reasons: map[string]int{}, Stacks: map[string][]string{}, Switches: map[string]int{}, Stood: map[uint64][]string{}, Machine: newMachine()}
}

func (r *result) goroutine(id trace.GoID) *goroutine {
	g := r.Goroutines[uint64(id)]
	if g == nil {
		g = &goroutine{Events: map[string]int{}}
		r.Goroutines[uint64(id)] = g
	}
	return g
}

func frames(s trace.Stack) []string {
	var names []string
	for f := range s.Frames() {
		names = append(names, f.Func)
	}
	return names
}

func (r *result) transition(ev *trace.Event) {
	st := ev.StateTransition()
	switch st.Resource.Kind {
	case trace.ResourceGoroutine:
		from, to := st.Goroutine()
		if from == to {
			return // said again, where a generation begins
		}
		if from == trace.GoUndetermined && st.Stack != trace.NoStack {
			r.Stood[uint64(st.Resource.Goroutine())] = frames(st.Stack)
		}
		name := fmt.Sprintf("%v->%v", from, to)

		key := name
		if st.Reason != "" {
			r.Reasons[st.Reason]++
			key += " " + st.Reason
		}
		if _, ok := r.Stacks[key]; !ok && ev.Stack() != trace.NoStack {
			r.Stacks[key] = frames(ev.Stack())
		}
		r.Switches[key]++
		r.goroutine(st.Resource.Goroutine()).Events[key]++
	case trace.ResourceProc:
		from, to := st.Proc()
		r.Procs[fmt.Sprintf("%v->%v", from, to)]++
	}
}

func (r *result) event(ev *trace.Event) {
	if r.Events == 0 {
		r.First = int64(ev.Time())
	}
	r.Last = int64(ev.Time())
	r.Machine.event(ev)
	r.Events++
	switch ev.Kind() {
	case trace.EventSync:
		if clocks := ev.Sync().ClockSnapshot; clocks != nil {
			r.Clocks = append(r.Clocks, [2]int64{int64(clocks.Mono), clocks.Wall.UnixNano()})
		}
	case trace.EventStateTransition:
		r.transition(ev)
	case trace.EventRangeBegin, trace.EventRangeActive:
		r.Ranges[ev.Range().Name]++
	case trace.EventRangeEnd:
		for _, a := range ev.RangeAttributes() {
			if a.Name == "bytes swept" {
				r.Swept += a.Value.Uint64()
			}
		}
	case trace.EventStackSample:
		r.Samples = append(r.Samples, sample{int64(ev.Goroutine()), int64(ev.Proc()), frames(ev.Stack())})
	case trace.EventMetric:
		r.Metrics[ev.Metric().Name]++
	case trace.EventLabel:
		r.Labels[ev.Label().Label]++
	case trace.EventTaskBegin:
		r.Tasks[ev.Task().Type]++
	case trace.EventRegionBegin:
		r.Regions[ev.Region().Type]++
	case trace.EventLog:
		r.Logs[ev.Log().Category+"="+ev.Log().Message]++
	}
}

func (r *result) summarize(s *trace.Summarizer) {
	for id, sum := range s.Finalize().Goroutines {
		g := r.goroutine(id)
		g.Name, g.Running, g.Runnable = sum.Name, sum.ExecTime, sum.SchedWaitTime
		g.Syscall = sum.SyscallTime + sum.SyscallBlockTime
		g.Blocked, g.Ranges, g.Total = sum.BlockTimeByReason, sum.RangeTime, sum.TotalTime
		g.Created, g.Ended = int64(sum.CreationTime), int64(sum.EndTime)
	}
}

func (r *result) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	reader, err := trace.NewReader(f)
	if err != nil {
		return err
	}
	validator := testtrace.NewValidator()
	// As the header says: what came later is not asked for.
	validator.GoVersion = version.Go122
	if os.Getenv("NEWER") != "" {
		validator.GoVersion = version.Current
	}
	if wire, err := strconv.Atoi(os.Getenv("WIRE")); err == nil {
		validator.GoVersion = version.Version(wire)
	}
	summarizer := trace.NewSummarizer()
	for {
		ev, err := reader.ReadEvent()
		if err == io.EOF {
			r.summarize(summarizer)
			r.Machine.complete()
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d events: %w", r.Events, err)
		}
		if err := validator.Event(ev); err != nil && os.Getenv("NEWER") == "" {
			return fmt.Errorf("event %d, %v: %w", r.Events, ev, err)
		}
		r.event(&ev)
		summarizer.Event(&ev)
	}
}

func main() {
	out := json.NewEncoder(os.Stdout)
	for _, file := range os.Args[1:] {
		r := newResult(file)
		if err := r.read(file); err != nil {
			r.Error = err.Error()
		}
		out.Encode(r)
	}
}
