// Grpc is a gRPC server and its own client. With the argument "workers" the server's goroutines are
// a pool's, else one for each call.
//
// It prints "ready PID" and obeys lines on standard input:
//
//	call N  so many calls, one after the other; prints as JSON how long each computed, in ns
//	check   "ok"
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

type server struct {
	grpc_health_v1.UnimplementedHealthServer
	mu    sync.Mutex
	spent []int64
}

func (s *server) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	began := time.Now()
	for time.Since(began) < 50*time.Microsecond {
	}
	s.mu.Lock()
	s.spent = append(s.spent, int64(time.Since(began)))
	s.mu.Unlock()
	return &grpc_health_v1.HealthCheckResponse{Status: 1}, nil
}

func main() {
	var options []grpc.ServerOption
	if len(os.Args) > 1 {
		options = append(options, grpc.NumStreamWorkers(4))
	}
	s := grpc.NewServer(options...)
	h := &server{}
	grpc_health_v1.RegisterHealthServer(s, h)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go s.Serve(l)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	client := grpc_health_v1.NewHealthClient(conn)
	fmt.Println("ready", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var n int
		if k, _ := fmt.Sscanf(in.Text(), "call %d", &n); k == 1 {
			h.spent = nil
			for i := 0; i < n; i++ {
				if _, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
					log.Fatal(err)
				}
			}
			text, _ := json.Marshal(h.spent)
			fmt.Println(string(text))
		} else {
			fmt.Println("ok")
		}
	}
}
