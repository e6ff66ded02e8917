//go:build go1.18

package main

type list[T any] struct{ items []T }

//go:noinline
func (l *list[T]) first(n int, other T) T {
	wait()
	return l.items[n]
}

//go:noinline
func keep[K comparable, V any](key K, value V) int {
	wait()
	use(key, value)
	return 1
}

func init() {
	l := &list[string]{items: []string{"generic"}}
	go l.first(0, "other")
	go keep(3, "value")
}
