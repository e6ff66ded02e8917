package main

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
)

func init() {
	register("recursion", func() {
		go recurse(20, block)
		go recurse(49, block)
		go recurse(500, block)
		go even(60)
	})
	register("closure", startClosures)
	register("method", startMethods)
	register("inline", func() {
		go inlineOuter(3)
		go holdInlineTail(block)
		go inlineInLoop([]int{1, 2, 3})
	})
	register("through", startThroughLibraries)
	register("large", func() { go holdLargeFrame(block); go holdGrown(block) })
}

// A goroutine started before main.
func init() {
	go func() { block() }()
}

var startedEarly = func() bool {
	go block()
	return true
}()

//go:noinline
func block() { <-make(chan int) }

//go:noinline
func recurse(n int, then func()) int {
	if n == 0 {
		then()
		return 0
	}
	return recurse(n-1, then) + n
}

//go:noinline
func even(n int) bool {
	if n == 0 {
		block()
		return true
	}
	return !odd(n - 1)
}

//go:noinline
func odd(n int) bool { return !even(n - 1) }

func startClosures() {
	x := 1
	go func() {
		x++
		block()
	}()
	go func() {
		func() {
			inner := func() { block(); x++ }
			inner()
			x++
		}()
	}()
	go makeClosure(7)()
	go func(a int, s string) { block(); fmt.Println(a, s) }(1, "two")
	go creator()
	done := make(chan struct{})
	go creatorThatEnds(done)
	<-done
	defer func() {
		go func() { block() }()
	}()
}

func makeClosure(n int) func() {
	return func() {
		block()
		n++
	}
}

//go:noinline
func creator() {
	go holdReceive(make(chan int))
	block()
}

//go:noinline
func creatorThatEnds(done chan struct{}) {
	go holdReceive(make(chan int))
	close(done)
}

type blocker interface{ wait(n int) int }

type value struct{ a, b, c int }

//go:noinline
func (v value) wait(n int) int { block(); return v.a + n }

type pointer struct{ n int }

//go:noinline
func (p *pointer) wait(n int) int { block(); return p.n + n }

type embedding struct {
	name string
	*pointer
}

type embeddingValue struct {
	name string
	value
}

func startMethods() {
	for _, b := range []blocker{
		value{1, 2, 3}, &value{1, 2, 3}, &pointer{1},
		embedding{"e", &pointer{2}}, &embedding{"e", &pointer{2}},
		embeddingValue{"v", value{}}, &embeddingValue{"v", value{}},
	} {
		go throughInterface(b)
		go b.wait(1)
	}
	p := &pointer{3}
	go p.wait(1)
	f := p.wait
	go f(2)
	go throughFunc(f)
	go throughFunc(value{}.wait)
	g := (*pointer).wait
	go g(p, 3)
	go throughFunc(blocker(p).wait)
	h := blocker.wait
	go func() { h(p, 4) }()
}

//go:noinline
func throughInterface(b blocker) int { return b.wait(1) + 1 }

//go:noinline
func throughFunc(f func(int) int) int { return f(1) + 1 }

// These are small enough to be inlined, each into the next.
func inlineInner(n int) int  { block(); return n + 1 }
func inlineMiddle(n int) int { return inlineInner(n) * 2 }
func inlineOuter(n int) int  { return inlineMiddle(n) + inlineMiddle(n+1) }

func holdInlineTail(f func()) { callIt(f) }
func callIt(f func())         { f() }

func inlineInLoop(list []int) (total int) {
	for _, n := range list {
		total += addBlocking(total, n)
	}
	return total
}

func addBlocking(a, b int) int {
	if b == 2 {
		block()
	}
	return a + b
}

type byBlocking []int

func (b byBlocking) Len() int           { return len(b) }
func (b byBlocking) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b byBlocking) Less(i, j int) bool { block(); return b[i] < b[j] }

type blockingStringer struct{}

func (blockingStringer) String() string { block(); return "" }

func startThroughLibraries() {
	go sort.Sort(byBlocking{3, 2, 1})
	go sort.Slice([]int{2, 1}, func(i, j int) bool { block(); return i < j })
	go fmt.Sprint(blockingStringer{})
	go strings.Map(func(r rune) rune { block(); return r }, "text")
	go reflect.ValueOf(block).Call(nil)
	go reflect.ValueOf(&pointer{5}).MethodByName("Exported").Call(nil)
	made := reflect.MakeFunc(reflect.TypeOf(block), func([]reflect.Value) []reflect.Value {
		block()
		return nil
	})
	go made.Interface().(func())()
}

func (p *pointer) Exported() { block() }

//go:noinline
func holdLargeFrame(f func()) byte {
	var space [100000]byte
	f()
	return space[len(space)/2]
}

// holdGrown waits on a stack that was copied several times.
//
//go:noinline
func holdGrown(f func()) {
	recurse(2000, func() {})
	f()
}
