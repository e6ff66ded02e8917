/* Functions of common libraries that serve requests. */
#ifndef IMAGE_HANDLERS_H
#define IMAGE_HANDLERS_H

/*
 * The functions of net/http's servers (HTTP/1 and 2) and of gRPC's that are called once for a
 * request: a POSIX extended regular expression of their names.
 */
#define HANDLERS_REGEX                                                                    \
	"^net/http\\.serverHandler\\.ServeHTTP$|^(net/http\\.\\(\\*http2serverConn\\)|"   \
	"(net/http/internal/http2|(.*/)?golang\\.org/x/net/http2)\\.\\(\\*serverConn\\))" \
	"\\.runHandler$|^(.*/)?google\\.golang\\.org/grpc\\.\\(\\*Server\\)\\.handleStream$"

#endif
