/* C that burns CPU, calls Go, is called by Go. Built without frame pointers. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

#include "_cgo_export.h"

static uint64_t (*library_outer)(uint64_t);

__attribute__((noinline)) uint64_t c_inner(uint64_t n, uint64_t rounds)
{
	for (uint64_t i = 0; i < rounds; i++)
		n = n * 2862933555777941757u + 3037000493u + i;
	return n;
}

__attribute__((noinline)) uint64_t c_middle(uint64_t n)
{
	volatile uint64_t words[100];

	for (int i = 0; i < 100; i++)
		words[i] = c_inner(n + i, 2000000);
	return words[0] + words[99] + 1;
}

uint64_t c_outer(uint64_t n)
{
	return c_middle(n) * 3 + 1;
}

__attribute__((noinline)) uint64_t c_calls_go(uint64_t n)
{
	volatile uint64_t word = goBurn(n);

	return word + 1;
}

uint64_t c_back(uint64_t n)
{
	return c_calls_go(n) * 5 + 1;
}

static void *thread_main(void *arg)
{
	uint64_t n = 0;

	for (;;)
		n = c_calls_go(n) + 1;
	return (void *)n;
}

void c_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, thread_main, NULL);
}

int c_library(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);

	library_outer = library ? (uint64_t(*)(uint64_t))dlsym(library, "library_outer") : NULL;
	return library_outer != NULL;
}

uint64_t c_library_call(uint64_t n)
{
	return library_outer(n) + 1;
}
