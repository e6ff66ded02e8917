#include "oncpu/perf_events.h"

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
#include "base/cpus.h"
#include "base/door.h"
#include "base/permit.h"
#include "oncpu/bpf.h"
#include "oncpu/perf_denied.h"

#define RING_BYTES (512u << 10) /* a power of two of pages, of whatever size */
#define MAX_CHAIN 127
/* Descriptors that are kept for other uses. */
#define SPARE_FILES 64
/* A sample of a thread that leaves its CPU costs the target 1 us, and 1.3 KB of a ring. */
#define MAX_SWITCHES 10000 /* a second */
#define SECOND 1000000000u

/*
 * Each CPU has a ring. Each thread has an event on each CPU, which writes to that CPU's ring. (An
 * inherited event that follows its thread over all CPUs cannot be mapped: kernel/events/core.c,
 * perf_mmap.)
 */
struct ring {
	int fd; /* of the event that owns it */
	struct perf_event_mmap_page *page;
	uint64_t tail; /* while it is drained */
	uint64_t head;
	uint64_t *note; /* the program's output for the next sample */
	size_t note_size;
	pid_t note_tid;
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
	size_t unseen;    /* threads without events */
	size_t no_device; /* events that failed with ENODEV: all of them in gVisor */
	/* Events of context switches are opened last, so their ids are the largest. 0: none. An
	 * event that a later thread inherits has the id of its parent event. */
	uint64_t first_switch_id;
	/* The same for the events that the program writes to, one for each CPU. */
	uint64_t first_output_id;
	uint64_t last_output_id;
	struct error *no_program;
	size_t first_switch_fd;
	bool sees_switches;
	uint64_t second; /* when the count of switches began */
	size_t switches;
	uint8_t *copy; /* of a record that wraps around the ring's end */
	pid_t pid;
};

/* Which registers of a sample the kernel shall record (asm/perf_regs.h of each architecture), and
 * their DWARF numbers in that order. */
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
		return error_format(
			ERROR_FAILED,
			"too many open files: sampling needs a file for each thread; raise the "
			"limit (ulimit -n)");
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
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			       PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
			       PERF_SAMPLE_STACK_USER,
		.disabled = 1,
		.inherit = 1,
		.exclude_hv = 1,
		.sample_id_all = 1,
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
		return error_format(
			ERROR_DENIED,
			"cannot lock enough memory for sampling; raise kernel.perf_event_mlock_kb "
			"or ulimit -l");
	if (page == MAP_FAILED)
		return error_errno(ERROR_FAILED, errno, "cannot map a perf ring buffer");
	*ring = (struct ring){.fd = fd, .page = page};
	return NULL;
}

/* Opens the event of one thread on one CPU. A thread that has ended meanwhile is no error. */
static struct error *open_event(struct perf_events *p, pid_t tid, size_t cpu)
{
	struct ring *ring = &p->rings[cpu];
	struct error *err;
	int fd = door_perf_event(&p->attr, tid, cpu);

	/* Without permission for kernel samples, user code can still be sampled. */
	if (fd < 0 && (errno == EACCES || errno == EPERM) && !p->attr.exclude_kernel &&
	    p->attr.exclude_callchain_kernel) {
		p->attr.exclude_kernel = 1;
		fd = door_perf_event(&p->attr, tid, cpu);
	}
	p->no_device += fd < 0 && errno == ENODEV;
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
		return error_errno(ERROR_FAILED, errno,
				   "cannot redirect perf events to a shared ring buffer");
	return NULL;
}

/*
 * Raises the soft limit of descriptors to `want`, as far as the hard limit permits. Returns how
 * many may be used for events; some are kept for files.
 */
static size_t raise_file_limit(size_t want)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return want;
	if (limit.rlim_cur < want + SPARE_FILES && permitted(PERMIT_LIMITS)) {
		limit.rlim_cur =
			want + SPARE_FILES < limit.rlim_max ? want + SPARE_FILES : limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	return limit.rlim_cur > SPARE_FILES ? limit.rlim_cur - SPARE_FILES : 0;
}

/* False: not available. */
static bool open_switch(struct perf_events *p, struct perf_event_attr *attr, pid_t tid, size_t cpu)
{
	struct ring *ring = &p->rings[cpu];
	int fd = ring->page ? door_perf_event(attr, tid, cpu) : -1;
	uint64_t id;

	if (!ring->page || (fd < 0 && (errno == ESRCH || errno == ENODEV)))
		return true;
	if (fd < 0 || error_dropped(add_fd(p, fd)) || ioctl(fd, PERF_EVENT_IOC_ID, &id) ||
	    ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd))
		return false;
	if (!p->first_switch_id)
		p->first_switch_id = id;
	return true;
}

/* Events that were opened before one failed stay open, and are never enabled. */
static void open_switches(struct perf_events *p, const pid_t *tids, size_t count)
{
	struct perf_event_attr attr = p->attr;

	attr.config = PERF_COUNT_SW_CONTEXT_SWITCHES;
	attr.sample_period = 1;
	attr.context_switch = 1;
	p->first_switch_fd = p->fd_count;
	for (size_t i = 0; i < count; i++)
		for (size_t cpu = 0; cpu < p->ring_count; cpu++)
			if (!open_switch(p, &attr, tids[i], cpu))
				return;
	p->sees_switches = p->first_switch_id != 0;
}

static void stop_switches(struct perf_events *p)
{
	p->sees_switches = false;
	for (size_t i = p->first_switch_fd; i < p->fd_count; i++)
		ioctl(p->fds[i], PERF_EVENT_IOC_DISABLE, 0);
}

/* Opens the event that the program writes to on this CPU. The output comes before the sample in the
 * ring. */
static struct error *open_output(struct perf_events *p, const struct perf_program *program,
				 uint32_t cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_BPF_OUTPUT,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			       PERF_SAMPLE_TIME | PERF_SAMPLE_RAW,
		.sample_id_all = 1,
		.watermark = 1,
		.wakeup_watermark = RING_BYTES / 2,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	struct ring *ring = &p->rings[cpu];
	int fd = door_perf_event(&attr, -1, cpu);
	struct error *err;

	if (fd < 0)
		return open_failed(&p->attr, errno);
	err = add_fd(p, fd);
	if (err)
		return err;
	ring->note = malloc(UINT16_MAX + 1);
	if (!ring->note)
		return &error_no_memory;
	if (ioctl(fd, PERF_EVENT_IOC_ID, &p->last_output_id) ||
	    ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd))
		return error_errno(ERROR_FAILED, errno,
				   "cannot redirect perf events to a shared ring buffer");
	if (!p->first_output_id)
		p->first_output_id = p->last_output_id;
	return bpf_map_put(program->outputs, &cpu, &fd);
}

/* Parts that were opened before a failure stay open, and nothing writes to them. */
static struct error *open_program(struct perf_events *p, const struct perf_program *program)
{
	size_t events = p->fd_count;
	struct error *err = NULL;

	for (size_t cpu = 0; !err && cpu < p->ring_count; cpu++)
		if (p->rings[cpu].page)
			err = open_output(p, program, cpu);
	for (size_t i = 0; !err && i < events; i++)
		if (ioctl(p->fds[i], PERF_EVENT_IOC_SET_BPF, program->fd))
			err = error_errno(ERROR_FAILED, errno,
					  "this kernel cannot run eBPF programs on perf samples");
	return err;
}

static struct error *open_samples(struct perf_events *p, const pid_t *tids, size_t count,
				  const struct perf_program *program)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < count; i++)
		for (size_t cpu = 0; !err && cpu < p->ring_count; cpu++)
			err = open_event(p, tids[i], cpu);
	if (!err && count && p->no_device == count * p->ring_count)
		err = open_failed(&p->attr, ENOSYS);
	if (!err && program)
		p->no_program = open_program(p, program);
	return err;
}

static struct error *open_all(struct perf_events *p, const pid_t *tids, size_t count,
			      const struct perf_options *o)
{
	size_t want = count * p->ring_count * (o->switches ? 2 : 1);
	size_t may =
		raise_file_limit(want < PERF_MOST_EVENTS ? want + p->ring_count : PERF_MOST_EVENTS);
	size_t most;
	struct error *err;
	size_t enabled;

	if (may > PERF_MOST_EVENTS)
		may = PERF_MOST_EVENTS;
	most = may / p->ring_count;
	if (count > most) {
		p->unseen = count - (most ? most : 1);
		count -= p->unseen;
	}
	err = open_samples(p, tids, count, o->program);
	enabled = p->fd_count;
	if (!err && o->switches && may >= want && !p->attr.exclude_kernel)
		open_switches(p, tids, count);
	if (p->sees_switches)
		enabled = p->fd_count;
	for (size_t i = 0; !err && i < enabled; i++)
		if (ioctl(p->fds[i], PERF_EVENT_IOC_ENABLE, 0))
			err = error_errno(ERROR_FAILED, errno, "cannot enable the perf events");
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
	p->ring_count = cpus_configured();
	p->rings = calloc(p->ring_count, sizeof(*p->rings));
	p->copy = malloc(UINT16_MAX + 1);
	if (!p->rings || !p->copy)
		return &error_no_memory;
	set_attr(p, options);
	err = open_all(p, tids, count, options);
	if (err)
		return err;
	*ret = take_ptr(p);
	return NULL;
}

void perf_events_close(struct perf_events *p)
{
	if (!p)
		return;
	for (size_t i = 0; p->rings && i < p->ring_count; i++) {
		if (p->rings[i].page)
			munmap(p->rings[i].page, RING_BYTES + p->page_size);
		free(p->rings[i].note);
	}
	error_destroy(p->no_program);
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

/* The part of a callchain between this marker and the next one. */
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

static bool is_of_switch(const struct perf_events *p, uint64_t id)
{
	return p->first_switch_id && id >= p->first_switch_id;
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
	ret->what = is_of_switch(p, word(&w)) ? PERF_LEAVES : PERF_RAN;
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
	ret->stack_size = size ? word(&w) : 0; /* the bytes really copied */
	return !w.failed && ret->stack_size <= size && ret->pid == p->pid;
}

/* A thread that leaves or returns to a CPU: PERF_RECORD_SWITCH, which has only a sample_id. */
static bool parse_switch(const struct perf_events *p, const struct perf_event_header *h,
			 struct perf_sample *ret)
{
	struct words w = {(const uint64_t *)(h + 1), (const uint64_t *)h + h->size / 8, false};
	uint64_t ids = word(&w);

	*ret = (struct perf_sample){.pid = (uint32_t)ids, .tid = ids >> 32, .time = word(&w)};
	if (!(h->misc & PERF_RECORD_MISC_SWITCH_OUT))
		ret->what = PERF_CAME;
	else if (h->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT)
		ret->what = PERF_STOPPED;
	else
		ret->what = PERF_LEFT;
	return !w.failed && ret->pid == p->pid;
}

/* False: the sample is not handed over. */
static bool count_switch(struct perf_events *p, const struct perf_sample *sample)
{
	if (!p->sees_switches || sample->what != PERF_LEAVES)
		return p->sees_switches;
	if (sample->time - p->second > SECOND) {
		p->second = sample->time;
		p->switches = 0;
	}
	if (++p->switches > MAX_SWITCHES)
		stop_switches(p);
	return p->sees_switches;
}

static bool is_note(const struct perf_events *p, const struct perf_event_header *h)
{
	uint64_t id = h->size >= sizeof(*h) + 8 ? *(const uint64_t *)(h + 1) : 0;

	return h->type == PERF_RECORD_SAMPLE && p->first_output_id && id >= p->first_output_id &&
	       id <= p->last_output_id;
}

/* Keeps the program's output. The same interrupt writes the sample right behind it. Layout behind
 * the header: id, ip, ids, time, 32 bits of size, the bytes. */
static void keep_note(struct ring *ring, const struct perf_event_header *h)
{
	const uint8_t *bytes = (const uint8_t *)h;
	const size_t at = sizeof(*h) + 4 * 8 + sizeof(uint32_t);
	uint32_t size;

	ring->note_size = 0;
	if (h->size < at)
		return;
	memcpy(&size, bytes + at - sizeof(size), sizeof(size));
	if (size > h->size - at)
		return;
	memcpy(&ring->note_tid, bytes + sizeof(*h) + 2 * 8 + 4, sizeof(ring->note_tid));
	memcpy(ring->note, bytes + at, size);
	ring->note_size = size;
}

static void add_note(struct ring *ring, struct perf_sample *s)
{
	if (s->what != PERF_RAN || !ring->note_size)
		return;
	if (s->tid == ring->note_tid) {
		s->note = ring->note;
		s->note_size = ring->note_size;
	}
	ring->note_size = 0;
}

/* Counts lost records: samples, and program outputs for them. */
static void count_lost(struct perf_events *p, struct ring *ring, uint64_t records)
{
	ring->note_size = 0;
	p->lost += p->first_output_id ? (records + 1) / 2 : records;
}

static struct error *take_record(struct perf_events *p, struct ring *ring,
				 const struct perf_event_header *h,
				 struct error *(*take)(void *, const struct perf_sample *),
				 void *arg)
{
	const struct sampled_registers *regs = &sampled_registers[p->machine];
	struct perf_sample sample;
	bool parsed = false;

	if (is_note(p, h)) {
		keep_note(ring, h);
		return NULL;
	}
	if (h->type == PERF_RECORD_LOST) {
		count_lost(p, ring, ((const uint64_t *)(h + 1))[1]);
	} else if (h->type == PERF_RECORD_SAMPLE) {
		parsed = parse_sample(p, h, regs, &sample);
	} else if (h->type == PERF_RECORD_SWITCH) {
		parsed = parse_switch(p, h, &sample);
	}
	if (!parsed || (sample.what != PERF_RAN && !count_switch(p, &sample)))
		return NULL;
	add_note(ring, &sample);
	return take(arg, &sample);
}

static const uint8_t *ring_data(const struct perf_events *p, const struct ring *ring)
{
	return (const uint8_t *)ring->page + p->page_size;
}

/* The record at the ring's tail, whole: a copy of one that wraps around. */
static const struct perf_event_header *next_record(struct perf_events *p, const struct ring *ring)
{
	const uint8_t *data = ring_data(p, ring);
	const struct perf_event_header *h = (const void *)(data + ring->tail % RING_BYTES);
	size_t first = RING_BYTES - ring->tail % RING_BYTES;

	if (h->size <= first)
		return h;
	memcpy(p->copy, h, first);
	memcpy(p->copy + first, data, h->size - first);
	return (const struct perf_event_header *)p->copy;
}

/* The time of the record at the ring's tail; 0 if it has none. Words do not wrap around. */
static uint64_t next_time(const struct perf_events *p, const struct ring *ring)
{
	const uint8_t *data = ring_data(p, ring);
	const struct perf_event_header *h = (const void *)(data + ring->tail % RING_BYTES);
	/* id, ip and ids precede it in a sample, ids in a switch. */
	size_t at = h->type == PERF_RECORD_SAMPLE ? 32 : h->type == PERF_RECORD_SWITCH ? 16 : 0;

	if (!at || h->size < at + 8)
		return 0;
	return *(const uint64_t *)(data + (ring->tail + at) % RING_BYTES);
}

/* The ring to take the next record from, or NULL. Switches are taken in the order of time,
 * whichever CPU they were on. */
static struct ring *next_ring(const struct perf_events *p)
{
	uint64_t oldest = UINT64_MAX;
	struct ring *found = NULL;

	for (size_t i = 0; i < p->ring_count; i++) {
		struct ring *ring = &p->rings[i];
		uint64_t time;

		if (ring->tail >= ring->head)
			continue;
		if (!p->sees_switches)
			return ring;
		time = next_time(p, ring);
		if (found && time >= oldest)
			continue;
		oldest = time;
		found = ring;
	}
	return found;
}

static void begin_drain(struct ring *ring)
{
	ring->head = ring->tail = 0;
	if (!ring->page)
		return;
	ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	ring->tail = ring->page->data_tail;
}

static void end_drain(struct ring *ring)
{
	if (ring->page)
		__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
}

struct error *perf_events_drain(struct perf_events *p,
				struct error *(*take)(void *, const struct perf_sample *),
				void *arg)
{
	struct error *err = NULL;
	struct ring *ring;

	for (size_t i = 0; i < p->ring_count; i++)
		begin_drain(&p->rings[i]);
	while (!err && (ring = next_ring(p))) {
		const struct perf_event_header *h = next_record(p, ring);

		if (h->size < sizeof(*h)) {
			ring->head = ring->tail;
			continue;
		}
		err = take_record(p, ring, h, take, arg);
		ring->tail += h->size;
	}
	for (size_t i = 0; i < p->ring_count; i++)
		end_drain(&p->rings[i]);
	return err;
}

const struct error *perf_events_no_program(const struct perf_events *p)
{
	return p->no_program;
}

bool perf_events_see_switches(const struct perf_events *p)
{
	return p->sees_switches;
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
