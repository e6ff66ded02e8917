package main

// Code below is regular on purpose: sixteen functions of one shape, so that every stack of a given
// depth has the same frame sizes, and a mix of two stacks looks like a stack.

type walk struct {
	path  [depth]byte
	leaf  func(*walk)
	turns [16]int
	state *worker
}

var nodes [16]func(*walk, int)

func init() {
	nodes = [16]func(*walk, int){
		node0, node1, node2, node3, node4, node5, node6, node7,
		node8, node9, nodeA, nodeB, nodeC, nodeD, nodeE, nodeF,
	}
}

func (w *walk) descend() { nodes[w.path[0]](w, 1) }

//go:noinline
func node0(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[0]++
}

//go:noinline
func node1(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[1]++
}

//go:noinline
func node2(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[2]++
}

//go:noinline
func node3(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[3]++
}

//go:noinline
func node4(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[4]++
}

//go:noinline
func node5(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[5]++
}

//go:noinline
func node6(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[6]++
}

//go:noinline
func node7(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[7]++
}

//go:noinline
func node8(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[8]++
}

//go:noinline
func node9(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[9]++
}

//go:noinline
func nodeA(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[10]++
}

//go:noinline
func nodeB(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[11]++
}

//go:noinline
func nodeC(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[12]++
}

//go:noinline
func nodeD(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[13]++
}

//go:noinline
func nodeE(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[14]++
}

//go:noinline
func nodeF(w *walk, next int) {
	if next == depth {
		w.leaf(w)
	} else {
		nodes[w.path[next]](w, next+1)
	}
	w.turns[15]++
}
