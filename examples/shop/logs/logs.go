// Package logs writes lines without making the caller wait for the disk: a goroutine writes what
// is in a buffered channel, and lines that find it full are counted instead of kept.
package logs

import (
	"bufio"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

type Logger struct {
	lines   chan string
	quit    chan struct{}
	stopped chan struct{}
	dropped int64 // atomic
}

func New(out io.Writer) *Logger {
	l := &Logger{
		lines:   make(chan string, 256),
		quit:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	go l.write(bufio.NewWriter(out))
	return l
}

func (l *Logger) Printf(format string, args ...interface{}) {
	line := time.Now().Format("15:04:05.000 ") + fmt.Sprintf(format, args...) + "\n"
	select {
	case l.lines <- line:
	default:
		atomic.AddInt64(&l.dropped, 1)
	}
}

// Close writes what is there. Lines that come later are lost.
func (l *Logger) Close() {
	close(l.quit)
	<-l.stopped
}

func (l *Logger) write(out *bufio.Writer) {
	defer close(l.stopped)
	defer out.Flush()
	flush := time.NewTicker(200 * time.Millisecond)
	defer flush.Stop()
	for {
		select {
		case line := <-l.lines:
			_, _ = out.WriteString(line)
		case <-flush.C:
			if n := atomic.SwapInt64(&l.dropped, 0); n > 0 {
				fmt.Fprintf(out, "log: %d lines dropped\n", n)
			}
			out.Flush()
		case <-l.quit:
			l.drain(out)
			return
		}
	}
}

func (l *Logger) drain(out *bufio.Writer) {
	for {
		select {
		case line := <-l.lines:
			_, _ = out.WriteString(line)
		default:
			return
		}
	}
}
