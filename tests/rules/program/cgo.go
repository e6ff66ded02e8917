//go:build cgo
// +build cgo

package main

/*
#include <unistd.h>
static void nap(void) { sleep(3600); }
*/
import "C"

func init() {
	go func() { C.nap() }()
}
