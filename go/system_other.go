//go:build !linux
// +build !linux

package gospect

import (
	"errors"
	"os"
	"syscall"
)

var errNotLinux = errors.New("gospect runs on Linux only")

func allowChildren() {}

func ownGroup() *syscall.SysProcAttr { return nil }

func memoryFile(string, uintptr) (*os.File, error) { return nil, errNotLinux }

func sealed([]byte) (*os.File, error) { return nil, errNotLinux }
