/*
 * The program that the kernel runs at each sample. It has the offsets of the target's Go version as
 * constants, so each target has its own program. It has no loop and no lock, and writes only to a
 * buffer of its CPU and to the ring. At unreadable memory it stops and returns what it has.
 *
 * Registers: 6 is the context, 7 the buffer (struct cpu_sample), 8 the m.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/cpus.h"
#include "golayout/view.h"
#include "oncpu/bpf.h"
#include "oncpu/cpu_sample.h"

#define MAX_THREADS 8192 /* the least recently seen are forgotten */
#define ALL_BITS (-1)
#define MIN_TOPHASH 5
enum { CONTEXT = 6, BUFFER = 7, MACHINE = 8, FRAME = 10 };

/* The places that jumps lead to. STRINGS and later: behind each string. */
enum place {
	BY_REGISTER,
	HAVE_M,
	LABELS,
	WITH_LABELS,
	WITHOUT_LABELS,
	LEFT,
	WRITE,
	DONE,
	CLAMP,
	NEXT_SERVED,
	SERVED,
	STRINGS
};

#define ALL_BYTES ((int)sizeof(((struct cpu_sample *)0)->bytes))
#define AT(field) ((int)offsetof(struct cpu_sample, field))

struct sample_program {
	int program;
	int buffers;
	int threads;
	int outputs;
	int places; /* struct served_place, SERVED_PLACES of them */
};

/* Where the interrupt saved the user's registers (struct pt_regs, struct user_pt_regs), and how
 * they show that user code was interrupted. */
static const struct interrupted {
	int16_t g;
	int16_t mode;
	int32_t mask;
	int32_t user;
} interrupted[] = {
	[MACHINE_AMD64] = {.g = 8, .mode = 136, .mask = 3, .user = 3},       /* r14, cs */
	[MACHINE_ARM64] = {.g = 28 * 8, .mode = 264, .mask = 15, .user = 0}, /* x28, pstate */
};

/* Copies the bytes at the address in register 3 to the buffer. If they are unreadable, it continues
 * at `otherwise`. */
static void read_bytes(struct bpf_code *c, int to, int size, int otherwise)
{
	bpf_copy(c, 1, BUFFER);
	bpf_add(c, 1, to);
	bpf_set(c, 2, size);
	bpf_call(c, BPF_FUNC_probe_read_user);
	bpf_jump_if(c, BPF_JNE, 0, 0, otherwise);
}

static void set_field(struct bpf_code *c, int field, int32_t value)
{
	bpf_set(c, 1, value);
	bpf_store(c, 8, BUFFER, field, 1);
}

/* Makes R0 point to the map's value for the 4 bytes of register `key`. */
static void look_up(struct bpf_code *c, int map, int key, int otherwise)
{
	bpf_store(c, 4, FRAME, -4, key);
	bpf_copy(c, 2, FRAME);
	bpf_add(c, 2, -4);
	bpf_set_map(c, 1, map);
	bpf_call(c, BPF_FUNC_map_lookup_elem);
	bpf_jump_if(c, BPF_JEQ, 0, 0, otherwise);
}

static void find_buffer(struct bpf_code *c, const struct sample_program *p)
{
	bpf_copy(c, CONTEXT, 1);
	bpf_set(c, 1, 0);
	look_up(c, p->buffers, 1, DONE);
	bpf_copy(c, BUFFER, 0);
}

static void find_m(struct bpf_code *c, const struct sample_program *p, const struct golayout *lay,
		   enum machine machine)
{
	const struct interrupted *regs = &interrupted[machine];

	bpf_call(c, BPF_FUNC_get_current_pid_tgid);
	look_up(c, p->threads, 0, BY_REGISTER);
	bpf_load(c, 8, MACHINE, 0, 0);
	bpf_jump(c, HAVE_M);

	bpf_place(c, BY_REGISTER);
	bpf_load(c, 8, 1, CONTEXT, regs->mode);
	bpf_operate(c, BPF_AND, 1, regs->mask);
	bpf_jump_if(c, BPF_JNE, 1, regs->user, DONE);
	bpf_load(c, 8, 3, CONTEXT, regs->g);
	bpf_add(c, 3, lay->n.g_m);
	read_bytes(c, AT(g), 8, DONE);
	bpf_load(c, 8, MACHINE, BUFFER, AT(g));
	bpf_place(c, HAVE_M);
}

/* Reads a field of the m. */
static void read_m(struct bpf_code *c, int to, int32_t offset)
{
	if (offset == GOLAYOUT_ABSENT) {
		set_field(c, to, 0);
		return;
	}
	bpf_copy(c, 3, MACHINE);
	bpf_add(c, 3, offset);
	read_bytes(c, to, 8, DONE);
}

/* Reads fields of g through the end of the buffer: one copy of the whole g is faster than one for
 * each field. */
static void read_goroutine(struct bpf_code *c, const struct golayout_numbers *n)
{
	const struct {
		int to;
		int32_t from;
	} fields[] = {
		{AT(stack_lo), n->g_stack_lo}, {AT(stack_hi), n->g_stack_hi},
		{AT(sched_sp), n->g_sched_sp}, {AT(sched_pc), n->g_sched_pc},
		{AT(sched_lr), n->g_sched_lr}, {AT(startpc), n->g_startpc},
		{AT(goid), n->g_goid},         {AT(labels), n->g_labels},
	};

	bpf_load(c, 8, 3, BUFFER, AT(g));
	bpf_jump_if(c, BPF_JEQ, 3, 0, DONE);
	read_bytes(c, AT(bytes), golayout_g_bytes(n), DONE);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		bpf_load(c, 8, 1, BUFFER, AT(bytes) + fields[i].from);
		bpf_store(c, 8, BUFFER, fields[i].to, 1);
	}
	bpf_load(c, 1, 1, BUFFER, AT(bytes) + n->g_tracking_seq);
	bpf_store(c, 8, BUFFER, AT(ran), 1);
}

/*
 * The callee of systemstack begins at g0.sched.sp, and saves the goroutine's frame pointer below
 * its return address. If that is unreadable, the kernel leaves 0.
 */
static void read_left_fp(struct bpf_code *c, const struct golayout_numbers *n)
{
	bpf_copy(c, 3, MACHINE);
	bpf_add(c, 3, n->m_g0);
	read_bytes(c, AT(left_fp), 8, LEFT);
	bpf_load(c, 8, 3, BUFFER, AT(left_fp));
	bpf_add(c, 3, n->g_sched_sp);
	read_bytes(c, AT(left_fp), 8, LEFT);
	bpf_load(c, 8, 3, BUFFER, AT(left_fp));
	bpf_add(c, 3, -16);
	read_bytes(c, AT(left_fp), 8, LEFT);
	bpf_place(c, LEFT);
}

static void read_stack(struct bpf_code *c)
{
	set_field(c, AT(parked_size), 0);
	bpf_load(c, 8, 3, BUFFER, AT(sched_sp));
	bpf_jump_if(c, BPF_JEQ, 3, 0, LABELS);
	read_bytes(c, AT(parked), CPU_SAMPLE_PARKED, LABELS);
	set_field(c, AT(parked_size), CPU_SAMPLE_PARKED);
	bpf_place(c, LABELS);
}

/* Reads the pointer at `offset`, a field of the place in register 8, behind the pointer in register
 * 3. */
static void read_behind(struct bpf_code *c, int to, int offset)
{
	bpf_load(c, 4, 2, MACHINE, offset);
	bpf_add_register(c, 3, 2);
	read_bytes(c, to, 8, NEXT_SERVED);
	bpf_load(c, 8, 3, BUFFER, to);
}

/* The words that show which request is served. The m is no longer needed. */
static void read_served(struct bpf_code *c, const struct sample_program *p)
{
	for (size_t i = 0; i < sizeof(((struct cpu_sample *)0)->served); i += 8)
		set_field(c, AT(served) + i, 0);
	bpf_set(c, 1, 0);
	look_up(c, p->places, 1, SERVED);
	bpf_copy(c, MACHINE, 0);
	for (int i = 0; i < SERVED_PLACES; i++) {
		int from = i * sizeof(struct served_place);
		int to = AT(served) + i * sizeof(struct served_words);

		bpf_load(c, 4, 2, MACHINE, from);
		bpf_jump_if(c, BPF_JEQ, 2, 0, NEXT_SERVED);
		bpf_operate(c, BPF_MUL, 2, -1);
		bpf_load(c, 8, 3, BUFFER, AT(stack_hi));
		bpf_add_register(c, 3, 2);
		read_bytes(c, to, 8, NEXT_SERVED);
		bpf_load(c, 8, 3, BUFFER, to);
		read_behind(c, to + 8, from + 4);
		read_behind(c, to + 16, from + 8);
		bpf_place(c, NEXT_SERVED);
	}
	bpf_place(c, SERVED);
}

/* Go 1.24 on: a slice of pairs of strings. */
static void read_slice(struct bpf_code *c)
{
	read_bytes(c, AT(head), 24, WITH_LABELS);
	set_field(c, AT(stage), CPU_SAMPLE_HEAD);
	bpf_load(c, 8, 2, BUFFER, AT(head) + 8);
	bpf_jump_if(c, BPF_JEQ, 2, 0, WITH_LABELS);
	bpf_jump_if(c, BPF_JLE, 2, CPU_SAMPLE_LABELS, CLAMP);
	bpf_set(c, 2, CPU_SAMPLE_LABELS);
	bpf_place(c, CLAMP);
	bpf_operate(c, BPF_LSH, 2, 5);
	bpf_copy(c, MACHINE, 2);
	bpf_load(c, 8, 3, BUFFER, AT(head));
	bpf_copy(c, 1, BUFFER);
	bpf_add(c, 1, AT(bytes));
	bpf_call(c, BPF_FUNC_probe_read_user);
	bpf_jump_if(c, BPF_JNE, 0, 0, WITH_LABELS);
	set_field(c, AT(stage), CPU_SAMPLE_LIST);
	bpf_store(c, 8, BUFFER, AT(used), MACHINE);
}

/* Up to Go 1.23: the address of a map, and its first bucket. */
static void read_map(struct bpf_code *c)
{
	read_bytes(c, AT(head), 8, WITH_LABELS);
	bpf_load(c, 8, 3, BUFFER, AT(head));
	bpf_jump_if(c, BPF_JEQ, 3, 0, WITH_LABELS);
	read_bytes(c, AT(head) + 8, 48, WITH_LABELS);
	set_field(c, AT(stage), CPU_SAMPLE_HEAD);
	bpf_load(c, 8, 3, BUFFER, AT(head) + 8 + 16);
	bpf_jump_if(c, BPF_JEQ, 3, 0, WITH_LABELS);
	read_bytes(c, AT(bytes), CPU_SAMPLE_BUCKET, WITH_LABELS);
	set_field(c, AT(stage), CPU_SAMPLE_LIST);
	set_field(c, AT(used), CPU_SAMPLE_BUCKET);
}

/* Appends the string whose pointer and length are at `at`, or its beginning. */
static void read_string(struct bpf_code *c, int at, int clamp, int clamped, int next)
{
	bpf_load(c, 8, 2, BUFFER, at + 8);
	bpf_jump_if(c, BPF_JEQ, 2, 0, next);
	bpf_jump_if(c, BPF_JLE, 2, CPU_SAMPLE_STRING, clamp);
	bpf_set(c, 2, CPU_SAMPLE_STRING);
	bpf_place(c, clamp);
	bpf_load(c, 8, 3, BUFFER, at);
	bpf_load(c, 8, 4, BUFFER, AT(used));
	bpf_jump_if(c, BPF_JGT, 4, ALL_BYTES - CPU_SAMPLE_STRING, WITH_LABELS);
	bpf_copy(c, 1, BUFFER);
	bpf_add(c, 1, AT(bytes));
	bpf_add_register(c, 1, 4);
	bpf_call(c, BPF_FUNC_probe_read_user);
	bpf_jump_if(c, BPF_JNE, 0, 0, WITH_LABELS);
	bpf_load(c, 8, 2, BUFFER, at + 8);
	bpf_jump_if(c, BPF_JLE, 2, CPU_SAMPLE_STRING, clamped);
	bpf_set(c, 2, CPU_SAMPLE_STRING);
	bpf_place(c, clamped);
	bpf_load(c, 8, 1, BUFFER, AT(used));
	bpf_add_register(c, 1, 2);
	bpf_store(c, 8, BUFFER, AT(used), 1);
	bpf_place(c, next);
}

static int place_of_key(bool maps, int i)
{
	return AT(bytes) + (maps ? 8 + 16 * i : 32 * i);
}

static int place_of_value(bool maps, int i)
{
	return place_of_key(maps, i) + (maps ? 16 * CPU_SAMPLE_LABELS : 16);
}

static void read_strings(struct bpf_code *c, bool maps)
{
	for (int i = 0; i < CPU_SAMPLE_LABELS; i++) {
		int first = STRINGS + 7 * i, skip = first + 6;

		if (maps) {
			bpf_load(c, 1, 1, BUFFER, AT(bytes) + i);
			bpf_jump_if(c, BPF_JLT, 1, MIN_TOPHASH, skip);
		} else {
			bpf_load(c, 8, 1, BUFFER, AT(head) + 8);
			bpf_jump_if(c, BPF_JLE, 1, i, WITH_LABELS);
		}
		read_string(c, place_of_key(maps, i), first, first + 1, first + 2);
		read_string(c, place_of_value(maps, i), first + 3, first + 4, first + 5);
		bpf_place(c, skip);
	}
}

static void write_buffer(struct bpf_code *c, const struct sample_program *p)
{
	bpf_place(c, WITH_LABELS);
	bpf_load(c, 8, 5, BUFFER, AT(used));
	bpf_jump_if(c, BPF_JGT, 5, ALL_BYTES, DONE);
	bpf_add(c, 5, AT(bytes));
	bpf_jump(c, WRITE);
	bpf_place(c, WITHOUT_LABELS);
	bpf_set(c, 5, AT(stage));
	bpf_place(c, WRITE);
	bpf_copy(c, 1, CONTEXT);
	bpf_set_map(c, 2, p->outputs);
	bpf_set(c, 3, ALL_BITS); /* BPF_F_CURRENT_CPU: 32 of them */
	bpf_operate(c, BPF_RSH, 3, 32);
	bpf_copy(c, 4, BUFFER);
	bpf_call(c, BPF_FUNC_perf_event_output);
	bpf_place(c, DONE);
	bpf_set(c, 0, 1); /* keep the sample itself */
	bpf_exit(c);
}

static struct error *load(struct sample_program *p, const struct golayout *lay,
			  enum machine machine)
{
	_cleanup_free_ struct bpf_code *c = calloc(1, sizeof(*c));
	bool maps = lay->minor < 24, amd64 = machine == MACHINE_AMD64;

	if (!c)
		return &error_no_memory;
	find_buffer(c, p);
	find_m(c, p, lay, machine);
	read_m(c, AT(g), lay->n.m_curg);
	read_goroutine(c, &lay->n);
	/* On amd64 registers show the caller of the vDSO. */
	read_m(c, AT(vdso_pc), amd64 ? GOLAYOUT_ABSENT : lay->n.m_vdso_pc);
	read_m(c, AT(vdso_sp), amd64 ? GOLAYOUT_ABSENT : lay->n.m_vdso_sp);
	if (amd64)
		read_left_fp(c, &lay->n);
	else
		set_field(c, AT(left_fp), 0);
	read_stack(c);
	read_served(c, p);
	set_field(c, AT(stage), CPU_SAMPLE_NOTHING);
	set_field(c, AT(used), 0);
	bpf_load(c, 8, 3, BUFFER, AT(labels));
	bpf_jump_if(c, BPF_JEQ, 3, 0, WITHOUT_LABELS);
	if (maps)
		read_map(c);
	else
		read_slice(c);
	read_strings(c, maps);
	write_buffer(c, p);
	return bpf_program_open(c, BPF_PROG_TYPE_PERF_EVENT, &p->program);
}

static struct error *open_maps(struct sample_program *p)
{
	struct error *err = bpf_map_open(BPF_MAP_TYPE_PERCPU_ARRAY, 4, sizeof(struct cpu_sample), 1,
					 &p->buffers);

	if (!err)
		err = bpf_map_open(BPF_MAP_TYPE_LRU_HASH, 4, 8, MAX_THREADS, &p->threads);
	if (!err)
		err = bpf_map_open(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, cpus_configured(),
				   &p->outputs);
	if (!err)
		err = bpf_map_open(BPF_MAP_TYPE_ARRAY, 4,
				   SERVED_PLACES * sizeof(struct served_place), 1, &p->places);
	return err;
}

enum { PROGRAM_FDS = 5 };

/* The request to the broker. It returns the descriptors in the order of struct sample_program. */
struct cpu_sample_request {
	struct golayout lay;
	enum machine machine;
};

static struct error *must_check ask_for_program(const struct golayout *lay, enum machine machine,
						struct sample_program *p)
{
	struct cpu_sample_request request = {*lay, machine};
	struct door_call call = {.size = sizeof(request)};
	struct error *err;

	memcpy(call.bytes, &request, sizeof(request));
	err = door_call(DOOR_SAMPLE_PROGRAM, &call);
	if (err)
		return err;
	if (call.fd_count != PROGRAM_FDS)
		return error_format(
			ERROR_FAILED,
			"cannot load the eBPF program: the privileged process did not receive it");
	*p = (struct sample_program){call.fds[0], call.fds[1], call.fds[2], call.fds[3],
				     call.fds[4]};
	return NULL;
}

static struct error *must_check open_program(const struct golayout *lay, enum machine machine,
					     struct sample_program *p)
{
	struct error *err;

	if (door_is_brokered())
		return ask_for_program(lay, machine, p);
	err = open_maps(p);
	return err ? err : load(p, lay, machine);
}

struct error *sample_program_serve(void *arg, struct door_call *call)
{
	struct sample_program *p = NULL;
	struct cpu_sample_request request;
	bool is_request = call->size == sizeof(request) && !call->fd_count;
	struct error *err;

	if (!is_request)
		return error_format(ERROR_FAILED,
				    "internal error: invalid request to load an eBPF program");
	memcpy(&request, call->bytes, sizeof(request));
	if (request.machine != MACHINE_AMD64 && request.machine != MACHINE_ARM64)
		return error_format(ERROR_FAILED,
				    "internal error: invalid request to load an eBPF program");
	err = sample_program_open(&request.lay, request.machine, &p);
	if (err)
		return err;
	call->size = 0;
	call->fd_count = PROGRAM_FDS;
	memcpy(call->fds,
	       (int[PROGRAM_FDS]){p->program, p->buffers, p->threads, p->outputs, p->places},
	       PROGRAM_FDS * sizeof(int));
	free(p);
	return NULL;
}

struct error *sample_program_open(const struct golayout *lay, enum machine machine,
				  struct sample_program **ret)
{
	struct sample_program *p;
	struct error *err;

	if (golayout_g_bytes(&lay->n) > ALL_BYTES)
		return error_format(
			ERROR_UNSUPPORTED,
			"the runtime's g structure is larger than the eBPF program copies");
	p = malloc(sizeof(*p));
	if (!p)
		return &error_no_memory;
	*p = (struct sample_program){-1, -1, -1, -1, -1};
	err = open_program(lay, machine, p);
	if (err) {
		sample_program_close(p);
		return err;
	}
	*ret = p;
	return NULL;
}

void sample_program_close(struct sample_program *p)
{
	if (!p)
		return;
	cleanup_close(&p->program);
	cleanup_close(&p->buffers);
	cleanup_close(&p->threads);
	cleanup_close(&p->outputs);
	cleanup_close(&p->places);
	free(p);
}

int sample_program_fd(const struct sample_program *p)
{
	return p->program;
}

int sample_program_outputs(const struct sample_program *p)
{
	return p->outputs;
}

/* If this fails, running goroutines have no names. */
void sample_program_set_places(struct sample_program *p,
			       const struct served_place places[SERVED_PLACES])
{
	uint32_t key = 0;

	error_dropped(bpf_map_put(p->places, &key, places));
}

/* If this fails, the program finds the m by the g register. */
void sample_program_set_m(struct sample_program *p, pid_t tid, uint64_t m)
{
	uint32_t key = tid;

	error_dropped(bpf_map_put(p->threads, &key, &m));
}
