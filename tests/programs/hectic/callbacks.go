package main

/*
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern int doubled(int);

static int call_back(int x) { return doubled(x); }

static void *thread(void *x) { return (void *)(long)doubled((long)x); }

static int call_from_thread(int x)
{
	pthread_t t;
	void *result = NULL;

	if (pthread_create(&t, NULL, thread, (void *)(long)x) || pthread_join(t, &result))
		return -1;
	return (long)result;
}

// The child's answer; -2 if it had to be killed after so many milliseconds; else -1.
static int end_of(pid_t child, int patience)
{
	int status = 0;

	for (int i = 0; i < patience; i++) {
		pid_t ended = waitpid(child, &status, WNOHANG);

		if (ended < 0)
			return -1;
		if (ended)
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		usleep(1000);
	}
	kill(child, SIGKILL);
	return waitpid(child, &status, 0) == child ? -2 : -1;
}

// A copy of this process, with this thread alone, answers; through Go if requested.
static int ask_child(int x, int by_go)
{
	pid_t child = fork();

	if (child < 0)
		return -1;
	if (child)
		return end_of(child, by_go ? 20 : 10000);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(by_go ? doubled(x) : x * 2);
}

// This thread is suspended, and the child uses its memory, until the child ends.
static int ask_guest(int x)
{
	pid_t child = vfork();

	if (child < 0)
		return -1;
	if (!child) {
		usleep(500);
		_exit(x * 2);
	}
	return end_of(child, 10000);
}
*/
import "C"

func init() {
	add("callbacks", callbacks)
	add("foreigners", foreigners)
	add("forks", forks)
	add("vforks", vforks)
	addAlone("copies", copies)
}

func callbacks(w *work) {
	for {
		for i := 0; i < 100; i++ {
			got := C.call_back(C.int(i))
			w.must(got == C.int(2*i), "twice %d is %d", i, got)
		}
		w.done()
	}
}

func foreigners(w *work) {
	for i := 0; ; i++ {
		got := C.call_from_thread(C.int(i))
		w.must(got == C.int(2*i), "twice %d is %d", i, got)
		w.done()
	}
}

func forks(w *work) {
	for i := 0; ; i = (i + 1) % 100 {
		got := C.ask_child(C.int(i), 0)
		w.must(got == C.int(2*i), "twice %d is %d", i, got)
		w.done()
	}
}

// Go cannot do this itself. The copy has only one of Go's threads, which may wait for ever for
// another one; it also lacks the timers of a CPU profile.
func copies(w *work) {
	for i := 0; ; i = (i + 1) % 100 {
		got := C.ask_child(C.int(i), 1)
		w.must(got == C.int(2*i) || got == -2, "twice %d is %d", i, got)
		w.done()
	}
}

func vforks(w *work) {
	for i := 0; ; i = (i + 1) % 100 {
		got := C.ask_guest(C.int(i))
		w.must(got == C.int(2*i), "twice %d is %d", i, got)
		w.done()
	}
}
