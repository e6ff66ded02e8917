#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tests/made_up.h"

#define SERVE                                                       \
	"net/http.(*Server).Serve.gowrap3 net/http/server.go:3493;" \
	"net/http.(*conn).serve net/http/server.go:2102;"           \
	"net/http.serverHandler.ServeHTTP net/http/server.go:3340;" \
	"net/http.(*ServeMux).ServeHTTP net/http/server.go:2861;"   \
	"net/http.HandlerFunc.ServeHTTP net/http/server.go:2322;"   \
	"shop/internal/web.(*API).traced.func1 /src/shop/internal/web/middleware.go:31;"

#define CHECKOUT SERVE "shop/internal/web.(*API).checkout /src/shop/internal/web/checkout.go:88;"
#define ITEMS SERVE "shop/internal/web.(*API).items /src/shop/internal/web/items.go:52;"
#define SEARCH SERVE "shop/internal/web.(*API).search /src/shop/internal/web/search.go:40;"

#define QUERY                                                                        \
	"shop/internal/store.(*Store).Orders /src/shop/internal/store/orders.go:61;" \
	"database/sql.(*DB).QueryContext.func1 database/sql/sql.go:1711 <- "         \
	"database/sql.(*DB).QueryContext database/sql/sql.go:1710;"                  \
	"database/sql.(*DB).retry database/sql/sql.go:1576;"                         \
	"database/sql.(*DB).query database/sql/sql.go:1728;"

#define POLL                                                                         \
	"internal/poll.(*FD).Read internal/poll/fd_unix.go:165;"                     \
	"internal/poll.(*pollDesc).waitRead internal/poll/fd_poll_runtime.go:89 <- " \
	"internal/poll.(*pollDesc).wait internal/poll/fd_poll_runtime.go:84;"        \
	"internal/poll.runtime_pollWait runtime/netpoll.go:351;"                     \
	"runtime.netpollblock runtime/netpoll.go:575;"                               \
	"runtime.gopark runtime/proc.go:461"

#define LOCK                                                                  \
	"sync.(*Mutex).Lock sync/mutex.go:46 <- internal/sync.(*Mutex).Lock " \
	"internal/sync/mutex.go:70;"                                          \
	"internal/sync.(*Mutex).lockSlow internal/sync/mutex.go:149;"         \
	"internal/sync.runtime_SemacquireMutex runtime/sema.go:95;"           \
	"runtime.semacquire1 runtime/sema.go:188;runtime.gopark runtime/proc.go:461"

#define SELECT "runtime.selectgo runtime/select.go:351;runtime.gopark runtime/proc.go:461"
#define RECEIVE                                                   \
	"runtime.chanrecv2 runtime/chan.go:511;runtime.chanrecv " \
	"runtime/chan.go:667;runtime.gopark runtime/proc.go:461"
#define SLEEP "time.Sleep runtime/time.go:361;runtime.gopark runtime/proc.go:461"

#define JSON                                                                \
	"encoding/json.(*Encoder).Encode encoding/json/stream.go:211;"      \
	"encoding/json.(*encodeState).marshal encoding/json/encode.go:331;" \
	"encoding/json.(*encodeState).reflectValue encoding/json/encode.go:363;"

static const struct {
	struct made_up_sample sample;
	const char *stack;
} service[] = {
	{{PROFILE_WAITING, "IO wait", NULL, 2710000, 2400000},
	 "net/http.(*Server).Serve.gowrap3 net/http/server.go:3493;"
	 "net/http.(*conn).serve net/http/server.go:2113;bufio.(*Reader).Peek bufio/bufio.go:148;"
	 "bufio.(*Reader).fill bufio/bufio.go:113;net/http.(*connReader).Read "
	 "net/http/server.go:812;net.(*conn).Read net/net.go:196;net.(*netFD).Read "
	 "net/fd_posix.go:68;" POLL},
	{{PROFILE_WAITING, "select", "route=/checkout tenant=acme", 1430000, 0},
	 CHECKOUT QUERY "database/sql.(*DB).conn database/sql/sql.go:1369;" SELECT},
	{{PROFILE_WAITING, "select", "route=/checkout tenant=globex", 620000, 0},
	 CHECKOUT QUERY "database/sql.(*DB).conn database/sql/sql.go:1369;" SELECT},
	{{PROFILE_WAITING, "IO wait", "route=/checkout tenant=acme", 410000, 0},
	 CHECKOUT QUERY
	 "shop/internal/pgwire.(*Conn).Query /src/shop/internal/pgwire/conn.go:203;"
	 "shop/internal/pgwire.(*Conn).readMessage /src/shop/internal/pgwire/conn.go:77;"
	 "net.(*conn).Read net/net.go:196;net.(*netFD).Read net/fd_posix.go:68;" POLL},
	{{PROFILE_WAITING, "IO wait", "route=/items tenant=acme", 190000, 0},
	 ITEMS QUERY
	 "shop/internal/pgwire.(*Conn).Query /src/shop/internal/pgwire/conn.go:203;"
	 "shop/internal/pgwire.(*Conn).readMessage /src/shop/internal/pgwire/conn.go:77;"
	 "net.(*conn).Read net/net.go:196;net.(*netFD).Read net/fd_posix.go:68;" POLL},
	{{PROFILE_WAITING, "sync.Mutex.Lock", "route=/items tenant=acme", 540000, 0},
	 ITEMS "shop/internal/cache.(*Cache[...]).Get /src/shop/internal/cache/cache.go:44;" LOCK},
	{{PROFILE_WAITING, "sync.Mutex.Lock", "route=/search tenant=initech", 310000, 0},
	 SEARCH "shop/internal/cache.(*Cache[...]).Get /src/shop/internal/cache/cache.go:44;" LOCK},
	{{PROFILE_WAITING, "sync.Mutex.Lock", "route=/checkout tenant=acme", 120000, 0},
	 CHECKOUT
	 "shop/internal/cache.(*Cache[...]).Invalidate /src/shop/internal/cache/cache.go:71;" LOCK},
	{{PROFILE_WAITING, "chan send", "route=/checkout tenant=acme", 230000, 0},
	 CHECKOUT "shop/internal/audit.(*Log).Record /src/shop/internal/audit/log.go:29;"
		  "runtime.chansend1 runtime/chan.go:161;runtime.chansend runtime/chan.go:283;"
		  "runtime.gopark runtime/proc.go:461"},
	{{PROFILE_RUNNING, NULL, "route=/items tenant=acme", 61000, 0},
	 ITEMS JSON "encoding/json.structEncoder.encode encoding/json/encode.go:744;"
		    "encoding/json.arrayEncoder.encode encoding/json/encode.go:901;"
		    "encoding/json.stringEncoder encoding/json/encode.go:617;"
		    "encoding/json.appendString[...] encoding/json/encode.go:1026"},
	{{PROFILE_RUNNING, NULL, "route=/search tenant=initech", 74000, 0},
	 SEARCH "shop/internal/rank.(*Index).Score /src/shop/internal/rank/index.go:118;"
		"shop/internal/rank.cosine /src/shop/internal/rank/vector.go:22 <- "
		"shop/internal/rank.(*Index).score /src/shop/internal/rank/index.go:140"},
	{{PROFILE_RUNNING, NULL, "route=/search tenant=initech", 23000, 0},
	 SEARCH "shop/internal/rank.(*Index).Score /src/shop/internal/rank/index.go:131;"
		"slices.SortFunc[...] slices/sort.go:29;slices.pdqsortCmpFunc[...] "
		"slices/zsortanyfunc.go:73"},
	{{PROFILE_RUNNABLE, NULL, "route=/search tenant=initech", 51000, 0},
	 SEARCH "shop/internal/rank.(*Index).Score /src/shop/internal/rank/index.go:118"},
	{{PROFILE_RUNNABLE, NULL, "route=/items tenant=acme", 33000, 0},
	 ITEMS JSON "encoding/json.structEncoder.encode encoding/json/encode.go:744"},
	{{PROFILE_SYSCALL, NULL, "route=/items tenant=acme", 42000, 0},
	 SERVE
	 "shop/internal/web.accessLog /src/shop/internal/web/log.go:18;log/slog.(*Logger).log "
	 "log/slog/logger.go:257;os.(*File).Write os/file.go:212;internal/poll.(*FD).Write "
	 "internal/poll/fd_unix.go:368;syscall.Write syscall/syscall_unix.go:211;"
	 "syscall.write syscall/zsyscall_linux_amd64.go:964;syscall.Syscall "
	 "syscall/syscall_linux.go:80"},
	{{PROFILE_WAITING, "chan receive", NULL, 800000, 640000},
	 "main.startWorkers.func1 /src/shop/main.go:75;main.(*worker).run "
	 "/src/shop/worker.go:33;" RECEIVE},
	{{PROFILE_WAITING, "IO wait", NULL, 96000, 0},
	 "main.startWorkers.func1 /src/shop/main.go:75;main.(*worker).run /src/shop/worker.go:36;"
	 "main.(*worker).deliver /src/shop/worker.go:60;net/http.(*Client).Do "
	 "net/http/client.go:590;"
	 "net/http.(*persistConn).roundTrip net/http/transport.go:2703;" POLL},
	{{PROFILE_WAITING, "sleep", NULL, 60000, 10000},
	 "main.main.gowrap1 /src/shop/main.go:41;main.janitor /src/shop/janitor.go:12;" SLEEP},
	{{PROFILE_WAITING, "select", NULL, 40000, 40000},
	 "shop/internal/metrics.(*Pusher).loop /src/shop/internal/metrics/push.go:50;" SELECT},
	{{PROFILE_WAITING, "IO wait", NULL, 10000, 0},
	 "runtime.main runtime/proc.go:290;main.main /src/shop/main.go:52;"
	 "net/http.(*Server).ListenAndServe net/http/server.go:3405;net.(*TCPListener).Accept "
	 "net/tcpsock.go:380;internal/poll.(*FD).Accept internal/poll/fd_unix.go:613;"
	 "internal/poll.runtime_pollWait runtime/netpoll.go:351;runtime.gopark "
	 "runtime/proc.go:461"},
	{{PROFILE_RUNNING, NULL, NULL, 12000, 0},
	 "runtime.gcBgMarkWorker runtime/mgc.go:1472;[running]"},
};

static void add_service(struct made_up *m)
{
	for (size_t i = 0; i < ARRAY_SIZE(service); i++)
		made_up_add(m, &service[i].sample, service[i].stack);
}

void made_up_service(struct made_up *m)
{
	made_up_init(m, "/usr/bin/shop --listen :8080", 10000);
	add_service(m);
}

/* xorshift: the same stacks on every machine. */
static unsigned int draw(struct made_up *m, unsigned int below)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return (m->random >> 33) % below;
}

static void add_random_stack(struct made_up *m)
{
	static const char *const tails[] = {POLL, LOCK, SELECT, RECEIVE, SLEEP};
	static const char *const waits[] = {"IO wait", "sync.Mutex.Lock", "select", "chan receive",
					    "sleep"};
	static const char *const routes[] = {"route=/a", "route=/b", "route=/c", NULL};
	unsigned int kind = draw(m, ARRAY_SIZE(tails)), state = draw(m, 20);
	struct made_up_sample sample = {
		.labels = routes[draw(m, ARRAY_SIZE(routes))],
		.wall_ms = 10 * (1 + draw(m, 40)),
	};
	char stack[4096] = SERVE;
	size_t length = strlen(stack);
	unsigned int begin;

	for (unsigned int i = 0, depth = 3 + draw(m, 8); i < depth; i++) {
		unsigned int function = draw(m, 1 + draw(m, 24));

		length += snprintf(stack + length, sizeof(stack) - length,
				   "example.com/acme/platform/service%u.(*Handler%u).step%u "
				   "/src/platform/service%u/handler.go:%u;",
				   i, function / 4, function, i, 10 * function + draw(m, 3));
	}
	sample.state = state < 3 ? (enum profile_state)state : PROFILE_WAITING;
	if (sample.state == PROFILE_WAITING)
		sample.wait = waits[kind];
	snprintf(stack + length, sizeof(stack) - length, "%s", tails[kind]);
	begin = draw(m, 59000);
	made_up_add_from(m, &sample, begin, begin + sample.wall_ms, stack);
}

void made_up_large(struct made_up *m, size_t stacks)
{
	made_up_init(m, "/usr/bin/platform", 60000);
	add_service(m);
	while (m->profile->count < stacks)
		add_random_stack(m);
}
