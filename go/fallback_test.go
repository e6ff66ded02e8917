package gospect

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
)

func unzip(t *testing.T, packed []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestACommentGoesToTheEnd(t *testing.T) {
	var out bytes.Buffer
	if err := goroutineProfile(&out, FormatPprof, errors.New("no right")); err != nil {
		t.Fatal(err)
	}
	profile := unzip(t, out.Bytes())
	strings, err := countFields(profile, stringTable)
	if err != nil {
		t.Fatal(err)
	}
	// The last string is the comment, and the last field its index.
	last := appendUvarint([]byte{comment}, uint64(strings-1))
	if !bytes.HasSuffix(profile, append([]byte("gospect could not record: no right"), last...)) {
		t.Errorf("it ends with %q", profile[len(profile)-50:])
	}
}

func TestDamagedMessagesAreRefused(t *testing.T) {
	for _, message := range []string{"\x80", "\x32", "\x32\x05abc", "\x09\x00", "\x35\x00", "\x32\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if _, err := countFields([]byte(message), stringTable); err == nil {
			t.Errorf("%q was read", message)
		}
	}
}

func TestFoldedHasThisTest(t *testing.T) {
	var out bytes.Buffer
	if err := goroutineProfile(&out, FormatFolded, errors.New("no right")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "gospect.TestFoldedHasThisTest;") {
		t.Error(out.String())
	}
	if err := goroutineProfile(&out, FormatHTML, errors.New("no right")); err == nil || !strings.Contains(err.Error(), "no right") {
		t.Error(err)
	}
}

func TestADamagedProgramIsNotRun(t *testing.T) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	writer.Write([]byte("a program"))
	writer.Close()
	sum := sha256.Sum256([]byte("a program"))
	if content, err := verified(packed.Bytes(), hex.EncodeToString(sum[:])); err != nil || string(content) != "a program" {
		t.Error(content, err)
	}
	if _, err := verified(packed.Bytes(), strings.Repeat("0", 64)); err == nil {
		t.Error("another sum was accepted")
	}
	if _, err := verified(packed.Bytes()[:packed.Len()-3], hex.EncodeToString(sum[:])); err == nil {
		t.Error("a part was accepted")
	}
}

func TestWithoutAProgramThePathIsSearched(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, _, err := unpack(embed.FS{}, "bin/amd64"); err == nil || !strings.Contains(err.Error(), "PATH") {
		t.Error(err)
	}
}
