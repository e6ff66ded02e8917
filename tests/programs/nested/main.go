// Nested has threads that are interrupted wherever they are, mostly in what is hooked: by a C handler, deep on the thread's own
// signal stack, which takes another signal there, is as deep, and sleeps. Then they go on where they were.
//
// It prints "ready PID". It answers "rounds" with how often its threads have gone round, "check" with "ok", and "outlived" with how
// many handlers have interrupted memory of gospect's and have seen the program's code change to what it was before they returned.
package main

/*
#define _GNU_SOURCE
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { THREADS = 6, DEEP = 200000, STACK = 1 << 20, WATCHED = 512, STUBS = 8192, MAPS = 1 << 18 };

static pid_t threads[THREADS];
static atomic_int thread_count, interrupted[THREADS], outlived;
static const char *watched;
static char before[WATCHED];

static void sleep_ms(int ms)
{
	struct timespec time = {.tv_nsec = ms * 1000000};

	nanosleep(&time, NULL);
}

// Whether it is in the agent: behind the stubs, some of which stay.
static int is_in_agent(uintptr_t pc)
{
	char *maps = alloca(MAPS), *at;
	int file = open("/proc/self/maps", O_RDONLY), n = 0, more;

	while ((more = read(file, maps + n, MAPS - 1 - n)) > 0)
		n += more;
	close(file);
	maps[n] = '\0';
	for (at = maps; (at = strstr(at, "/memfd:gospect-code")); at++) {
		char *line = at;
		uintptr_t start, end;

		while (line > maps && line[-1] != '\n')
			line--;
		start = strtoul(line, &line, 16);
		end = strtoul(line + 1, NULL, 16);
		if (pc >= start + STUBS && pc < end)
			return 1;
	}
	return 0;
}

static int is_as_before(void)
{
	return !memcmp(watched, before, WATCHED);
}

static void sleep_deep(int signal)
{
	volatile char *deep = alloca(DEEP);

	memset((char *)deep, 0x55, DEEP);
	sleep_ms(80);
}

static void interrupt(int signal, siginfo_t *info, void *context)
{
	uintptr_t pc = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	int counts = is_in_agent(pc) && !is_as_before();
	volatile char *deep = alloca(DEEP);

	memset((char *)deep, 0x55, DEEP);
	syscall(SYS_tgkill, getpid(), gettid(), SIGUSR2);
	if (counts && is_as_before())
		outlived++;
	for (int i = 0; i < THREADS; i++)
		if (threads[i] == gettid())
			interrupted[i] = 0;
}

// This thread gets the signals from now on, on a stack that has room for both.
static void offer(void)
{
	stack_t stack = {.ss_size = STACK};

	stack.ss_sp = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&stack, NULL);
	threads[thread_count] = gettid();
	thread_count++;
}

static void *send_signals(void *arg)
{
	for (;;) {
		for (int i = 0; i < thread_count; i++)
			if (!atomic_exchange(&interrupted[i], 1))
				syscall(SYS_tgkill, getpid(), threads[i], SIGUSR1);
		sleep_ms(5);
	}
	return arg;
}

static void start(const void *code)
{
	struct sigaction first = {.sa_sigaction = interrupt, .sa_flags = SA_ONSTACK | SA_SIGINFO | SA_RESTART};
	struct sigaction second = {.sa_handler = sleep_deep, .sa_flags = SA_ONSTACK | SA_RESTART};
	pthread_t thread;

	watched = code;
	memcpy(before, watched, WATCHED);
	sigfillset(&first.sa_mask);
	sigdelset(&first.sa_mask, SIGUSR2);
	sigfillset(&second.sa_mask);
	sigaction(SIGUSR1, &first, NULL);
	sigaction(SIGUSR2, &second, NULL);
	sigfillset(&first.sa_mask);
	pthread_sigmask(SIG_SETMASK, &first.sa_mask, &second.sa_mask);
	pthread_create(&thread, NULL, send_signals, NULL);
	pthread_sigmask(SIG_SETMASK, &second.sa_mask, NULL);
}

static int outlived_count(void)
{
	return outlived;
}
*/
import "C"

import (
	"bufio"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"runtime"
	"runtime/trace"
	"strings"
	"sync/atomic"
	"unsafe"
)

const hooked = "runtime/trace.userLog"

func address(name string) uintptr {
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	symbols, err := file.Symbols()
	if err != nil {
		panic(err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return uintptr(s.Value)
		}
	}
	panic(name)
}

// log is mostly in the agent, when there is one: it copies the text.
func log(rounds *int64, offered chan<- bool) {
	runtime.LockOSThread()
	C.offer()
	offered <- true
	text := strings.Repeat("long ", 200)
	for {
		trace.Log(context.Background(), "category", text)
		atomic.AddInt64(rounds, 1)
	}
}

func main() {
	var rounds int64
	offered := make(chan bool)
	runtime.GOMAXPROCS(C.THREADS + 2)
	for i := 0; i < C.THREADS; i++ {
		go log(&rounds, offered)
		<-offered
	}
	code := address(hooked)
	C.start(*(*unsafe.Pointer)(unsafe.Pointer(&code)))
	fmt.Println("ready", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "rounds":
			fmt.Println(atomic.LoadInt64(&rounds))
		case "outlived":
			fmt.Println(C.outlived_count())
		default:
			fmt.Println("ok")
		}
	}
}
