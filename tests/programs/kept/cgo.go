//go:build cgo

package main

import "C"

// Main is what a C program calls that loads this one as a shared library.
//
//export Main
func Main() { main() }
