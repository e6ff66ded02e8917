// Program otlp takes profiles as an OpenTelemetry collector does, by gRPC. It prints "ready PORT",
// then a line for each stack of each request: its count, a tab, its functions, innermost first,
// separated by semicolons. A frame without a name is "?".
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip"
)

type sink struct {
	pprofileotlp.UnimplementedGRPCServer
	requests chan pprofile.Profiles
}

func (s *sink) Export(_ context.Context, r pprofileotlp.ExportRequest) (pprofileotlp.ExportResponse, error) {
	copied := pprofile.NewProfiles()
	r.Profiles().CopyTo(copied)
	s.requests <- copied
	return pprofileotlp.NewExportResponse(), nil
}

// functions are those at one address: several where calls were inlined.
func functions(d pprofile.ProfilesDictionary, location int32) []string {
	lines := d.LocationTable().At(int(location)).Lines()
	if lines.Len() == 0 {
		return []string{"?"}
	}
	var names []string
	for i := 0; i < lines.Len(); i++ {
		f := d.FunctionTable().At(int(lines.At(i).FunctionIndex()))
		names = append(names, d.StringTable().At(int(f.NameStrindex())))
	}
	return names
}

func print(out *bufio.Writer, d pprofile.ProfilesDictionary, s pprofile.Sample) {
	var names []string
	stack := d.StackTable().At(int(s.StackIndex())).LocationIndices()
	for i := 0; i < stack.Len(); i++ {
		names = append(names, functions(d, stack.At(i))...)
	}
	count := s.TimestampsUnixNano().Len()
	if count == 0 {
		count = 1
	}
	fmt.Fprintf(out, "%d\t%s\n", count, strings.Join(names, ";"))
}

func printAll(requests <-chan pprofile.Profiles) {
	out := bufio.NewWriter(os.Stdout)
	for p := range requests {
		for i := 0; i < p.ResourceProfiles().Len(); i++ {
			scopes := p.ResourceProfiles().At(i).ScopeProfiles()
			for j := 0; j < scopes.Len(); j++ {
				profiles := scopes.At(j).Profiles()
				for k := 0; k < profiles.Len(); k++ {
					samples := profiles.At(k).Samples()
					for l := 0; l < samples.Len(); l++ {
						print(out, p.Dictionary(), samples.At(l))
					}
				}
			}
		}
		out.Flush()
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := &sink{requests: make(chan pprofile.Profiles, 64)}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	pprofileotlp.RegisterGRPCServer(server, s)
	fmt.Printf("ready %d\n", listener.Addr().(*net.TCPAddr).Port)
	go printAll(s.requests)
	if err := server.Serve(listener); err != nil {
		panic(err)
	}
}
