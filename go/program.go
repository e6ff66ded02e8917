package gospect

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"sync"
)

var unpacked struct {
	once sync.Once
	name string
	err  error
	file *os.File // is the program; stays open
}

// program is the name of a file to execute: the command that this package carries, in sealed memory, or the one in
// PATH where the package was built without it.
func program() (string, error) {
	unpacked.once.Do(func() {
		unpacked.name, unpacked.file, unpacked.err = unpack(binaries, "bin/"+runtime.GOARCH)
	})
	return unpacked.name, unpacked.err
}

func unpack(from embed.FS, folder string) (string, *os.File, error) {
	if runtime.GOOS != "linux" || folder == "bin/" {
		return "", nil, fmt.Errorf("gospect runs on linux/amd64 and linux/arm64, this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	packed, err := from.ReadFile(path.Join(folder, "gospect.gz"))
	if err != nil {
		found, err := exec.LookPath("gospect")
		if err != nil {
			return "", nil, errors.New("this build of the Go module carries no gospect for " + runtime.GOARCH +
				", and PATH has none: use a released module, or install gospect")
		}
		return found, nil, nil
	}
	sum, err := from.ReadFile(path.Join(folder, "gospect.sha256"))
	if err != nil {
		return "", nil, err
	}
	content, err := verified(packed, strings.TrimSpace(string(sum)))
	if err != nil {
		return "", nil, err
	}
	file, err := sealed(content)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d", file.Fd()), file, nil
}

// verified is what was packed, if it has that SHA-256.
func verified(packed []byte, want string) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("the gospect in the Go module is damaged: %w", err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("the gospect in the Go module is damaged: %w", err)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
		return nil, errors.New("the gospect in the Go module is damaged: its SHA-256 differs from gospect.sha256")
	}
	return content, nil
}
