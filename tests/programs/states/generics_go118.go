//go:build go1.18

package main

type number interface{ ~int | ~int64 | ~float64 }

type list[T any] struct {
	items []T
	next  *list[T]
}

type pair[K comparable, V any] struct {
	key   K
	value V
}

func init() {
	register("generic", func() {
		go holdGeneric(make(chan int))
		go holdGeneric(make(chan string))
		go holdGeneric(make(chan pair[string, *int]))
		l := &list[string]{items: []string{"a"}}
		go l.hold("b")
		f := l.hold
		go f("c")
		go pair[int, string]{1, "x"}.hold()
		go apply([]int{1, 2}, func(n int) int { block(); return n })
		go sumInlined([]float64{1, 2})
		go l.each(func(s string) { block() })
	})
}

//go:noinline
func holdGeneric[T any](c chan T) T { return <-c }

//go:noinline
func (l *list[T]) hold(item T) int {
	block()
	return len(l.items)
}

func (p pair[K, V]) hold() K {
	block()
	return p.key
}

func (l *list[T]) each(f func(T)) {
	for _, item := range l.items {
		f(item)
	}
}

//go:noinline
func apply[A, B any](list []A, f func(A) B) (ret []B) {
	for _, item := range list {
		ret = append(ret, f(item))
	}
	return ret
}

func sumInlined[T number](list []T) (total T) {
	for _, item := range list {
		total = addGeneric(total, item)
	}
	return total
}

func addGeneric[T number](a, b T) T {
	block()
	return a + b
}
