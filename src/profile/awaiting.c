#include "profile/awaiting.h"

#include <string.h>

#include "profile/profile_symbols.h"

/* A goroutine that waits at most this many of its own functions from its start waits for work; LOOP
 * applies if the waiting function's name says that it is a loop. */
enum { SHALLOW = 2, LOOP = 4 };

/* A goroutine that waits for work is near its start function. */
#define MAX_AWAITING_DEPTH 64

static const char *const known[] = {
	"os/signal.signal_recv",
	"os/signal.loop",
	"net/http.(*connReader).backgroundRead",
	"net/http.(*conn).readRequest",
	"net/http.(*persistConn).readLoop",
	"net/http.(*persistConn).writeLoop",
	"google.golang.org/grpc/internal/transport.(*controlBuffer).get",
	"google.golang.org/grpc/internal/transport.(*http2Client).keepalive",
	"google.golang.org/grpc/internal/transport.(*http2Client).reader",
	"google.golang.org/grpc/internal/transport.(*http2Server).HandleStreams",
	"google.golang.org/grpc/internal/transport.(*http2Server).keepalive",
};

/* HTTP/2 functions of net/http, where they are internal or have a prefix, and of
 * golang.org/x/net/http2. */
static const char *const known_ends[] = {
	".Accept",
	".accept",
	".AcceptTCP",
	".(*serverConn).serve",
	".(*serverConn).readFrames",
	".(*http2serverConn).serve",
	".(*http2serverConn).readFrames",
	".(*ClientConn).readLoop",
	".(*http2ClientConn).readLoop",
};

/* Wait reasons of the runtime (runtime/runtime2.go, waitReasonStrings), and of Go's trace
 * (runtime/traceruntime.go, traceBlockReasonStrings). */
static const char *const reasons[] = {
	"IO wait",
	"chan receive",
	"chan receive (nil chan)",
	"select",
	"sleep",
	"sync.Cond.Wait",
	"select (no cases)",
	"GC worker (idle)",
	"finalizer wait",
	"force gc (idle)",
	"network",
	"sync.(*Cond).Wait",
	"forever",
	"system goroutine wait",
	"GC background sweeper wait",
};

static const char *const entries[] = {
	"net/http.serverHandler.ServeHTTP",
	"google.golang.org/grpc.(*Server).processUnaryRPC",
	"google.golang.org/grpc.(*Server).processStreamingRPC",
	"google.golang.org/grpc.(*Server).handleStream",
};

/* Packages that goroutines wait through: they show how a goroutine waits, not what it does. */
static const char *const plumbing[] = {
	"runtime.", "internal/", "sync.",    "time.", "net.",     "io.",
	"bufio.",   "crypto/",   "syscall.", "os.",   "context.",
};

static const char *const loops[] = {"loop",  "Loop",  "serve",   "Serve",  "run",  "Run",
				    "watch", "Watch", "listen",  "Listen", "poll", "Poll",
				    "work",  "Work",  "consume", "Consume"};

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static bool has_end(const char *name, const char *end)
{
	size_t length = strlen(name), wanted = strlen(end);

	return length >= wanted && !strcmp(name + length - wanted, end);
}

#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof(names) / sizeof(*(names)))

bool is_request_entry(const char *function)
{
	return IS_ONE_OF(function, entries);
}

static bool is_known(const char *function)
{
	if (IS_ONE_OF(function, known))
		return true;
	for (size_t i = 0; i < sizeof(known_ends) / sizeof(*known_ends); i++)
		if (has_end(function, known_ends[i]))
			return true;
	return false;
}

bool is_plumbing(const char *function)
{
	for (size_t i = 0; i < sizeof(plumbing) / sizeof(*plumbing); i++)
		if (!strncmp(function, plumbing[i], strlen(plumbing[i])))
			return true;
	return false;
}

/* Whether a server waits for the first byte of the next request. */
static bool awaits_request(const char *const *functions, size_t count)
{
	bool serves = false, peeks = false;

	for (size_t i = 0; i < count; i++) {
		serves |= !strcmp(functions[i], "net/http.(*conn).serve");
		peeks |= !strcmp(functions[i], "bufio.(*Reader).Peek");
	}
	return serves && peeks;
}

static bool is_loop(const char *function)
{
	const char *dot = strrchr(function, '.');

	for (size_t i = 0; dot && i < sizeof(loops) / sizeof(*loops); i++)
		if (strstr(dot, loops[i]))
			return true;
	return false;
}

/* The goroutine's own functions are those between these packages and runtime.main. */
static bool waits_near_its_start(const char *const *functions, size_t count)
{
	size_t first = 0;

	while (first < count && is_plumbing(functions[first]))
		first++;
	while (count > first && is_plumbing(functions[count - 1]))
		count--;
	return count - first <= SHALLOW || (count - first <= LOOP && is_loop(functions[first]));
}

bool awaits_work(enum profile_state state, const char *wait, const char *const *functions,
		 size_t count)
{
	bool is_waiting = state == PROFILE_WAITING;

	for (size_t i = 0; i < count; i++)
		if (is_request_entry(functions[i]))
			return false;
	if (!is_waiting && state != PROFILE_SYSCALL)
		return false;
	for (size_t i = 0; i < count; i++)
		if (is_known(functions[i]))
			return true;
	if (!is_waiting)
		return false;
	if (awaits_request(functions, count))
		return true;
	return IS_ONE_OF(wait, reasons) && waits_near_its_start(functions, count);
}

bool sample_awaits_work(const struct profile *p, const struct profile_symbols *symbols,
			const struct profile_sample *sample, const struct symbol_stack *stack)
{
	const char *functions[MAX_AWAITING_DEPTH];
	size_t count = stack->count;

	if (count > MAX_AWAITING_DEPTH)
		return false;
	for (size_t i = 0; i < count; i++)
		functions[i] = symbols->frames[stack->frames[i]].function;
	return awaits_work(sample->state, intern_get(&p->strings, sample->wait), functions, count);
}
