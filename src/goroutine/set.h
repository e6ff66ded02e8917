/* The internals of a goroutine set: for the files of this room alone. */
#ifndef GOROUTINE_SET_H
#define GOROUTINE_SET_H

#include "base/map.h"
#include "goroutine/goroutines.h"
#include "goroutine/request_names.h"
#include "target/read_plan.h"

/* A goroutine that changed, on its way to a new record. */
struct pending_read {
	uint32_t index;              /* in the set */
	const uint8_t *header;       /* in set->headers, set->again or set->batch_bytes */
	const uint8_t *first_header; /* in set->headers: valid for the whole scan */
	struct goroutine_record now;
	/* Its state at the first look, kept with options.keep_state. */
	struct goroutine_record first;
	uint64_t first_start_pc;
	uint64_t stack_end;    /* stack.hi */
	uint64_t labels;       /* g.labels */
	uint64_t tick_address; /* of m.syscalltick; 0 when it need not be read */
	uint64_t start_pc;
	const uint8_t
		*stack; /* the copy that now.stack was unwound from, from now.sp on; or NULL */
	uint32_t stack_size;
	uint16_t stack_below; /* bytes of the copy that lie before */
	bool has_m;
	bool late; /* it is read only now, with its stack; `first` is not yet known */
	bool truncated;
	bool committed;
};

struct goroutine_set {
	struct target *t;
	const struct golayout *lay;
	const struct image *img;
	struct goroutine_options options;
	struct goroutine_stats stats;
	struct stacks *stacks;
	struct label_sets labels;
	char **wait_reasons;
	size_t wait_reason_count;
	size_t coroutine_reason; /* goroutines that wait for this run uncounted; SIZE_MAX: none */
	struct map start_kinds;  /* start pc -> enum start_kind + 1 */
	struct map running;      /* start pc -> stack of running ones */
	struct map unknown;      /* start pc -> stack of unknown ones */

	/* All known goroutines, by address. */
	uint64_t *g;
	struct goroutine_record *records;
	size_t count;
	size_t capacity;
	size_t record_capacity;
	size_t read; /* entries of allgs that are among them */

	size_t header_size; /* golayout_g_bytes() */
	/* The plan of all headers, and where each is within its unit. */
	uint32_t *offsets;
	size_t offset_capacity;
	struct plan plan;
	struct goroutine_unit *units;
	size_t unit_count;
	size_t unit_capacity;
	size_t planned; /* bytes of a unit of this plan */
	uint64_t goids; /* assigned up to the last refresh */

	/* For the current scan. */
	uint8_t *headers;
	size_t headers_capacity;
	struct pending_read *pending_reads;
	size_t pending_read_count;
	size_t pending_read_capacity;
	struct plan batch;
	struct plan confirm;
	uint8_t *confirm_bytes;
	size_t confirm_capacity;
	uint8_t *batch_bytes;
	size_t batch_capacity;
	struct plan_piece *batch_pieces;
	size_t batch_piece_capacity;
	uint32_t batched; /* how many are read batched in one call; 0: not yet known */
	uint64_t call_ns; /* duration of the last call */
	uint8_t *again;   /* headers of single retries */
	struct goroutine_memory memory; /* of the goroutine that is being committed */
	uint8_t *running_bytes;         /* of the stack of the last one that ran */
	size_t running_capacity;
	struct request_names *names; /* NULL: none are read */
	uint8_t *named;              /* a header after they were read */
};

/* A header has set->header_size bytes. */
static inline struct g_view header_view(const struct goroutine_set *set, const uint8_t *header)
{
	return (struct g_view){&set->lay->n, header};
}

/* Where the goroutine left its stack, as g.sched has it. */
struct target_registers sched_of(const struct goroutine_set *set, const uint8_t *header);

/* The registers that a parked goroutine left in its g; fp is 0 where they do not belong to `r`, the
 * decoded header. */
struct target_registers parked_registers(const struct goroutine_set *set, const uint8_t *header,
					 const struct goroutine_record *r);

/* Useful bytes below SP: arm64's innermost frame record. */
static inline size_t bytes_below(const struct goroutine_set *set, uint64_t sp)
{
	return set->img->machine == MACHINE_ARM64 && sp % 4096 >= 16 ? 16 : 0;
}

/* The decoded header; stack, labels, tick and flags are 0. */
struct goroutine_record record_of(const struct goroutine_set *set, const uint8_t *header);

/* Whether both are the same goroutine, which did not run in between. */
static inline bool record_same(const struct goroutine_record *a, const struct goroutine_record *b)
{
	return a->sp == b->sp && a->pc == b->pc && a->goid == b->goid && a->key == b->key;
}

/* The g of the living goroutine with this id, found by reading all headers in pieces of about so
 * many bytes; 0 if it does not exist. */
struct error *goroutine_set_locate(struct goroutine_set *set, size_t unit_bytes, uint64_t goid,
				   uint64_t *ret) must_check;

/* From Go 1.26 on system calls do not count in trackingSeq; before, nothing but that counts. */
static inline bool record_needs_tick(const struct goroutine_set *set,
				     const struct goroutine_record *r)
{
	return set->lay->minor >= 26 && goroutine_status(r) == G_SYSCALL;
}

/* The two sides of iter.Pull take turns without counting (runtime/coro.go:coroswitch_m). */
static inline bool record_is_coroutine(const struct goroutine_set *set,
				       const struct goroutine_record *r)
{
	return goroutine_status(r) == G_WAITING &&
	       goroutine_wait_reason(r) == set->coroutine_reason;
}

/* Whether a goroutine is at the same place and did not run in between. */
bool record_unchanged(const struct goroutine_set *set, const struct goroutine_record *before,
		      const struct goroutine_record *now);

/* Finds the stacks of set->pending_reads and hands each to options.changed. */
struct error *pending_reads_commit(struct goroutine_set *set) must_check;

/* How many goroutines are read one by one in a call. */
#define CLOSE_BATCH 64

/*
 * Tries to commit at most CLOSE_BATCH. Those that moved stay pending and are packed to the front of
 * `who`; *ret_left is their number.
 */
struct error *try_one_by_one(struct goroutine_set *set, uint32_t *who, size_t count,
			     size_t *ret_left) must_check;

/* The same, cheaper, for those that are not expected to move: as many as batched_count() says. */
struct error *try_batched(struct goroutine_set *set, uint32_t *who, size_t count,
			  size_t *ret_left) must_check;
uint32_t batched_count(const struct goroutine_set *set);

/* Makes the header the goroutine's known state. */
void pending_read_take_header(const struct goroutine_set *set, struct pending_read *c,
			      const uint8_t *header);
/* Whether it is, or may be, in the state that has to be shown. */
bool pending_read_is_right(const struct goroutine_set *set, const struct pending_read *c);
/* Whether its stack can be read. */
bool pending_read_has_stack(const struct pending_read *c);
/* How many bytes of its stack are read. */
size_t pending_read_stack_size(const struct goroutine_set *set, const struct pending_read *c);
/* `bytes` are `below` bytes and then its stack from c->now.sp on. Sets c->now.stack to its number
 * or STACK_NONE. */
struct error *pending_read_unwind(struct goroutine_set *set, struct pending_read *c,
				  const uint8_t *bytes, size_t size, size_t below) must_check;
/* Ends a pending read: its record is what c->now says. */
struct error *pending_read_commit(struct goroutine_set *set, struct pending_read *c) must_check;
/* Commits without a stack: a goroutine that runs, is dead, or is getting another stack has none. */
struct error *pending_read_commit_without_stack(struct goroutine_set *set,
						struct pending_read *c) must_check;

/* Whether it has labels, and a stack that is valid so far. */
bool pending_read_wants_labels(const struct pending_read *c);
bool pending_reads_have_labels(const struct goroutine_set *set, const uint32_t *who, size_t count);
/* Reads their labels, at c->labels, into c->now.labels. */
struct error *pending_reads_read_labels(struct goroutine_set *set, const uint32_t *who,
					size_t count) must_check;

/* Where a running goroutine is. */
struct place {
	struct target_registers registers;
	bool exact; /* the thread's own registers; else only those in g.sched */
};

/* False: the registers are not known or do not lead to the goroutine's stack. Only with
 * options.registers. */
bool running_place(struct goroutine_set *set, const uint8_t *header, struct place *ret);

/*
 * The stack of a running goroutine, from the registers of its thread, in c->now.stack; STACK_NONE
 * when they are not known or do not lead to it.
 */
struct error *running_stack(struct goroutine_set *set, struct pending_read *c) must_check;

/* The stack of a goroutine that has none to show: the pseudo word, then the start function. */
struct error *synthetic_stack(struct goroutine_set *set, enum stack_pc pseudo, uint64_t start_pc,
			      uint32_t *ret) must_check;

#endif
