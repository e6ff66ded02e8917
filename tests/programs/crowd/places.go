package main

import "time"

var places = []func(never chan int, d time.Duration){
	place0, place1, place2, place3, place4,
	place5, place6, place7, place8, place9,
	place10, place11, place12, place13, place14,
	place15, place16, place17, place18, place19,
}

//go:noinline
func place0(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place1(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place2(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place3(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place4(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place5(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place6(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place7(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place8(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place9(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place10(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place11(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place12(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place13(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place14(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place15(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place16(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place17(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place18(never chan int, d time.Duration) { stay(never, d) }

//go:noinline
func place19(never chan int, d time.Duration) { stay(never, d) }
