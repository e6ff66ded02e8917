// Package dbserver is the shop's database: a TCP server that answers one line with one line, as
// slowly as a busy database does.
package dbserver

import (
	"bufio"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand"
	"net"
	"strings"
	"time"
)

// How long the statements take, on average.
var latency = map[string]time.Duration{
	"product": 3 * time.Millisecond,   // one row by its key
	"rules":   2 * time.Millisecond,   // the price rules of a product
	"order":   8 * time.Millisecond,   // an insert and a commit
	"mail":    5 * time.Millisecond,   // an address
	"levels":  20 * time.Millisecond,  // all stock levels
	"sales":   700 * time.Millisecond, // a scan over all orders
}

func Serve(ctx context.Context, l net.Listener) error {
	go func() {
		<-ctx.Done()
		l.Close()
	}()
	for {
		socket, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go serveConn(socket)
	}
}

func serveConn(socket net.Conn) {
	defer socket.Close()
	random := rand.New(rand.NewSource(time.Now().UnixNano()))
	lines := bufio.NewScanner(socket)
	for lines.Scan() {
		answer := execute(random, strings.Fields(lines.Text()))
		if _, err := socket.Write([]byte(answer + "\n")); err != nil {
			return
		}
	}
}

func execute(random *rand.Rand, words []string) string {
	if len(words) == 0 {
		return "error empty statement"
	}
	mean, known := latency[words[0]]
	if !known {
		return "error unknown statement " + words[0]
	}
	// Most of it is the same each time; the rest has a tail.
	time.Sleep(time.Duration(float64(mean) * (0.75 + 0.25*random.ExpFloat64())))
	return "ok " + value(words)
}

// value is the same for the same statement, as a database's answer should be.
func value(words []string) string {
	h := fnv.New32a()
	fmt.Fprint(h, words)
	n := h.Sum32()
	switch words[0] {
	case "rules":
		return fmt.Sprintf("%d.%02d", 1+n%200, n%100)
	case "sales":
		return fmt.Sprint(n % 100000)
	default:
		return fmt.Sprintf("%08x", n)
	}
}
