// Program receiver takes profiles as servers do, with their protocols' own code: Pyroscope's
// (connect), OpenTelemetry's (pdata, HTTP and gRPC), and gRPC for Parca. What it gets it writes to
// the folder that is its argument, a file for each request:
//
//	N-pyroscope.json, N-parca.json  [{"labels": {}, "profile": "base64"}]
//	N-otlp.json                     {"resource": {}, "profiles": [...]}
//
// A goroutine of it waits with the labels trace_id and span_id. It prints "ready PID" and obeys
// lines on standard input:
//
//	check  "ok 1"
//	urls   JSON: the URL of each server
package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync/atomic"

	"connectrpc.com/connect"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/protobuf/encoding/protowire"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

var written atomic.Int64

// write makes a file that appears whole.
func write(kind string, value any) {
	text, err := json.Marshal(value)
	check(err)
	name := filepath.Join(os.Args[1], fmt.Sprintf("%06d-%s.json", written.Add(1), kind))
	check(os.WriteFile(name+".part", text, 0o600))
	check(os.Rename(name+".part", name))
}

type series struct {
	Labels  map[string]string `json:"labels"`
	Profile []byte            `json:"profile"`
}

// ---- Pyroscope ----

type pyroscope struct{}

func (pyroscope) Push(_ context.Context, r *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	var all []series
	for _, s := range r.Msg.Series {
		one := series{Labels: map[string]string{}, Profile: s.Samples[0].RawProfile}
		for _, l := range s.Labels {
			one.Labels[l.Name] = l.Value
		}
		all = append(all, one)
	}
	write("pyroscope", all)
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

// ---- Parca ----

// raw passes messages as they are.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) Name() string { return "proto" }

// fields calls f with each field that has bytes.
func fields(data []byte, f func(n protowire.Number, value []byte)) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		n = protowire.ConsumeFieldValue(number, kind, data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data)
			f(number, value)
		}
		data = data[n:]
	}
	return nil
}

// parca takes a WriteRawRequest: series(2){labels(1){labels(1){name(1) value(2)}} samples(2){raw_profile(1)}}.
func parca(_ any, stream grpc.ServerStream) error {
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	var all []series
	var failed error
	each := func(data []byte, f func(n protowire.Number, value []byte)) {
		if err := fields(data, f); err != nil {
			failed = err
		}
	}
	each(request, func(n protowire.Number, value []byte) {
		one := series{Labels: map[string]string{}}
		each(value, func(n protowire.Number, value []byte) {
			each(value, func(inner protowire.Number, value []byte) {
				if n == 2 {
					one.Profile = value
					return
				}
				var pair [2]string
				each(value, func(n protowire.Number, value []byte) { pair[n-1] = string(value) })
				one.Labels[pair[0]] = pair[1]
			})
		})
		all = append(all, one)
	})
	if failed != nil {
		return failed
	}
	write("parca", all)
	empty := []byte{}
	return stream.SendMsg(&empty)
}

// ---- OpenTelemetry ----

type sample struct {
	Stack      []string       `json:"stack"`
	Values     []int64        `json:"values"`
	Attributes map[string]any `json:"attributes"`
	Trace      string         `json:"trace,omitempty"`
	Span       string         `json:"span,omitempty"`
}

type profile struct {
	Type, Unit, PeriodType string
	Period, Time, Duration int64
	ID                     string
	Samples                []sample
}

type export struct {
	Resource map[string]any `json:"resource"`
	Profiles []profile      `json:"profiles"`
	Build    []string       `json:"build"`
}

// stackOf has the names of functions, innermost first.
func stackOf(d pprofile.ProfilesDictionary, index int32) []string {
	names := []string{}
	locations := d.StackTable().At(int(index)).LocationIndices()
	for i := 0; i < locations.Len(); i++ {
		location := d.LocationTable().At(int(locations.At(i)))
		_ = d.MappingTable().At(int(location.MappingIndex()))
		for j := 0; j < location.Lines().Len(); j++ {
			function := d.FunctionTable().At(int(location.Lines().At(j).FunctionIndex()))
			names = append(names, d.StringTable().At(int(function.NameStrindex())))
		}
	}
	return names
}

func attributesOf(d pprofile.ProfilesDictionary, indices pcommon.Int32Slice) map[string]any {
	found := map[string]any{}
	for i := 0; i < indices.Len(); i++ {
		attribute := d.AttributeTable().At(int(indices.At(i)))
		key := d.StringTable().At(int(attribute.KeyStrindex()))
		if _, twice := found[key]; twice {
			panic("an attribute is there twice: " + key)
		}
		found[key] = attribute.Value().AsRaw()
	}
	return found
}

func profileOf(d pprofile.ProfilesDictionary, p pprofile.Profile) profile {
	text := func(i int32) string { return d.StringTable().At(int(i)) }
	id := p.ProfileID()
	one := profile{
		Type: text(p.SampleType().TypeStrindex()), Unit: text(p.SampleType().UnitStrindex()),
		PeriodType: text(p.PeriodType().TypeStrindex()), Period: p.Period(),
		Time: int64(p.Time()), Duration: int64(p.DurationNano()), ID: hex.EncodeToString(id[:]),
	}
	for i := 0; i < p.Samples().Len(); i++ {
		s := p.Samples().At(i)
		link := d.LinkTable().At(int(s.LinkIndex()))
		got := sample{Stack: stackOf(d, s.StackIndex()), Values: s.Values().AsRaw(), Attributes: attributesOf(d, s.AttributeIndices())}
		if s.LinkIndex() != 0 {
			got.Trace, got.Span = link.TraceID().String(), link.SpanID().String()
		}
		one.Samples = append(one.Samples, got)
	}
	return one
}

// take checks what the format demands, and panics where it is broken.
func take(all pprofile.Profiles) {
	d := all.Dictionary()
	for name, n := range map[string]int{"mappings": d.MappingTable().Len(), "locations": d.LocationTable().Len(),
		"functions": d.FunctionTable().Len(), "links": d.LinkTable().Len(), "strings": d.StringTable().Len(),
		"attributes": d.AttributeTable().Len(), "stacks": d.StackTable().Len()} {
		if n == 0 {
			panic("the table has no first element: " + name)
		}
	}
	if d.StringTable().At(0) != "" || d.StackTable().At(0).LocationIndices().Len() != 0 ||
		!d.LinkTable().At(0).TraceID().IsEmpty() || d.LocationTable().At(0).Address() != 0 ||
		d.MappingTable().At(0).MemoryLimit() != 0 || d.FunctionTable().At(0).NameStrindex() != 0 {
		panic("the first element of a table is not empty")
	}
	for i := 0; i < all.ResourceProfiles().Len(); i++ {
		r := all.ResourceProfiles().At(i)
		one := export{Resource: r.Resource().Attributes().AsRaw()}
		for j := 0; j < r.ScopeProfiles().Len(); j++ {
			for k := 0; k < r.ScopeProfiles().At(j).Profiles().Len(); k++ {
				one.Profiles = append(one.Profiles, profileOf(d, r.ScopeProfiles().At(j).Profiles().At(k)))
			}
		}
		for j := 1; j < d.MappingTable().Len(); j++ {
			for _, value := range attributesOf(d, d.MappingTable().At(j).AttributeIndices()) {
				one.Build = append(one.Build, fmt.Sprint(value))
			}
		}
		write("otlp", one)
	}
}

type otlp struct {
	pprofileotlp.UnimplementedGRPCServer
}

func (*otlp) Export(_ context.Context, r pprofileotlp.ExportRequest) (pprofileotlp.ExportResponse, error) {
	take(r.Profiles())
	return pprofileotlp.NewExportResponse(), nil
}

func overHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not what it should be", http.StatusUnsupportedMediaType)
		return
	}
	unzipped, err := gzip.NewReader(r.Body)
	check(err)
	body, err := io.ReadAll(unzipped)
	check(err)
	request := pprofileotlp.NewExportRequest()
	if err := request.UnmarshalProto(body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	take(request.Profiles())
	answer, err := pprofileotlp.NewExportResponse().MarshalProto()
	check(err)
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, err = w.Write(answer)
	check(err)
}

// ---- all ----

func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	return l
}

// inSpan waits as a request of a traced server does.
func inSpan(never chan int) {
	labels := pprof.Labels("trace_id", "4bf92f3577b34da6a3ce929d0e0e4736", "span_id", "00f067aa0ba902b7", "worker", "one")
	pprof.Do(context.Background(), labels, func(context.Context) { <-never })
}

func main() {
	urls := map[string]string{}
	web := http.NewServeMux()
	web.Handle(pushv1connect.NewPusherServiceHandler(pyroscope{}))
	web.HandleFunc("POST /v1development/profiles", overHTTP)
	l := listen()
	urls["pyroscope"] = "http://" + l.Addr().String()
	urls["otlp"] = urls["pyroscope"]
	go http.Serve(l, web)
	l = listen()
	urls["otlp-grpc"] = "grpc://" + l.Addr().String()
	server := grpc.NewServer()
	pprofileotlp.RegisterGRPCServer(server, &otlp{})
	go server.Serve(l)
	l = listen()
	urls["parca"] = "grpc://" + l.Addr().String()
	server = grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(func(srv any, stream grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(stream); method != "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw" {
			return fmt.Errorf("no method %s", method)
		}
		return parca(srv, stream)
	}))
	go server.Serve(l)
	go inSpan(make(chan int))
	pprof.Lookup("heap").Count() // otherwise the linker turns the heap profile off

	text, err := json.Marshal(urls)
	check(err)
	fmt.Println("ready", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "urls" {
			fmt.Println(string(text))
		} else {
			fmt.Println("ok 1")
		}
	}
}
