/*
 * What is copied of a request: its method, path, peer and traceparent. Nothing else of it, and no
 * query. Part of the agent.
 */
#ifndef AGENT_AGENT_REQUEST_H
#define AGENT_AGENT_REQUEST_H

#include "agent/abi.h"

/* In RECORD_REQUEST. */
enum agent_request_part {
	PART_METHOD = 1,
	PART_PATH,
	PART_PATH_CUT, /* a longer path's beginning */
	PART_PEER,
	PART_TRACEPARENT,
	PART_GRPC, /* /SERVICE/METHOD */
	PART_TCP,  /* the peer: the port in two bytes, how long the IP address is, that, its zone */
};

/*
 * Copies the parts of the *http.Request at this address to `at`, where at least AGENT_REQUEST_BYTES
 * are free. Returns the end. A part that may not be read is left out. The function reads nothing
 * but what agent_memory() permits.
 *
 * The goroutine that serves the request is in the call, so nobody changes its header. That is a
 * map[string][]string: runtime/map.go (Go 1.17 to 1.23: hmap, bmap), internal/runtime/maps (from
 * 1.24 on: Map, table, group).
 */
uint8_t *agent_request_copy(const struct agent_shared *shared, uint64_t request, uint8_t *at)
	__attribute__((visibility("hidden")));

/*
 * Likewise, of a gRPC server's stream: its method, the peer if that is a *net.TCPAddr, and the
 * traceparent in its context's metadata.
 * Where the method is differs by version of grpc-go (internal/transport: Stream, ServerStream;
 * known from 1.46 to 1.75), so the function looks at each place for text of the form /A/B. The
 * context is a chain, each of whose parts begins with the one before it (context.valueCtx,
 * cancelCtx). The function takes each value for a map as metadata is one, and looks for a key
 * there. The peer is a value whose type says so.
 */
uint8_t *agent_grpc_copy(const struct agent_shared *shared, uint64_t stream, uint8_t *at)
	__attribute__((visibility("hidden")));

/* The code of a *status.Status of grpc-go; without a message it is 0, OK. False: it is not known.
 */
int agent_grpc_status(const struct agent_shared *shared, uint64_t status, uint32_t *ret)
	__attribute__((visibility("hidden")));

/* Likewise, a length, in one or two bytes, and at most so many bytes of a string. */
uint8_t *agent_string_copy(const struct agent_shared *shared, uint64_t data, uint64_t length,
			   uint32_t most, uint8_t *at) __attribute__((visibility("hidden")));

#endif
