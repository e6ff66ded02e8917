package gospect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// command is a gospect that looks at this process. Its output goes to a file in memory: no goroutine of this package
// reads it meanwhile, so none is in the profile.
type command struct {
	cmd       *exec.Cmd
	out, errs *os.File
}

// writeError is an error of the writer that a result goes to, not of gospect.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }

// startTime is how long gospect may take to begin.
const startTime = 5 * time.Second

// begin starts a verb on this process.
func begin(verb string, options ...string) (*command, error) {
	program, err := program()
	if err != nil {
		return nil, err
	}
	allowChildren()
	c := &command{}
	if c.out, err = memoryFile("gospect-output", 0); err != nil {
		return nil, err
	}
	if c.errs, err = memoryFile("gospect-messages", 0); err != nil {
		c.out.Close()
		return nil, err
	}
	c.cmd = exec.Command(program, append([]string{verb, "-p", self()}, options...)...)
	c.cmd.Args[0] = "gospect"
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.errs
	c.cmd.SysProcAttr = ownGroup()
	if err = c.cmd.Start(); err != nil {
		c.close()
		return nil, fmt.Errorf("cannot start gospect: %w", err)
	}
	return c, nil
}

// end interrupts the recording and writes what it made to w.
func (c *command) end(w io.Writer) error {
	for began := time.Now(); !handlesInterrupt(c.cmd.Process.Pid) && time.Since(began) < startTime; {
		time.Sleep(time.Millisecond)
	}
	c.cmd.Process.Signal(os.Interrupt)
	out, err := c.wait()
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(w, out); err != nil {
		return &writeError{err}
	}
	return nil
}

// wait gives the output of a gospect that ended well, from its beginning; else what gospect said.
func (c *command) wait() (*os.File, error) {
	failed := c.cmd.Wait()
	defer c.errs.Close()
	if failed == nil {
		if _, failed = c.out.Seek(0, io.SeekStart); failed == nil {
			return c.out, nil
		}
	}
	defer c.out.Close()
	if said := c.said(); said != "" {
		return nil, errors.New(said)
	}
	return nil, fmt.Errorf("gospect: %w", failed)
}

// said is gospect's last line of words, without the name before it.
func (c *command) said() string {
	text := make([]byte, 64<<10)
	n, _ := c.errs.ReadAt(text, 0)
	lines := bytes.Split(bytes.TrimSpace(text[:n]), []byte("\n"))
	return strings.TrimPrefix(string(lines[len(lines)-1]), "gospect: ")
}

func (c *command) close() {
	c.out.Close()
	c.errs.Close()
}

// handlesInterrupt is false while a child has not yet set its handler of SIGINT, which would kill it.
func handlesInterrupt(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	var caught uint64
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "State:\tZ") {
			return true
		}
		if strings.HasPrefix(line, "SigCgt:") {
			fmt.Sscanf(strings.TrimSpace(line[7:]), "%x", &caught)
		}
	}
	return caught&(1<<(uint(syscall.SIGINT)-1)) != 0
}
