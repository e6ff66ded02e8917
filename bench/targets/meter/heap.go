package main

import (
	"os"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"time"
)

type node struct {
	next *node
	data [56]byte
}

// fillHeap gives the garbage collector something to do: a list of 64-byte objects.
func fillHeap(mb int) *node {
	var head *node
	for i := 0; i < mb<<20/64; i++ {
		head = &node{next: head}
	}
	return head
}

type leaf struct {
	left, right *leaf
	key         int
	value       interface{}
}

type record struct {
	name   string
	tags   []string
	parent *record
	body   []byte
}

// A mixture is what a program keeps: an index of records with strings and slices, balanced trees,
// and buffers. Each takes about a third of the bytes.
type mixture struct {
	index   map[string]*record
	trees   []*leaf
	buffers [][]byte
}

const (
	recordBytes = 220 // with its entry in the index
	treeNodes   = 1<<10 - 1
	treeBytes   = treeNodes * 48
	bufferBytes = 4096
)

func balanced(depth, key int) *leaf {
	if depth == 0 {
		return nil
	}
	return &leaf{balanced(depth-1, 2*key), balanced(depth-1, 2*key+1), key, nil}
}

func fillMixture(mb int) *mixture {
	third := mb << 20 / 3
	m := &mixture{index: map[string]*record{}}
	var parent *record
	for i := 0; i < third/recordBytes; i++ {
		name := "record " + strconv.Itoa(i)
		parent = &record{name, []string{name, "x"}, parent, make([]byte, 64)}
		if i%100 == 0 {
			parent.parent = nil
		}
		m.index[name] = parent
	}
	for i := 0; i < third/treeBytes; i++ {
		m.trees = append(m.trees, balanced(10, 1))
	}
	for i := 0; i < third/bufferBytes; i++ {
		buffer := make([]byte, bufferBytes)
		buffer[0] = 1 // so that its page is resident
		m.buffers = append(m.buffers, buffer)
	}
	return m
}

func fill(mb int, mixed bool) interface{} {
	if mixed {
		return fillMixture(mb)
	}
	return fillHeap(mb)
}

func took(start time.Time, bytes int64, err error) interface{} {
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return map[string]interface{}{
		"ms":    float64(time.Since(start).Nanoseconds()) / 1e6,
		"bytes": bytes,
	}
}

func profileHeap() interface{} {
	var out counted
	start := time.Now()
	err := pprof.Lookup("heap").WriteTo(&out, 0)
	return took(start, out.bytes, err)
}

func dumpHeap(path string) interface{} {
	file, err := os.Create(path)
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	defer file.Close()
	start := time.Now()
	debug.WriteHeapDump(file.Fd())
	about, err := file.Stat()
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return took(start, about.Size(), nil)
}
