package main

import (
	"debug/dwarf"
	"debug/elf"
	"io"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"time"
)

const (
	bucketBytes = 512
	spanBytes   = 256
	arenaShift  = 26
)

// node has more than 512 bytes, so that in newer versions its type lies before it.
type node struct {
	next  *node
	words [80]*node
	name  string
}

var nodes []*node

// fill gives the runtime a heap profile, one of blocking and one of mutexes, and objects of several kinds.
func fill() {
	runtime.MemProfileRate = 4096
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	for i := 0; i < 2000; i++ {
		n := &node{name: string(make([]byte, 1+i%64))}
		if i > 0 {
			n.next = nodes[i/2]
			n.words[i%80] = nodes[i-1]
		}
		nodes = append(nodes, n)
	}
	runtime.MemProfileRate = 1 << 30 // the runtime would find the lies at once
	if pprof.Lookup("heap").WriteTo(io.Discard, 1) != nil {
		panic("no heap profile")
	}
}

// offsets of these fields, "runtime.mheap.allspans", by DWARF.
func fields(names ...string) map[string]uintptr {
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	data, err := file.DWARF()
	if err != nil {
		panic(err)
	}
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	found := map[string]uintptr{}
	for r := data.Reader(); len(found) < len(names); {
		entry, err := r.Next()
		if err != nil || entry == nil {
			panic("a field is missing")
		}
		if name, _ := entry.Val(dwarf.AttrName).(string); entry.Tag == dwarf.TagStructType &&
			(name == "runtime.mheap" || name == "runtime.heapArena" || name == "runtime.bucket") {
			t, _ := data.Type(entry.Offset)
			for _, f := range t.(*dwarf.StructType).Field {
				if wanted[name+"."+f.Name] {
					found[name+"."+f.Name] = uintptr(f.ByteOffset)
				}
			}
		}
	}
	return found
}

// buckets replaces a list of what was allocated or waited for by one of copies that change.
func (l *liar) buckets() {
	next := fields("runtime.bucket.allnext")["runtime.bucket.allnext"]
	made := memory(count*bucketBytes, 0x22, ^uintptr(0))
	first := word(l.at[[]string{"runtime.mbuckets", "runtime.bbuckets", "runtime.xbuckets"}[l.Intn(3)]])
	n := 0
	for b := uintptr(*first); b != 0 && n < count; n++ {
		copied := made + uintptr(n*bucketBytes)
		for o := uintptr(0); o < bucketBytes; o += 8 {
			*word(copied + o) = *word(b + o)
		}
		b = uintptr(*word(b + next))
		*word(copied + next) = uint64(copied + bucketBytes)
	}
	if n == 0 {
		return
	}
	*word(made + uintptr((n-1)*bucketBytes) + next) = uint64(made) // a circle
	atomic.StoreUint64(first, uint64(made))
	for {
		for i := 0; i < 10; i++ {
			*word(made + uintptr(l.Intn(n)*bucketBytes+8*l.Intn(bucketBytes/8))) = l.value()
		}
		time.Sleep(time.Millisecond)
	}
}

// spans replaces the list of spans likewise, and invents spans of pages that have none.
func (l *liar) spans() {
	at := fields("runtime.mheap.allspans", "runtime.mheap.arenas", "runtime.heapArena.spans")
	list := word(l.at["runtime.mheap_"] + at["runtime.mheap.allspans"])
	length := word(l.at["runtime.mheap_"] + at["runtime.mheap.allspans"] + 8)
	second := uintptr(*word(l.at["runtime.mheap_"] + at["runtime.mheap.arenas"]))
	arena := uintptr(*word(second + 8*((address(nodes[0])+1<<47)>>arenaShift)))
	made, own := memory(count*spanBytes, 0x22, ^uintptr(0)), memory(count*8, 0x22, ^uintptr(0))
	truth := int(*length)
	for i := 0; i < count; i++ {
		s := uintptr(*word(uintptr(*list) + uintptr(8*l.Intn(truth))))
		for o := uintptr(0); o < spanBytes-96; o += 8 {
			*word(made + uintptr(i*spanBytes) + o) = *word(s + o)
		}
		*word(own + uintptr(8*i)) = uint64(made) + uint64(i*spanBytes)
		if i < truth {
			*word(own + uintptr(8*i)) = *word(uintptr(*list) + uintptr(8*i))
		}
	}
	atomic.StoreUint64(list, uint64(own))
	*word(l.at["runtime.mheap_"] + at["runtime.mheap.allspans"] + 16) = count
	atomic.StoreUint64(length, count)
	for {
		for i := 0; i < 100; i++ {
			*word(made + uintptr(l.Intn(count)*spanBytes+8*l.Intn((spanBytes-96)/8))) = l.value()
			*word(arena + at["runtime.heapArena.spans"] + uintptr(8*(4096+l.Intn(4096)))) =
				uint64(made) + uint64(l.Intn(count)*spanBytes)
		}
		time.Sleep(time.Millisecond)
	}
}

// objects changes the pointers, the types and the lengths in the heap's objects.
func (l *liar) objects() {
	for {
		for i := 0; i < 100; i++ {
			n := address(nodes[l.Intn(len(nodes))])
			*word(n - 8 + uintptr(8*l.Intn(84))) = l.value()
		}
		time.Sleep(time.Millisecond)
	}
}
