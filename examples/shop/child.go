package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A child is this same program in another role. It ends when its standard input is closed, so it
// ends also when we are killed.
type child struct {
	cmd       *exec.Cmd
	stdin     io.Closer
	firstLine string // what it said when it was ready
}

// named makes a file of its own for the program of a child: so the service alone has the name
// "shop", and tools that look for a name find one process. The file can go once the child runs.
func named(self, role string) (path, folder string, err error) {
	name := filepath.Base(self) + "-" + role
	if folder, err = os.MkdirTemp(filepath.Dir(self), ".shop"); err == nil {
		if err = os.Link(self, filepath.Join(folder, name)); err == nil {
			return filepath.Join(folder, name), folder, nil
		}
		os.RemoveAll(folder)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return "", "", err
	}
	if folder, err = os.MkdirTemp("", "shop"); err != nil {
		return "", "", err
	}
	path = filepath.Join(folder, name)
	return path, folder, os.WriteFile(path, program, 0o700)
}

func startChild(role string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path, folder, err := named(self, role)
	if folder != "" {
		defer os.RemoveAll(folder)
	}
	if err != nil {
		return nil, fmt.Errorf("no file for the program of the %s: %w", role, err)
	}
	cmd := exec.Command(path, append([]string{"-role", role}, args...)...)
	cmd.Args[0] = filepath.Base(path)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("it said nothing: %w", err)
	}
	c.firstLine = strings.TrimSpace(line)
	return c, nil
}

func (c *child) stop() {
	c.stdin.Close()
	kill := time.AfterFunc(3*time.Second, func() { _ = c.cmd.Process.Kill() })
	_ = c.cmd.Wait()
	kill.Stop()
}
