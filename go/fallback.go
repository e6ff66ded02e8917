package gospect

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"sort"
	"strings"
)

// goroutineProfile writes the runtime's own profile of the goroutines, with the reason in it.
func goroutineProfile(w io.Writer, format Format, reason error) error {
	switch format {
	case FormatPprof:
		var profile bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&profile, 0); err != nil {
			return err
		}
		return withComment(w, &profile, "gospect could not record: "+reason.Error())
	case FormatFolded:
		return foldedGoroutines(w)
	}
	return fmt.Errorf("%w; the runtime's goroutine profile has no format %q", reason, format)
}

// The fields of a pprof Profile message that a comment needs.
const (
	stringTable = 6<<3 | 2
	comment     = 13<<3 | 0
)

// withComment writes a pprof profile again and adds a comment: a string at the table's end, and its index.
func withComment(w io.Writer, packed io.Reader, text string) error {
	reader, err := gzip.NewReader(packed)
	if err != nil {
		return err
	}
	profile, err := io.ReadAll(reader)
	if err != nil {
		return err
	}
	strings, err := countFields(profile, stringTable)
	if err != nil {
		return err
	}
	profile = append(appendUvarint(append(profile, stringTable), uint64(len(text))), text...)
	profile = appendUvarint(append(profile, comment), uint64(strings))
	zipped := gzip.NewWriter(w)
	if _, err := zipped.Write(profile); err != nil {
		return err
	}
	return zipped.Close()
}

func appendUvarint(to []byte, v uint64) []byte {
	var bytes [binary.MaxVarintLen64]byte
	return append(to, bytes[:binary.PutUvarint(bytes[:], v)]...)
}

var errNotProfile = errors.New("the runtime's goroutine profile cannot be read")

// countFields counts the fields of a message, whose own fields are varints and bytes, that have that key.
func countFields(message []byte, wanted uint64) (int, error) {
	count := 0
	for len(message) > 0 {
		key, n := binary.Uvarint(message)
		if n <= 0 {
			return 0, errNotProfile
		}
		message = message[n:]
		if key == wanted {
			count++
		}
		v, n := binary.Uvarint(message)
		if n <= 0 {
			return 0, errNotProfile
		}
		message = message[n:]
		switch key & 7 {
		case 0:
		case 2:
			if v > uint64(len(message)) {
				return 0, errNotProfile
			}
			message = message[v:]
		default:
			return 0, errNotProfile
		}
	}
	return count, nil
}

// foldedGoroutines writes a line for each different stack: functions outermost first, and how many goroutines.
func foldedGoroutines(w io.Writer) error {
	counts := map[string]int{}
	for _, record := range goroutines() {
		counts[foldedStack(record.Stack())]++
	}
	lines := make([]string, 0, len(counts))
	for stack, count := range counts {
		lines = append(lines, fmt.Sprintf("%s %d\n", stack, count))
	}
	sort.Strings(lines)
	out := bufio.NewWriter(w)
	for _, line := range lines {
		out.WriteString(line)
	}
	return out.Flush()
}

func goroutines() []runtime.StackRecord {
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+16)
	for {
		n, ok := runtime.GoroutineProfile(records)
		if ok {
			return records[:n]
		}
		records = make([]runtime.StackRecord, n+n/8+16)
	}
}

func foldedStack(stack []uintptr) string {
	var names []string
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		names = append([]string{frame.Function}, names...)
		if !more {
			return strings.Join(names, ";")
		}
	}
}
