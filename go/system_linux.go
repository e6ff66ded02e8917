package gospect

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

const (
	prSetPtracer = 0x59616d61 // PR_SET_PTRACER of Yama

	mfdCloexec      = 1
	mfdAllowSealing = 2
	mfdExec         = 0x10 // since Linux 6.3

	fDupfdCloexec = 1030
	fAddSeals     = 1033
	sealAll       = 1 | 2 | 4 | 8 // no more seals, sizes, writes
)

// firstDescriptor is above those that starting a child moves around.
const firstDescriptor = 64

var memfdCreate = map[string]uintptr{"amd64": 319, "arm64": 279}[runtime.GOARCH]

// allowChildren lets this process's children read it where Yama's ptrace_scope is 1. Elsewhere it does nothing.
func allowChildren() {
	syscall.Syscall6(syscall.SYS_PRCTL, prSetPtracer, uintptr(os.Getpid()), 0, 0, 0, 0)
}

// ownGroup keeps a terminal's interrupt from the child: the recording ends when this process says so.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// memoryFile is a file without a name, closed in children that are not given it.
func memoryFile(name string, flags uintptr) (*os.File, error) {
	label, err := syscall.BytePtrFromString(name)
	if err != nil {
		return nil, err
	}
	fd, _, errno := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(label)), mfdCloexec|flags, 0)
	if errno == syscall.EINVAL && flags&mfdExec != 0 {
		fd, _, errno = syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(label)), mfdCloexec|flags&^mfdExec, 0)
	}
	if errno != 0 {
		return nil, fmt.Errorf("cannot make a file in memory: %w", errno)
	}
	defer syscall.Close(int(fd))
	high, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, fDupfdCloexec, firstDescriptor)
	if errno != 0 {
		return nil, fmt.Errorf("cannot make a file in memory: %w", errno)
	}
	return os.NewFile(high, name), nil
}

// sealed is a file in memory with that content, which nothing can change any more.
func sealed(content []byte) (*os.File, error) {
	file, err := memoryFile("gospect", mfdAllowSealing|mfdExec)
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(content); err != nil {
		file.Close()
		return nil, fmt.Errorf("cannot unpack gospect into memory: %w", err)
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), fAddSeals, sealAll); errno != 0 {
		file.Close()
		return nil, fmt.Errorf("cannot seal gospect's memory: %w", errno)
	}
	return file, nil
}
