// Forger pretends that a killed gospect has left its agent in it.
//
//	forger KIND
//
// KIND is the defect of the forged agent:
//
//	slots      it has 2^44 slots
//	place      it asks to restore a jump in a read-only page with bytes of its choice
//	control    the switch is a page of its own
//	code       nearly all addresses are the agent's
//	heads      there are two
//	mappings   there are 10,000
//	files      it has 500 open
//	version    the head is of another version
//	noise      the head is random, but for its version
//	claim      a gospect is at work
//	nothing    no defect
//
// On "swap" during a trace, it replaces gospect's code by a copy.
//
// It prints "ready PID", and answers each line with "ok N", where N shows whether protected memory
// was changed.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

const (
	page           = 4096
	sysMemfdCreate = 319
	magic          = 0x65646f6374677367
	version        = 4
	// Of struct code_head.
	atVersion, atCode, atCodeBytes, atAgent      = 8, 24, 32, 40
	atControl, atSlots, atSpareSlots, atStub     = 48, 56, 64, 72
	atPlaceCount, atPlaces                       = 144, 152
	placeAddress, placeStub, placeJump, placeLen = 0, 8, 16, 24
	placeBytes                                   = 28
)

var le = binary.LittleEndian

func create(name string, size int64) uintptr {
	text := append([]byte(name), 0)
	fd, _, err := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&text[0])), 0, 0)
	if err != 0 {
		panic(err)
	}
	if err := syscall.Ftruncate(int(fd), size); err != nil {
		panic(err)
	}
	return fd
}

func mapFile(fd uintptr, size uintptr) uintptr {
	address, _, err := syscall.Syscall6(syscall.SYS_MMAP, 0, size,
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED, fd, 0)
	if err != 0 {
		panic(err)
	}
	return address
}

func mapMemory(size uintptr) uintptr {
	address, _, err := syscall.Syscall6(syscall.SYS_MMAP, 0, size,
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON, ^uintptr(0), 0)
	if err != 0 {
		panic(err)
	}
	return address
}

func bytesAt(address uintptr, size int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(address)), size)
}

// code is a mapping of that name, with a valid head.
func code() []byte {
	fd := create("gospect-code", 3*page)
	address := mapFile(fd, 3*page)
	syscall.Close(int(fd))
	h := bytesAt(address, 3*page)
	le.PutUint64(h, magic)
	le.PutUint32(h[atVersion:], version)
	le.PutUint64(h[atCode:], uint64(address))
	le.PutUint64(h[atCodeBytes:], 3*page)
	le.PutUint64(h[atAgent:], uint64(address)+page)
	le.PutUint64(h[atStub:], page)
	return h
}

// guarded is memory that nobody may write to: it begins with a jump to `to`.
func guarded(to uint64) uintptr {
	address := mapMemory(page)
	memory := bytesAt(address, page)
	memory[0] = 0xe9
	le.PutUint32(memory[1:], uint32(to-uint64(address)-5))
	syscall.Mprotect(memory, syscall.PROT_READ|syscall.PROT_EXEC)
	return address
}

func forge(kind string) (watched []byte) {
	if kind == "claim" {
		page := bytesAt(mapFile(create("gospect-claim", page), page), page)
		le.PutUint32(page, 1)
		le.PutUint32(page[4:], 4711)
		return nil
	}
	if kind == "nothing" {
		return nil
	}
	if kind == "mappings" {
		fd := create("gospect-data", page)
		for i := 0; i < 10000; i++ {
			mapFile(fd, page)
			mapMemory(page)
		}
		return nil
	}
	h := code()
	address := le.Uint64(h[atCode:])
	switch kind {
	case "slots":
		create("gospect-data", page)
		mapFile(create("gospect-data", page), page)
		le.PutUint64(h[atSlots:], 1<<47)
		le.PutUint64(h[atSpareSlots:], 1<<62)
	case "place":
		target := guarded(address + 512)
		le.PutUint64(h[atPlaceCount:], 1)
		le.PutUint64(h[atPlaces+placeAddress:], uint64(target))
		le.PutUint64(h[atPlaces+placeStub:], address+512)
		le.PutUint64(h[atPlaces+placeJump:], address+512)
		le.PutUint16(h[atPlaces+placeLen:], 5)
		copy(h[atPlaces+placeBytes:], "\xcc\xcc\xcc\xcc\xcc")
		return bytesAt(target, page)
	case "control":
		own := bytesAt(mapMemory(3*page), 3*page)[page : 2*page]
		syscall.Mprotect(own, syscall.PROT_READ)
		own = own[:page]
		le.PutUint64(h[atControl:], uint64(uintptr(unsafe.Pointer(&own[0]))))
		mapFile(create("gospect-data", 1<<22), 1<<22)
		le.PutUint64(h[atSlots:], address)
		return own
	case "code":
		le.PutUint64(h[atCode+8:], 1<<62)
		mapFile(create("gospect-data", 1<<22), 1<<22)
		le.PutUint64(h[atSlots:], 1<<47)
	case "heads":
		code()
	case "files":
		for i := 0; i < 500; i++ {
			create("gospect-data", page)
		}
	case "version":
		le.PutUint32(h[atVersion:], version+1)
	case "noise":
		rand.Read(h[atVersion+4:])
	}
	return nil
}

// swap maps a file of the same name and contents over the code that gospect has put here.
func swap() {
	maps, _ := os.ReadFile("/proc/self/maps")
	for _, line := range strings.Split(string(maps), "\n") {
		var start, end uintptr
		if !strings.Contains(line, "memfd:gospect-code") {
			continue
		}
		fmt.Sscanf(line, "%x-%x", &start, &end)
		own := create("gospect-code", int64(end-start))
		file := os.NewFile(own, "own")
		file.Write(bytesAt(start, int(end-start)))
		_, _, err := syscall.Syscall6(syscall.SYS_MMAP, start, end-start,
			syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_PRIVATE|syscall.MAP_FIXED, own, 0)
		if err != 0 {
			panic(err)
		}
		file.Close()
	}
}

func main() {
	watched := forge(os.Args[1])
	go func() {
		for {
			time.Sleep(time.Millisecond)
		}
	}()
	fmt.Printf("ready %d\n", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "swap" {
			swap()
		}
		fmt.Printf("ok %d\n", crc32.ChecksumIEEE(watched))
	}
}
