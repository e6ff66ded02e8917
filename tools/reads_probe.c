/*
 * Runs `dump --all` on a core file and prints which bytes of the core and of its program it reads:
 * a recorded fixture needs these. tools/record-fixture runs it.
 *
 * The core is read by pread(), so those calls are noted. The program's file is mapped and read in
 * place, so the mapping is closed (PROT_NONE): each access faults, is noted, is let through for one
 * instruction (the processor's trap flag), and the mapping is closed again. Hence amd64 only. A
 * load takes at most 64 bytes; of a string instruction every round is an instruction.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/array.h"
#include "base/permit.h"
#include "cli/cli.h"

#ifndef __x86_64__
#error "reads_probe steps through instructions, which it can do on amd64 alone"
#endif

#define GRAIN 64
#define PAGE 4096ul
#define TRAP_FLAG 0x100
#define MAX_OPEN 8 /* pages that one instruction touches */

/* Functions that the linker puts in the place of those (-Wl,--wrap), as meson's
 * _FILE_OFFSET_BITS=64 names them. */
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
ssize_t __wrap_pread64(int fd, void *buffer, size_t size, off_t offset);
void *__real_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
ssize_t __real_pread64(int fd, void *buffer, size_t size, off_t offset);

static struct {
	ino_t program, core;
	uintptr_t start; /* of the closed mapping */
	size_t size;
	uint8_t *grains; /* one for each GRAIN bytes of the program: whether they were read */
	uintptr_t open[MAX_OPEN];
	size_t open_count;
	FILE *log;
} probe;

static ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	if (fd < 0 || probe.start || inode_of(fd) != probe.program)
		return __real_mmap64(at, size, protection, flags, fd, offset);
	at = __real_mmap64(at, size, PROT_NONE, flags, fd, offset);
	if (at == MAP_FAILED)
		return at;
	probe.grains = calloc(size / GRAIN + 2, 1);
	if (!probe.grains)
		abort();
	probe.start = (uintptr_t)at;
	probe.size = size;
	return at;
}

ssize_t __wrap_pread64(int fd, void *buffer, size_t size, off_t offset)
{
	ssize_t n = __real_pread64(fd, buffer, size, offset);

	if (n > 0 && inode_of(fd) == probe.core)
		fprintf(probe.log, "core %ld %zd\n", (long)offset, n);
	return n;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	ucontext_t *c = context;

	if (at - probe.start >= probe.size || probe.open_count == MAX_OPEN) {
		signal(SIGSEGV, SIG_DFL);
		return;
	}
	probe.grains[(at - probe.start) / GRAIN] = 1;
	probe.grains[(at - probe.start + GRAIN - 1) / GRAIN] = 1;
	at &= -PAGE;
	mprotect((void *)at, PAGE, PROT_READ);
	probe.open[probe.open_count++] = at;
	c->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	ucontext_t *c = context;

	while (probe.open_count)
		mprotect((void *)probe.open[--probe.open_count], PAGE, PROT_NONE);
	c->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void watch(int number, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	sigaddset(&action.sa_mask, SIGTRAP);
	sigaction(number, &action, NULL);
}

static ino_t inode_named(const char *path)
{
	struct stat st;

	if (!stat(path, &st))
		return st.st_ino;
	fprintf(stderr, "reads_probe: cannot open %s: %s\n", path, strerror(errno));
	exit(1);
}

static void log_program(void)
{
	size_t count = probe.size / GRAIN + 2, end;

	for (size_t i = 0; i < count; i = end) {
		end = i + 1;
		while (end < count && probe.grains[end] == probe.grains[i])
			end++;
		if (probe.grains[i])
			fprintf(probe.log, "program %zu %zu\n", i * GRAIN, (end - i) * GRAIN);
	}
}

int main(int argc, char **argv)
{
	char *args[] = {"dump", "--all", "--core", argv[1], "--exe", argv[2], NULL};
	_cleanup_error_ struct error *err = NULL;
	int status = 0;

	if (argc != 4) {
		fprintf(stderr, "usage: reads_probe CORE PROGRAM LOG >TEXT\n");
		return 2;
	}
	probe.core = inode_named(argv[1]);
	probe.program = inode_named(argv[2]);
	probe.log = fopen(argv[3], "w");
	if (!probe.log) {
		perror("reads_probe");
		return 1;
	}
	permit_only(PERMIT_ALL); /* files are mapped */
	watch(SIGSEGV, on_fault);
	watch(SIGTRAP, on_trap);
	err = verb_dump.run(ARRAY_SIZE(args) - 1, args, &status);
	if (err)
		fprintf(stderr, "reads_probe: %s\n", err->message);
	log_program();
	return err || status || fclose(probe.log) || fflush(stdout);
}
