package main

import (
	"bytes"
	"io"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/felixge/fgprof"
)

// Profilers inside the program, as a program that has one would run it.
var profilers = map[string]func(io.Writer) func() error{
	"fgprof": func(w io.Writer) func() error { return fgprof.Start(w, fgprof.FormatFolded) },
}

// inProcess is one of them.
type inProcess struct {
	finish  func() error
	profile bytes.Buffer
	began   time.Time
}

type ownProfile struct {
	Ticks int     `json:"ticks"`
	Hz    float64 `json:"hz"`
}

func (p *inProcess) start(name string) interface{} {
	p.profile.Reset()
	p.began = time.Now()
	p.finish = profilers[name](&p.profile)
	return map[string]bool{"started": true}
}

func (p *inProcess) stop() interface{} {
	seconds := time.Since(p.began).Seconds()
	if err := p.finish(); err != nil {
		return map[string]string{"error": err.Error()}
	}
	ticks := beaconCount(p.profile.String())
	return ownProfile{ticks, float64(ticks) / seconds}
}

func beaconCount(folded string) int {
	ticks := 0
	for _, line := range strings.Split(folded, "\n") {
		if strings.Contains(line, "main.beacon") {
			n, _ := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
			ticks += n
		}
	}
	return ticks
}

type counted struct{ bytes int64 }

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

func dumpSelf() interface{} {
	var out counted
	start := time.Now()
	if err := pprof.Lookup("goroutine").WriteTo(&out, 2); err != nil {
		return map[string]string{"error": err.Error()}
	}
	return map[string]interface{}{
		"ms":    float64(time.Since(start).Nanoseconds()) / 1e6,
		"bytes": out.bytes,
	}
}
