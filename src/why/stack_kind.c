#include "why/stack_kind.h"

#include <string.h>

#include "base/array.h"
#include "profile/awaiting.h"

/* ---- what the functions are known for ---- */

/* Each waits for a lock (sync/mutex.go, sync/rwmutex.go, internal/sync from Go 1.24 on). */
static const char *const locks[] = {
	"sync.(*Mutex).Lock",
	"sync.(*Mutex).lockSlow",
	"internal/sync.(*Mutex).Lock",
	"sync.(*RWMutex).Lock",
	"sync.(*RWMutex).RLock",
	"internal/sync.(*Mutex).lockSlow",
	"sync.runtime_SemacquireMutex",
	"sync.runtime_SemacquireRWMutexR",
	"sync.runtime_SemacquireRWMutex",
	"internal/sync.runtime_SemacquireMutex",
};

/* Each waits until a connection, or a place, is free. */
static const char *const pools[] = {
	"database/sql.(*DB).conn",
	"golang.org/x/sync/semaphore.(*Weighted).Acquire",
	"github.com/jackc/puddle/v2.(*Pool[...]).acquire",
	"github.com/jackc/puddle/v2.(*Pool[...]).Acquire",
	"github.com/jackc/puddle.(*Pool).Acquire",
	"github.com/redis/go-redis/v9/internal/pool.(*ConnPool).waitTurn",
	"github.com/go-redis/redis/v8/internal/pool.(*ConnPool).waitTurn",
	"github.com/gomodule/redigo/redis.(*Pool).waitVacantConn",
	"go.mongodb.org/mongo-driver/x/mongo/driver/topology.(*pool).checkOut",
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology.(*pool).checkOut",
};

/* Each waits for an answer that another goroutine reads. */
static const char *const peers[] = {
	"net/http.(*persistConn).roundTrip",
	"net/http.(*http2ClientConn).roundTrip",
	"net/http.(*http2ClientConn).RoundTrip",
	"net/http/internal/http2.(*ClientConn).roundTrip",
	"golang.org/x/net/http2.(*ClientConn).roundTrip",
	"golang.org/x/net/http2.(*ClientConn).RoundTrip",
	"google.golang.org/grpc/internal/transport.(*recvBufferReader).readClient",
	"google.golang.org/grpc/internal/transport.(*recvBufferReader).readMessageHeaderClient",
	"google.golang.org/grpc/internal/transport.(*Stream).waitOnHeader",
	"google.golang.org/grpc/internal/transport.(*ClientStream).waitOnHeader",
};

/* Each reads what a peer answers, for the goroutines above. */
static const char *const clients[] = {
	"net/http.(*persistConn).readLoop",
	"net/http.(*http2ClientConn).readLoop",
	"net/http/internal/http2.(*ClientConn).readLoop",
	"golang.org/x/net/http2.(*ClientConn).readLoop",
	"google.golang.org/grpc/internal/transport.(*http2Client).reader",
};

/* System calls for files that have a disk behind them; pread and pwrite need one that can seek. */
static const char *const disks[] = {
	"internal/poll.(*FD).Fsync",
	"internal/poll.(*FD).Pread",
	"internal/poll.(*FD).Pwrite",
	"internal/poll.(*FD).Ftruncate",
	"syscall.Fsync",
	"syscall.Fdatasync",
	"syscall.Pread",
	"syscall.Pwrite",
	"syscall.Sync",
	"golang.org/x/sys/unix.Fsync",
	"golang.org/x/sys/unix.Fdatasync",
	"golang.org/x/sys/unix.Msync",
	"golang.org/x/sys/unix.SyncFileRange",
	"os.Open",
	"os.OpenFile",
	"os.Rename",
	"os.Remove",
	"os.RemoveAll",
	"os.Stat",
	"os.Mkdir",
	"os.ReadDir",
	"os.(*File).Sync",
};

/* System calls for files and for terminals and pipes as well. */
static const char *const files[] = {
	"os.(*File).Read", "os.(*File).Write", "os.(*File).ReadFrom", "os.ReadFile", "os.WriteFile",
};

/* runtime/time.go, Go 1.17 to 1.27, and what the package time does for a timer. */
static const char *const timers[] = {
	"runtime.(*timer",
	"runtime.(*timers",
	"runtime.runtimer",
	"runtime.runOneTimer",
	"runtime.checkTimers",
	"runtime.adjusttimers",
	"runtime.addtimer",
	"runtime.doaddtimer",
	"runtime.deltimer",
	"runtime.dodeltimer",
	"runtime.modtimer",
	"runtime.resettimer",
	"runtime.siftdownTimer",
	"runtime.siftupTimer",
	"runtime.clearDeletedTimers",
	"runtime.cleantimers",
	"runtime.resetForSleep",
	"runtime.timeSleep",
	"runtime.timeSleepUntil",
	"runtime.newTimer",
	"runtime.stopTimer",
	"runtime.resetTimer",
	"runtime.moveTimers",
	"runtime.nobarrierWakeTime",
	"runtime.goroutineReady",
	"time.Sleep",
	"time.NewTimer",
	"time.newTimer",
	"time.resetTimer",
	"time.stopTimer",
	"time.After",
	"time.AfterFunc",
	"time.NewTicker",
	"time.(*Timer)",
	"time.(*Ticker)",
	"time.sendTime",
	"time.goFunc",
};

/* As in profile/places.c. */
static const char *const collectors[] = {
	"[GC]",
	"runtime.gcBgMarkWorker",
	"runtime.gcAssistAlloc",
	"runtime.bgsweep",
	"runtime.bgscavenge",
	"runtime.gcStart",
	"runtime.gcMarkDone",
	"runtime.gcMarkTermination",
	"runtime.(*mheap).reclaim",
	"runtime.deductSweepCredit",
};

/* Packages that do a wait for the program: the function that asked for it says more. */
static const char *const carriers[] = {
	"net/http.",
	"net/http/internal/http2.",
	"database/sql.",
	"golang.org/x/net/http2.",
	"google.golang.org/grpc",
	"golang.org/x/sync/",
	"golang.org/x/sys/",
};

/* ---- */

static bool begins_with(const char *name, const char *begin)
{
	return !strncmp(name, begin, strlen(begin));
}

/* Whether a function of the stack is in the list; *ret_at is the innermost one. */
static bool has_one(const struct stack_view *s, const char *const *names, size_t count,
		    size_t *ret_at)
{
	for (size_t i = 0; i < s->count; i++)
		for (size_t k = 0; k < count; k++)
			if (!strcmp(s->functions[i], names[k])) {
				*ret_at = i;
				return true;
			}
	return false;
}

static bool has_beginning(const struct stack_view *s, const char *const *names, size_t count)
{
	for (size_t i = 0; i < s->count; i++)
		for (size_t k = 0; k < count; k++)
			if (begins_with(s->functions[i], names[k]))
				return true;
	return false;
}

#define HAS_ONE(stack, names, ret_at) has_one((stack), (names), ARRAY_SIZE(names), (ret_at))

static bool is_carrier(const char *function)
{
	for (size_t i = 0; i < ARRAY_SIZE(carriers); i++)
		if (begins_with(function, carriers[i]))
			return true;
	return false;
}

/* The innermost function from `from` on that neither carries a wait nor is plumbing. */
static size_t place_from(const struct stack_view *s, size_t from)
{
	size_t plain = s->count;

	for (size_t i = from; i < s->count; i++) {
		if (is_plumbing(s->functions[i]))
			continue;
		if (!is_carrier(s->functions[i]))
			return i;
		plain = plain == s->count ? i : plain;
	}
	return plain < s->count ? plain : from < s->count ? from : 0;
}

/* The runtime names a lock in the wait reason from Go 1.20 on. */
static bool waits_for_lock(const struct stack_view *s, size_t *ret_at)
{
	*ret_at = 0;
	return begins_with(s->wait, "sync.Mutex") || begins_with(s->wait, "sync.RWMutex") ||
	       (!strcmp(s->wait, "semacquire") && HAS_ONE(s, locks, ret_at));
}

/* A goroutine that waits for others in its first functions ends when they do. */
static bool waits_for_group(const struct stack_view *s)
{
	static const char *const groups[] = {"sync.(*WaitGroup).Wait"};
	size_t at;

	return HAS_ONE(s, groups, &at) &&
	       awaits_work(s->state, "chan receive", s->functions, s->count);
}

static enum stack_kind kind_of_wait(const struct stack_view *s, size_t *ret_at)
{
	if (waits_for_lock(s, ret_at))
		return STACK_LOCK;
	if (HAS_ONE(s, pools, ret_at))
		return STACK_POOL;
	*ret_at = 0;
	if (awaits_work(s->state, s->wait, s->functions, s->count) || waits_for_group(s))
		return STACK_WORK;
	if (HAS_ONE(s, peers, ret_at) || !strcmp(s->wait, "IO wait"))
		return STACK_PEER;
	return begins_with(s->wait, "chan send") ? STACK_SEND : STACK_BLOCKED;
}

static enum stack_kind kind_of_call(const struct stack_view *s, size_t *ret_at)
{
	*ret_at = 0;
	if (awaits_work(s->state, s->wait, s->functions, s->count))
		return STACK_WORK;
	if (HAS_ONE(s, disks, ret_at))
		return STACK_DISK;
	return HAS_ONE(s, files, ret_at) ? STACK_FILE : STACK_CALL;
}

enum stack_kind stack_kind_of(const struct stack_view *s, size_t *ret_place)
{
	enum stack_kind kind = STACK_RUNS;
	size_t at = 0;

	if (s->state == PROFILE_RUNNABLE)
		kind = STACK_READY;
	else if (s->state == PROFILE_SYSCALL)
		kind = kind_of_call(s, &at);
	else if (s->state == PROFILE_WAITING)
		kind = kind_of_wait(s, &at);
	*ret_place = place_from(s, at);
	return kind;
}

/* database/sql's own goroutines, which begin in it, open and close connections. */
bool stack_uses_pool(const struct stack_view *s, size_t *ret_place)
{
	static const char *const users[] = {"database/sql."};
	size_t at;

	if (!has_beginning(s, users, ARRAY_SIZE(users)) || HAS_ONE(s, pools, &at) ||
	    begins_with(s->functions[s->count - 1], users[0]))
		return false;
	*ret_place = place_from(s, 0);
	return true;
}

bool stack_is_of_timers(const struct stack_view *s)
{
	return has_beginning(s, timers, ARRAY_SIZE(timers));
}

bool stack_is_of_collector(const struct stack_view *s)
{
	size_t at;

	return HAS_ONE(s, collectors, &at);
}

bool stack_is_of_client(const struct stack_view *s)
{
	size_t at;

	return HAS_ONE(s, clients, &at);
}
