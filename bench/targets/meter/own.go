package main

import (
	"bytes"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/felixge/fgprof"
)

// inProcess is a profiler inside the program: fgprof, as a program that has it would run it.
type inProcess struct {
	finish  func() error
	profile bytes.Buffer
	began   time.Time
}

type ownProfile struct {
	Ticks int     `json:"ticks"`
	Hz    float64 `json:"hz"`
}

func (p *inProcess) start() interface{} {
	p.profile.Reset()
	p.began = time.Now()
	p.finish = fgprof.Start(&p.profile, fgprof.FormatFolded)
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
