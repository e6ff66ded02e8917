// Held has threads that a tracer does not easily stop, or must not disturb: one that waits for a
// child of vfork, when it is told to, any number that sleep in C, and the first, which sleeps in C with floating-point settings
// of its own, and ends, alone, when it is told to. Meanwhile two goroutines play ping-pong.
package main

/*
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>

static atomic_int lost, leaving;

// Denormals are 0, and it rounds down.
static void keep(void)
{
	enum { MINE = 0xbfc0 };
	struct timespec pause = {.tv_nsec = 2000000};

	_mm_setcsr(MINE);
	for (;;) {
		if (leaving)
			syscall(SYS_exit, 0);
		nanosleep(&pause, NULL);
		if ((_mm_getcsr() & ~0x3f) != (MINE & ~0x3f))
			lost = 1;
	}
}

// The first thread ends, and the process goes on.
static void leave(void)
{
	leaving = 1;
}

static int is_lost(void)
{
	return lost;
}

static void *sleep_for_good(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void add_threads(int n)
{
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	while (n-- > 0)
		pthread_create(&thread, &small, sleep_for_good, NULL);
}

static void wait_for_child(int ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	pid_t child = vfork();

	if (!child) {
		nanosleep(&time, NULL);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
)

func init() { runtime.LockOSThread() }

func answer(rounds *int64) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var ms, n int
		switch {
		case in.Text() == "check" && C.is_lost() == 0:
			fmt.Println("ok")
		case in.Text() == "check":
			fmt.Println("floating-point settings are lost")
		case in.Text() == "leave":
			C.leave()
			fmt.Println("ok")
		case in.Text() == "rounds":
			fmt.Println(atomic.LoadInt64(rounds))
		case len(in.Text()) > 8 && in.Text()[:8] == "threads ":
			fmt.Sscanf(in.Text(), "threads %d", &n)
			C.add_threads(C.int(n))
			fmt.Println("ok")
		default:
			fmt.Sscanf(in.Text(), "vfork %d", &ms)
			go C.wait_for_child(C.int(ms))
			fmt.Println("ok")
		}
	}
	os.Exit(0)
}

func main() {
	var rounds int64
	c := make(chan int)
	go func() {
		for {
			c <- 1
		}
	}()
	go func() {
		for range c {
			atomic.AddInt64(&rounds, 1)
		}
	}()
	go answer(&rounds)
	fmt.Println("ready", os.Getpid())
	C.keep()
}
