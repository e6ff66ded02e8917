//go:build cgo

package main

/*
#include <unistd.h>

extern void heldByC(void);

static void wait_in_c(void) { for (;;) pause(); }
static void call_back(void) { heldByC(); }
*/
import "C"

func init() {
	special = append(special, func() {
		go holdInC()
		go holdThroughC()
	})
}

//go:noinline
func holdInC() { C.wait_in_c() }

//go:noinline
func holdThroughC() { C.call_back() }

//export heldByC
func heldByC() { <-make(chan int) }

// Main is what a C program calls that loads this one as a shared library.
//
//export Main
func Main() { main() }
