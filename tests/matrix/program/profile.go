//go:build profile

package main

import (
	"os"
	"runtime/pprof"
)

// init writes a CPU profile of the spinning to the file that is named, for builds with -pgo.
func init() {
	file, err := os.Create(os.Args[1])
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		panic(err)
	}
	spin()
	pprof.StopCPUProfile()
	os.Exit(0)
}
