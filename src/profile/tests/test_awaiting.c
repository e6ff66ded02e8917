#include "base/unit_test.h"

#include "profile/awaiting.h"

/* Stacks as in real programs, innermost function first, ended by NULL. */
static bool awaits(enum profile_state state, const char *wait, const char *const *functions)
{
	size_t count = 0;

	while (functions[count])
		count++;
	return awaits_work(state, wait, functions, count);
}

#define STACK(...) ((const char *const[]){__VA_ARGS__, NULL})
#define READ                                                                                       \
	"runtime.gopark", "runtime.netpollblock", "internal/poll.runtime_pollWait",                \
		"internal/poll.(*pollDesc).wait", "internal/poll.(*FD).Read", "net.(*netFD).Read", \
		"net.(*conn).Read"
#define RECEIVE "runtime.gopark", "runtime.chanrecv", "runtime.chanrecv2"
#define SELECT "runtime.gopark", "runtime.selectgo"

static void a_server_waits_for_connections_and_requests(void **state)
{
	(void)state;
	assert_true(awaits(PROFILE_WAITING, "IO wait",
			   STACK("runtime.gopark", "internal/poll.(*FD).Accept",
				 "net.(*netFD).accept", "net.(*TCPListener).Accept",
				 "net/http.(*Server).Serve", "main.main", "runtime.main")));
	assert_true(awaits(PROFILE_WAITING, "IO wait",
			   STACK(READ, "net/http.(*connReader).Read", "bufio.(*Reader).fill",
				 "bufio.(*Reader).Peek", "net/http.(*conn).serve")));
	assert_true(awaits(PROFILE_WAITING, "IO wait",
			   STACK(READ, "net/http.(*connReader).backgroundRead")));
}

static void a_trace_has_words_of_its_own(void **state)
{
	(void)state;
	assert_true(awaits(PROFILE_WAITING, "network",
			   STACK(READ, "net/http.(*connReader).Read", "bufio.(*Reader).fill",
				 "bufio.(*Reader).Peek", "net/http.(*conn).serve")));
	assert_true(awaits(PROFILE_WAITING, "network",
			   STACK(READ, "example.com/server.(*client).readLoop",
				 "example.com/server.(*Server).start.func1")));
	assert_true(awaits(PROFILE_WAITING, "sync.(*Cond).Wait",
			   STACK("runtime.gopark", "sync.runtime_notifyListWait",
				 "sync.(*Cond).Wait", "example.com/server.(*client).writeLoop")));
	assert_true(awaits(PROFILE_WAITING, "forever", STACK("runtime.gopark", "main.main")));
	assert_true(awaits(PROFILE_WAITING, "system goroutine wait",
			   STACK("runtime.gopark", "runtime.runfinq")));
	assert_false(awaits(PROFILE_WAITING, "sync",
			    STACK("runtime.gopark", "sync.(*Mutex).Lock", "main.worker")));
}

static void a_request_never_waits_for_work(void **state)
{
	(void)state;
	assert_false(awaits(PROFILE_WAITING, "select",
			    STACK(SELECT, "main.poll", "net/http.HandlerFunc.ServeHTTP",
				  "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve")));
	assert_false(awaits(PROFILE_WAITING, "IO wait",
			    STACK(READ, "bufio.(*Reader).Peek", "example.com/db.(*Conn).Query",
				  "google.golang.org/grpc.(*Server).processUnaryRPC")));
}

static void workers_and_loops_wait_for_work(void **state)
{
	(void)state;
	assert_true(awaits(PROFILE_WAITING, "chan receive",
			   STACK(RECEIVE, "main.(*worker).run", "main.start.func1")));
	assert_true(awaits(PROFILE_WAITING, "sleep", STACK("time.Sleep", "main.poll")));
	assert_true(awaits(PROFILE_WAITING, "chan receive",
			   STACK(RECEIVE, "shop/jobs.(*Mailer).work", "shop/jobs.Start.func1",
				 "shop/jobs.(*Background).spawn.func1")));
	assert_true(awaits(PROFILE_WAITING, "select", STACK(SELECT, "main.main", "runtime.main")));
	assert_true(awaits(PROFILE_SYSCALL, "", STACK("os/signal.signal_recv", "os/signal.loop")));
	assert_true(awaits(PROFILE_WAITING, "IO wait",
			   STACK(READ, "example.com/server.(*client).readLoop",
				 "example.com/server.(*Server).createClient.func1",
				 "example.com/server.(*Server).startGoRoutine.func1")));
}

static void a_job_that_waits_is_work(void **state)
{
	(void)state;
	assert_false(awaits(PROFILE_WAITING, "IO wait",
			    STACK(READ, "example.com/db.(*Conn).Query", "main.(*worker).deliver",
				  "main.(*worker).run", "main.start.func1")));
	assert_false(awaits(PROFILE_RUNNING, "", STACK("main.(*worker).run")));
	assert_false(awaits(PROFILE_RUNNABLE, "", STACK("main.(*worker).run")));
}

/* Waiting until another goroutine releases something is not waiting for work. */
static void locks_and_full_channels_are_no_wait_for_work(void **state)
{
	static const char *const no_work[] = {"sync.Mutex.Lock", "chan send", "semacquire",
					      "sync.RWMutex.Lock"};

	(void)state;
	for (size_t i = 0; i < sizeof(no_work) / sizeof(*no_work); i++)
		assert_false(awaits(PROFILE_WAITING, no_work[i],
				    STACK("runtime.gopark", "main.(*worker).run")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_waits_for_connections_and_requests),
		cmocka_unit_test(a_trace_has_words_of_its_own),
		cmocka_unit_test(a_request_never_waits_for_work),
		cmocka_unit_test(workers_and_loops_wait_for_work),
		cmocka_unit_test(a_job_that_waits_is_work),
		cmocka_unit_test(locks_and_full_channels_are_no_wait_for_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
