//go:build go1.23

package main

import "iter"

func init() { add("pulls", pulls) }

func count(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

func pulls(w *work) {
	for {
		next, stop := iter.Pull(count(300))
		for i := 0; i < 200; i++ {
			v, ok := next()
			w.must(ok && v == i, "%d is not %d", v, i)
		}
		stop()
		w.done()
	}
}
