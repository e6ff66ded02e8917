/* Functions of common libraries that serve requests, and that make others. */
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

/*
 * Likewise, those that ask others: database/sql, the clients of net/http, gRPC and fasthttp. Of
 * each way into such a library it is the function that the compiler cannot inline, in Go 1.17
 * to 1.27. One may call another: (*Client).do calls (*Transport).roundTrip.
 */
#define CLIENTS_REGEX                                                                             \
	"^database/sql\\.\\(\\*(DB|Conn|Tx|Stmt)\\)\\.((Query|Exec|Prepare|Ping)Context|BeginTx|" \
	"Commit|rollback)$|^net/http\\.\\((\\*Client\\)\\.do|\\*Transport\\)\\.roundTrip)$|"      \
	"^(.*/)?google\\.golang\\.org/grpc\\.\\(\\*ClientConn\\)\\.Invoke$|^(.*/)?github\\.com/"  \
	"valyala/fasthttp\\.\\(\\*HostClient\\)\\.Do$"

#endif
