//go:build !go1.25
// +build !go1.25

package main

func cleaned() {}
