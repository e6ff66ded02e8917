// Package gospect lets a program look at itself with gospect: a wall-clock profile of all of its goroutines, an
// execution trace, the slow requests and the leaked goroutines.
//
// The package carries the command gospect for linux/amd64 and linux/arm64. The command runs as a child process and
// reads this process from outside, so the program needs no cgo, and Start never stops the world. Trace and Requests
// put a small agent into this process while they record, as "gospect trace" does.
//
// Start and Handler have the signatures of github.com/felixge/fgprof:
//
//	import fgprof "gospect.example/gospect"
//
// Importing the package, also as _, registers its pages below /debug/gospect/ in http.DefaultServeMux.
//
// Where gospect cannot run - another system, no right to read the process, no file for the command - Start writes
// one goroutine profile of the runtime instead and tells Warn why.
package gospect

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"time"
)

// Format is what a profile is written as.
type Format string

// The formats of Start. The fallback knows FormatPprof and FormatFolded.
const (
	FormatFolded     Format = "folded"     // one line a stack, for flamegraph.pl and the like
	FormatPprof      Format = "pprof"      // for go tool pprof
	FormatHTML       Format = "html"       // one page: a flame graph with a time axis
	FormatSpeedscope Format = "speedscope" // for speedscope.app
	FormatFirefox    Format = "firefox"    // for profiler.firefox.com
)

// Warn is told why gospect could not look at the process, when Start wrote the runtime's goroutine profile instead.
// Set it before the first use of the package.
var Warn = func(reason error) {
	log.Printf("gospect: %v; wrote the runtime's goroutine profile instead", reason)
}

// Start begins a wall-clock profile of all goroutines, running and waiting, 100 times a second. The function that it
// returns ends the profile and writes it to w, in one piece. Its error is of writing, or of a format that the
// fallback cannot write.
func Start(w io.Writer, format Format) func() error {
	stop := start(w, format)
	return func() error {
		reason, err := stop()
		if reason != nil {
			Warn(reason)
		}
		return err
	}
}

// start is Start; its function also gives why the runtime's profile was written, if it was.
func start(w io.Writer, format Format) func() (reason, err error) {
	c, refused := begin("record", "-f", string(format), "-o", "-")
	return func() (error, error) {
		reason := refused
		if reason == nil {
			reason = c.end(w)
		}
		if _, failed := reason.(*writeError); failed {
			return nil, reason
		}
		if reason == nil {
			return nil, nil
		}
		return reason, goroutineProfile(w, format, reason)
	}
}

// Trace begins an execution trace for go tool trace. The function that it returns ends the trace and writes it to w.
// The process is stopped twice, for a fraction of a millisecond each with few threads.
func Trace(w io.Writer) (stop func() error) {
	c, err := begin("trace", "-f", "go", "-o", "-")
	return func() error {
		if err != nil {
			return err
		}
		return c.end(w)
	}
}

// Request is one call of an HTTP or gRPC handler and where its time went. Begin and End are since the beginning of
// the recording. Fields that are not known are empty.
type Request struct {
	Name      string                   `json:"name"` // of the handler
	Method    string                   `json:"method"`
	Path      string                   `json:"path"`
	Route     string                   `json:"route"`
	Status    int                      `json:"status"`
	Peer      string                   `json:"peer"`
	TraceID   string                   `json:"trace_id"`
	SpanID    string                   `json:"span_id"`
	Goroutine uint64                   `json:"goroutine"`
	Whole     bool                     `json:"whole"` // it began and ended in the recording
	Begin     time.Duration            `json:"begin_ns"`
	End       time.Duration            `json:"end_ns"`
	Elapsed   time.Duration            `json:"elapsed_ns"`
	Running   time.Duration            `json:"running_ns"`
	Runnable  time.Duration            `json:"runnable_ns"`
	Syscall   time.Duration            `json:"syscall_ns"`
	Waiting   time.Duration            `json:"waiting_ns"`
	Waits     map[string]time.Duration `json:"waits"` // Waiting, by wait reason
	Stacks    []Stack                  `json:"stacks"`
}

// Stack is where a request spent time.
type Stack struct {
	State  string        `json:"state"` // running, runnable, syscall or waiting
	Wait   string        `json:"wait"`  // the wait reason, of a stack that waits
	Time   time.Duration `json:"ns"`
	Count  uint64        `json:"count"`
	Frames []Frame       `json:"frames"` // innermost first
}

// Frame is a function on a stack.
type Frame struct {
	Func string `json:"func"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// Requests records the requests of the next d, the slowest first. It stops the process as Trace does.
func Requests(d time.Duration) ([]Request, error) {
	var rows []Request
	err := run(&rows, "offcpu", "--by", "request", "-n", "0", "-d", d.String())
	return rows, err
}

// Leak is a set of goroutines of one creation site that nothing can wake any more.
type Leak struct {
	CreatedBy     json.RawMessage `json:"created_by"`
	Count         uint64          `json:"count"`
	Goroutines    json.RawMessage `json:"goroutines"`
	WaitsFor      json.RawMessage `json:"waits_for"`
	RetainedBytes uint64          `json:"retained_bytes"`
	Why           string          `json:"why"`
}

// Leaks gives the goroutines that nothing can wake any more, and those that probably nothing will wake.
func Leaks() (leaked, suspects []Leak, err error) {
	var found struct {
		Leaked   []Leak `json:"leaked"`
		Suspects []Leak `json:"suspects"`
	}
	err = run(&found, "leaks")
	return found.Leaked, found.Suspects, err
}

// run runs a verb on this process to its end and decodes its JSON.
func run(into interface{}, verb string, options ...string) error {
	c, err := begin(verb, append(options, "-f", "json", "-o", "-")...)
	if err != nil {
		return err
	}
	out, err := c.wait()
	if err != nil {
		return err
	}
	defer out.Close()
	if err := json.NewDecoder(out).Decode(into); err != nil {
		return fmt.Errorf("cannot read what gospect %s wrote: %w", verb, err)
	}
	return nil
}

func self() string {
	return strconv.Itoa(os.Getpid())
}
