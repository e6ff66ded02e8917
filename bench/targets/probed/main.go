// Probed measures what a call of a function costs while something is attached to it: a uprobe, or a hook
// of gospect. Two functions, which differ in their first instruction: checked begins by comparing the
// stack pointer, as most of Go's functions do, unchecked by push rbp, which kernels emulate.
//
// It prints its pid and the offsets of both in its file, and for each line of standard input the
// median, over 50 batches of 2,000 calls, of the ns that a call took: [checked, unchecked]. Between two batches it
// sleeps, so that whoever records the calls has time to fetch them.
package main

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"
)

const (
	batches = 50
	calls   = 2000
)

var sink int

//go:noinline
func inner(n int) int { return n + sink }

//go:noinline
func checked(n int) int {
	var room [64]int
	room[n&63] = inner(n)
	return room[(n+1)&63] + inner(n)
}

//go:nosplit
//go:noinline
func unchecked(n int) int { return inner(n) + inner(n+1) }

func median(f func(int) int) float64 {
	var ns []float64
	for i := 0; i < batches; i++ {
		start := time.Now()
		for j := 0; j < calls; j++ {
			sink += f(j) & 1
		}
		ns = append(ns, float64(time.Since(start))/calls)
		time.Sleep(2 * time.Millisecond)
	}
	sort.Float64s(ns)
	return ns[batches/2]
}

// offsets gives where functions begin in the program's file.
func offsets(names ...string) map[string]uint64 {
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		panic(err)
	}
	found := map[string]uint64{}
	for _, symbol := range symbols {
		for _, name := range names {
			if symbol.Name != "main."+name {
				continue
			}
			for _, p := range file.Progs {
				if p.Type == elf.PT_LOAD && symbol.Value >= p.Vaddr && symbol.Value < p.Vaddr+p.Filesz {
					found[name] = symbol.Value - p.Vaddr + p.Off
				}
			}
		}
	}
	return found
}

func answer(v interface{}) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func main() {
	answer(map[string]interface{}{"pid": os.Getpid(), "offsets": offsets("checked", "unchecked")})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer([]float64{median(checked), median(unchecked)})
	}
}
