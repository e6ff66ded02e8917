#include "sample/perf_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "sample/perf_denied.h"

#define RING_BYTES (512u << 10) /* a power of two of pages, of whatever size */
#define MAX_CHAIN 127
/* Descriptors that are not for events. */
#define SPARE_FILES 64

/*
 * A ring for each processor; each thread has an event on each processor, which writes to that
 * processor's ring. (An event that is inherited and follows its thread over all processors cannot
 * be mapped: kernel/events/core.c, perf_mmap.)
 */
struct ring {
	int fd; /* of the event that owns it */
	struct perf_event_mmap_page *page;
};

struct perf_events {
	struct ring *rings;
	size_t ring_count;
	int *fds;
	size_t fd_count;
	size_t fd_capacity;
	size_t page_size;
	enum machine machine;
	struct perf_event_attr attr;
	uint64_t lost;
	size_t unseen; /* threads without events */
	uint8_t *copy; /* of a record that wraps around the ring's end */
	pid_t pid;
};

/* The registers of a sample: which the kernel shall give (asm/perf_regs.h of either processor), and
 * what DWARF calls them, in that order. */
static const struct sampled_registers {
	uint64_t mask;
	uint8_t count;
	uint8_t numbers[REGISTERS_MAX];
} sampled_registers[] = {
	/* ax bx cx dx si di bp sp ip; r8 to r15 behind flags and segments */
	[MACHINE_AMD64] = {0xff01ff,
			   17,
			   {AMD64_RAX, AMD64_RBX, AMD64_RCX, AMD64_RDX, AMD64_RSI, AMD64_RDI,
			    AMD64_RBP, AMD64_RSP, AMD64_PC, 8, 9, 10, 11, 12, 13, 14, 15}},
	/* x0 to x29, lr, sp, pc: as in DWARF */
	[MACHINE_ARM64] = {0x1ffffffffull, 33, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
						11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
						22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32}},
};

static int event_open(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	return syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static struct error *open_failed(struct perf_event_attr *attr, int err)
{
	bool kernel = !attr->exclude_callchain_kernel;

	switch (err) {
	case EACCES:
	case EPERM:
	case ENOSYS:
		return kernel ? perf_kernel_denied(err) : perf_denied(err);
	case EMFILE:
	case ENFILE:
		return error_format(ERROR_FAILED,
				    "too many threads for the limit of open files; raise it "
				    "(ulimit -n)");
	default:
		return error_errno(ERROR_FAILED, err, "cannot sample running threads");
	}
}

static void set_attr(struct perf_events *p, const struct perf_options *o)
{
	p->attr = (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(p->attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1e9 / o->hz,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
			       PERF_SAMPLE_STACK_USER,
		.disabled = 1,
		.inherit = 1,
		.exclude_hv = 1,
		.exclude_callchain_kernel = !o->kernel,
		.watermark = 1,
		.wakeup_watermark = RING_BYTES / 2,
		.sample_max_stack = MAX_CHAIN,
		.sample_regs_user = sampled_registers[o->machine].mask,
		.sample_stack_user = o->stack_size,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
}

static struct error *add_fd(struct perf_events *p, int fd)
{
	if (!array_reserve(&p->fds, &p->fd_capacity, p->fd_count + 1)) {
		close(fd);
		return &error_no_memory;
	}
	p->fds[p->fd_count++] = fd;
	return NULL;
}

static struct error *map_ring(struct perf_events *p, struct ring *ring, int fd)
{
	void *page =
		mmap(NULL, RING_BYTES + p->page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED && (errno == EPERM || errno == ENOMEM))
		return error_format(ERROR_DENIED, "not enough memory may be locked for sampling; "
						  "raise kernel.perf_event_mlock_kb or ulimit -l");
	if (page == MAP_FAILED)
		return error_errno(ERROR_FAILED, errno, "cannot map the ring of samples");
	*ring = (struct ring){fd, page};
	return NULL;
}

/* One thread on one processor. A thread that has ended meanwhile is no error. */
static struct error *open_event(struct perf_events *p, pid_t tid, size_t cpu)
{
	struct ring *ring = &p->rings[cpu];
	struct error *err;
	int fd = event_open(&p->attr, tid, cpu);

	/* Who may not look into the kernel may still look at user code. */
	if (fd < 0 && (errno == EACCES || errno == EPERM) && !p->attr.exclude_kernel &&
	    p->attr.exclude_callchain_kernel) {
		p->attr.exclude_kernel = 1;
		fd = event_open(&p->attr, tid, cpu);
	}
	if (fd < 0 && (errno == ESRCH || errno == ENODEV))
		return NULL;
	if (fd < 0)
		return open_failed(&p->attr, errno);
	err = add_fd(p, fd);
	if (err)
		return err;
	if (!ring->page)
		return map_ring(p, ring, fd);
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd))
		return error_errno(ERROR_FAILED, errno, "cannot join the rings of samples");
	return NULL;
}

/*
 * So many descriptors are needed; the soft limit may be too low, the hard one rarely is. Some are
 * left for files. Gives how many there may be.
 */
static size_t raise_file_limit(size_t want)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return want;
	if (limit.rlim_cur < want + SPARE_FILES) {
		limit.rlim_cur =
			want + SPARE_FILES < limit.rlim_max ? want + SPARE_FILES : limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	return limit.rlim_cur > SPARE_FILES ? limit.rlim_cur - SPARE_FILES : 0;
}

static struct error *open_all(struct perf_events *p, const pid_t *tids, size_t count)
{
	size_t most = raise_file_limit(count * p->ring_count) / p->ring_count;
	struct error *err = NULL;

	if (count > most) {
		p->unseen = count - (most ? most : 1);
		count -= p->unseen;
	}
	for (size_t i = 0; !err && i < count; i++)
		for (size_t cpu = 0; !err && cpu < p->ring_count; cpu++)
			err = open_event(p, tids[i], cpu);
	for (size_t i = 0; !err && i < p->fd_count; i++)
		if (ioctl(p->fds[i], PERF_EVENT_IOC_ENABLE, 0))
			err = error_errno(ERROR_FAILED, errno, "cannot start sampling");
	return err;
}

struct error *perf_events_open(pid_t pid, const pid_t *tids, size_t count,
			       const struct perf_options *options, struct perf_events **ret)
{
	_cleanup_perf_events_ struct perf_events *p = calloc(1, sizeof(*p));
	struct error *err;

	if (!p)
		return &error_no_memory;
	p->pid = pid;
	p->machine = options->machine;
	p->page_size = sysconf(_SC_PAGESIZE);
	p->ring_count = sysconf(_SC_NPROCESSORS_CONF);
	p->rings = calloc(p->ring_count, sizeof(*p->rings));
	p->copy = malloc(UINT16_MAX + 1);
	if (!p->rings || !p->copy)
		return &error_no_memory;
	set_attr(p, options);
	err = open_all(p, tids, count);
	if (err)
		return err;
	*ret = take_ptr(p);
	return NULL;
}

void perf_events_close(struct perf_events *p)
{
	if (!p)
		return;
	for (size_t i = 0; p->rings && i < p->ring_count; i++)
		if (p->rings[i].page)
			munmap(p->rings[i].page, RING_BYTES + p->page_size);
	for (size_t i = 0; i < p->fd_count; i++)
		close(p->fds[i]);
	free(p->rings);
	free(p->fds);
	free(p->copy);
	free(p);
}

/* The words of a record, checked against its end. */
struct words {
	const uint64_t *at;
	const uint64_t *end;
	bool failed;
};

static uint64_t word(struct words *w)
{
	if (w->at >= w->end) {
		w->failed = true;
		return 0;
	}
	return *w->at++;
}

static const uint64_t *take_words(struct words *w, uint64_t count)
{
	const uint64_t *at = w->at;

	if (count > (uint64_t)(w->end - w->at)) {
		w->failed = true;
		return NULL;
	}
	w->at += count;
	return at;
}

/* The part of a call chain behind its marker, up to the next one. */
static const uint64_t *chain_part(const uint64_t *chain, uint64_t count, uint64_t marker,
				  size_t *ret_count)
{
	uint64_t begin = 0, end;

	while (begin < count && chain[begin] != marker)
		begin++;
	begin += begin < count;
	for (end = begin; end < count && chain[end] < (uint64_t)PERF_CONTEXT_MAX;)
		end++;
	*ret_count = end - begin;
	return chain + begin;
}

static void split_chain(const uint64_t *chain, uint64_t count, struct perf_sample *s)
{
	s->chain = chain_part(chain, count, PERF_CONTEXT_USER, &s->chain_count);
	s->kernel = chain_part(chain, count, PERF_CONTEXT_KERNEL, &s->kernel_count);
}

/* The order of fields is that of perf_event_open(2), PERF_RECORD_SAMPLE. */
static bool parse_sample(const struct perf_events *p, const struct perf_event_header *h,
			 const struct sampled_registers *regs, struct perf_sample *ret)
{
	struct words w = {(const uint64_t *)(h + 1), (const uint64_t *)h + h->size / 8, false};
	uint64_t ids, count, size;
	const uint64_t *values;

	*ret = (struct perf_sample){.in_kernel = (h->misc & PERF_RECORD_MISC_CPUMODE_MASK) ==
						 PERF_RECORD_MISC_KERNEL};
	word(&w); /* ip */
	ids = word(&w);
	ret->pid = (uint32_t)ids;
	ret->tid = ids >> 32;
	ret->time = word(&w);
	count = word(&w);
	values = take_words(&w, count);
	if (values)
		split_chain(values, count, ret);
	if (!word(&w)) /* abi: a thread of the kernel has no user registers */
		return false;
	values = take_words(&w, regs->count);
	if (!values)
		return false;
	for (uint8_t i = 0; i < regs->count; i++)
		registers_set(&ret->regs, regs->numbers[i], values[i]);
	size = word(&w);
	values = take_words(&w, size / 8);
	ret->stack = (const uint8_t *)values;
	ret->stack_size = size ? word(&w) : 0; /* what was really copied */
	return !w.failed && ret->stack_size <= size && ret->pid == p->pid;
}

static struct error *take_record(struct perf_events *p, const struct perf_event_header *h,
				 struct error *(*take)(void *, const struct perf_sample *),
				 void *arg)
{
	const struct sampled_registers *regs = &sampled_registers[p->machine];
	struct perf_sample sample;

	if (h->type == PERF_RECORD_LOST)
		p->lost += ((const uint64_t *)(h + 1))[1];
	if (h->type != PERF_RECORD_SAMPLE || !parse_sample(p, h, regs, &sample))
		return NULL;
	return take(arg, &sample);
}

/* The record at this place, whole: a copy of one that wraps around. */
static const struct perf_event_header *record_at(struct perf_events *p, const uint8_t *data,
						 size_t size, uint64_t at)
{
	const struct perf_event_header *h = (const void *)(data + at % size);
	size_t first = size - at % size;

	if (h->size <= first)
		return h;
	memcpy(p->copy, h, first);
	memcpy(p->copy + first, data, h->size - first);
	return (const struct perf_event_header *)p->copy;
}

static struct error *drain_ring(struct perf_events *p, struct ring *ring,
				struct error *(*take)(void *, const struct perf_sample *),
				void *arg)
{
	const uint8_t *data = (const uint8_t *)ring->page + p->page_size;
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;
	struct error *err = NULL;

	while (!err && tail < head) {
		const struct perf_event_header *h = record_at(p, data, RING_BYTES, tail);

		if (h->size < sizeof(*h))
			break;
		err = take_record(p, h, take, arg);
		tail += h->size;
	}
	__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
	return err;
}

struct error *perf_events_drain(struct perf_events *p,
				struct error *(*take)(void *, const struct perf_sample *),
				void *arg)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < p->ring_count; i++)
		if (p->rings[i].page)
			err = drain_ring(p, &p->rings[i], take, arg);
	return err;
}

uint64_t perf_events_lost(const struct perf_events *p)
{
	return p->lost;
}

size_t perf_events_unseen(const struct perf_events *p)
{
	return p->unseen;
}

uint64_t perf_events_period(const struct perf_events *p)
{
	return p->attr.sample_period;
}

bool perf_events_see_kernel(const struct perf_events *p)
{
	return !p->attr.exclude_kernel;
}
