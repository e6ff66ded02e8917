//go:build gospect_module
// +build gospect_module

package main

import (
	"io"

	"gospect.example/gospect"
)

func init() {
	profilers["module"] = func(w io.Writer) func() error { return gospect.Start(w, gospect.FormatFolded) }
}
