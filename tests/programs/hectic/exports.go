package main

import "C"

import "os"

//export doubled
func doubled(x C.int) C.int {
	answer := make(chan C.int)
	go func() { answer <- 2 * x }()
	return <-answer
}

// Main is for tests/matrix/host, whose first argument is our file.
//
//export Main
func Main() {
	os.Args = os.Args[1:]
	main()
}
