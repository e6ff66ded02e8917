//go:build go1.24

package main

import (
	"unique"
	"weak"
)

type Pointed struct{ words [12]int }

type Pair[T any] struct {
	left, right *T
}

var (
	pointer weak.Pointer[Pointed]
	strong  *Pointed
	names   []unique.Handle[string]
	pairs   []*Pair[Square]
)

func more() {
	strong = new(Pointed)
	pointer = weak.Make(strong)
	for i := 0; i < 20; i++ {
		names = append(names, unique.Make(text(i+9000)))
		pairs = append(pairs, &Pair[Square]{new(Square), new(Square)})
	}
}
