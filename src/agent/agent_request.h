/*
 * What is copied of a request: its method, path, peer and traceparent. Nothing else of it, and no
 * query. Part of the agent.
 */
#ifndef AGENT_AGENT_REQUEST_H
#define AGENT_AGENT_REQUEST_H

#include "agent/abi.h"
#include "labels/go_header_map.h"

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
 * The goroutine that serves the request is in the call, so nobody changes its header.
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

/* The string at AGENT_FIELD() in the structure; 0: it may not be read. */
const struct go_string *agent_route_field(const struct agent_shared *shared, uint64_t structure,
					  uint32_t place) __attribute__((visibility("hidden")));

/*
 * The patterns of a *chi.Context, a slice of strings; 0: it is none, or has no pattern. The context
 * has the last one twice. That shows that it is one.
 */
const struct go_slice *agent_chi_patterns(const struct agent_shared *shared, uint64_t context)
	__attribute__((visibility("hidden")));
/* Copies them as one, without a "/" and a star that another pattern follows: at most
 * AGENT_MAX_ROUTE bytes. Returns the end. */
uint8_t *agent_chi_copy(const struct agent_shared *shared, const struct go_slice *patterns,
			uint8_t *at) __attribute__((visibility("hidden")));

/* The path of the route of a *gin.Context, which belongs to this *gin.Engine; 0: it does not. */
const struct go_string *agent_gin_path(const struct agent_shared *shared, uint64_t context,
				       uint64_t engine) __attribute__((visibility("hidden")));

/* Likewise, a length, in one or two bytes, and at most so many bytes of a string. */
uint8_t *agent_string_copy(const struct agent_shared *shared, uint64_t data, uint64_t length,
			   uint32_t most, uint8_t *at) __attribute__((visibility("hidden")));

#endif
