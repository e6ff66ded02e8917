module foreign

go 1.24

require (
	connectrpc.com/connect v1.18.1
	github.com/valyala/fasthttp v1.58.0
	google.golang.org/protobuf v1.36.5
)

require (
	github.com/andybalholm/brotli v1.1.1 // indirect
	github.com/klauspost/compress v1.17.11 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
)
