// Echo is a gRPC server that measures itself. It starts a copy of itself as its client, so that
// what it costs to observe the server is not spread over both.
//
// It prints a JSON object and obeys lines on standard input, each answered by a JSON object:
//
//	slice MS  the client calls for so long; the calls, their times and the server's CPU time
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"sort"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	connections = 4
	callers     = 8 // of each connection, one call at a time each
	payload     = 1024
	method      = "/bench.Echo/Echo"
)

// Answer is the result of a slice.
type Answer struct {
	Ops    int     `json:"ops"`
	WallNs int64   `json:"wall_ns"`
	CPUNs  int64   `json:"cpu_ns"` // the server's
	P50    float64 `json:"p50_us"`
	P99    float64 `json:"p99_us"`
	P999   float64 `json:"p999_us"`
}

func echo(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	message := new(wrapperspb.BytesValue)
	return message, decode(message)
}

var service = grpc.ServiceDesc{
	ServiceName: "bench.Echo",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
}

func say(answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}

func cpuNs() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// call makes calls until the end, and returns how long each took.
func call(conn *grpc.ClientConn, end time.Time) []time.Duration {
	var took []time.Duration
	in, out := wrapperspb.Bytes(make([]byte, payload)), new(wrapperspb.BytesValue)
	for began := time.Now(); began.Before(end); {
		if err := conn.Invoke(context.Background(), method, in, out); err != nil {
			log.Fatal(err)
		}
		now := time.Now()
		took = append(took, now.Sub(began))
		began = now
	}
	return took
}

func slice(conns []*grpc.ClientConn, length time.Duration) Answer {
	began := time.Now()
	parts := make([][]time.Duration, len(conns)*callers)
	var wait sync.WaitGroup
	for i := range parts {
		wait.Add(1)
		go func() {
			defer wait.Done()
			parts[i] = call(conns[i%len(conns)], began.Add(length))
		}()
	}
	wait.Wait()
	answer := Answer{WallNs: int64(time.Since(began))}
	var all []time.Duration
	for _, part := range parts {
		all = append(all, part...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	at := func(share float64) float64 { return float64(all[int(share*float64(len(all)-1))]) / 1e3 }
	answer.Ops, answer.P50, answer.P99, answer.P999 = len(all), at(0.5), at(0.99), at(0.999)
	return answer
}

func client(address string) {
	var conns []*grpc.ClientConn
	for range connections {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			log.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var ms int
		if _, err := fmt.Sscanf(in.Text(), "slice %d", &ms); err != nil {
			log.Fatal(err)
		}
		say(slice(conns, time.Duration(ms)*time.Millisecond))
	}
}

func server() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer()
	s.RegisterService(&service, nil)
	go s.Serve(listener)
	load := exec.Command(os.Args[0], listener.Addr().String())
	load.Stderr = os.Stderr
	ask, err := load.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	answers, err := load.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := load.Start(); err != nil {
		log.Fatal(err)
	}
	say(struct{}{})
	decoder := json.NewDecoder(answers)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var answer Answer
		before := cpuNs()
		fmt.Fprintln(ask, in.Text())
		if err := decoder.Decode(&answer); err != nil {
			log.Fatal(err)
		}
		answer.CPUNs = cpuNs() - before
		say(answer)
	}
	ask.Close()
	load.Wait()
}

func main() {
	if len(os.Args) > 1 {
		client(os.Args[1])
	} else {
		server()
	}
}
