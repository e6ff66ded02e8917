package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
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

func startChild(args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
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
