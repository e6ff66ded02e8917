#include "inject/code_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

/* The `n` bytes from `offset` of the word at `address`; the others stay as they are. */
static bool poke_word(pid_t stopped, uint64_t address, size_t offset, const uint8_t *bytes,
		      size_t n)
{
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, stopped, (void *)address, NULL);
	if (errno)
		return false;
	memcpy((uint8_t *)&word + offset, bytes, n);
	return !ptrace(PTRACE_POKEDATA, stopped, (void *)address, (void *)word);
}

bool code_memory_poke(pid_t stopped, uint64_t address, const void *bytes, size_t n)
{
	const uint8_t *next = bytes;

	while (n) {
		size_t offset = address % sizeof(long), part = sizeof(long) - offset;

		part = part < n ? part : n;
		if (!poke_word(stopped, address - offset, offset, next, part))
			return false;
		address += part;
		next += part;
		n -= part;
	}
	return true;
}

struct error *code_memory_write(struct code_memory m, uint64_t address, const void *bytes, size_t n)
{
	ssize_t done = pwrite(m.file, bytes, n, (off_t)address);

	if (done == (ssize_t)n)
		return NULL;
	if (done < 0 && errno == EIO) {
		if (!m.stopped)
			return &error_fault;
		if (code_memory_poke(m.stopped, address, bytes, n))
			return NULL;
	}
	if (!done || errno == ESRCH)
		return error_format(ERROR_GONE, "process %d has exited", m.pid);
	return error_errno(ERROR_DENIED, errno, "cannot write to the code of process %d", m.pid);
}
