package db

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

const queryTimeout = 5 * time.Second

type conn struct {
	addr   string
	socket net.Conn
	reader *bufio.Reader
}

func (c *conn) query(ctx context.Context, line string) (string, error) {
	if err := c.connect(ctx); err != nil {
		return "", err
	}
	answer, err := c.roundTrip(ctx, line)
	if err != nil {
		c.close()
		return "", err
	}
	rest := strings.SplitN(answer, " ", 2)
	if rest[0] != "ok" {
		return "", errors.New("db: " + answer)
	}
	if len(rest) < 2 {
		return "", nil
	}
	return rest[1], nil
}

func (c *conn) connect(ctx context.Context) error {
	if c.socket != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: time.Second}
	socket, err := dialer.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return fmt.Errorf("db: %w", err)
	}
	c.socket = socket
	c.reader = bufio.NewReader(socket)
	return nil
}

func (c *conn) roundTrip(ctx context.Context, line string) (string, error) {
	deadline := time.Now().Add(queryTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.socket.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := c.socket.Write([]byte(line + "\n")); err != nil {
		return "", err
	}
	answer, err := c.reader.ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}

func (c *conn) close() {
	if c.socket != nil {
		c.socket.Close()
		c.socket, c.reader = nil, nil
	}
}
