package main

import (
	"os"
	"runtime/trace"
)

// ownTrace is the runtime's own execution tracer, writing to a file or to nowhere.
type ownTrace struct {
	out  counted
	file *os.File
}

func (t *ownTrace) start(path string) interface{} {
	t.out, t.file = counted{}, nil
	err := t.open(path)
	if err == nil && t.file != nil {
		err = trace.Start(t.file)
	} else if err == nil {
		err = trace.Start(&t.out)
	}
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return map[string]bool{"started": true}
}

func (t *ownTrace) open(path string) (err error) {
	if path != "" {
		t.file, err = os.Create(path)
	}
	return err
}

func (t *ownTrace) stop() interface{} {
	trace.Stop()
	if t.file != nil {
		if err := t.file.Close(); err != nil {
			return map[string]string{"error": err.Error()}
		}
	}
	return map[string]int64{"bytes": t.out.bytes}
}
