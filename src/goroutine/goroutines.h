/*
 * Every goroutine of a target: read in few large reads, without stopping it, and only what changed
 * since the last scan.
 *
 * A goroutine's g never moves and is never freed. Its header (the fields up to the labels) is
 * compared with the last one; if (goid, status, sp, pc, trackingSeq) are the same, it did not run,
 * and its stack is the same. Otherwise its stack is read, and then the header again: the stack
 * counts only when the header did not change, because a goroutine that ran in between has another
 * trackingSeq (proc.go, casgstatus). From Go 1.26 on system calls do not count there; m.syscalltick
 * does. A goroutine that moved is read again, by itself, a few times; then its stack is unknown.
 *
 * Read-only: never writes to the target nor stops it. Not for several threads at once.
 */
#ifndef GOROUTINE_GOROUTINES_H
#define GOROUTINE_GOROUTINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "golayout/view.h"
#include "image/image.h"
#include "labels/label_sets.h"
#include "target/target.h"
#include "unwind/stacks.h"

enum {
	GOROUTINE_SYSTEM = 1,  /* the runtime's own: hidden as the runtime hides it */
	GOROUTINE_UNKNOWN = 2, /* its stack changed at every try */
	GOROUTINE_ON_CPU = 4,  /* it runs, and its thread's registers gave its stack */
	GOROUTINE_MOVED = 8,   /* its state or place differed at the last scan: the set's own */
};

/* A goroutine's state at the last look. */
struct goroutine_record {
	uint64_t sp; /* where its stack begins; of a system call: where it was entered */
	uint64_t pc;
	uint64_t goid;
	uint32_t key;   /* status, wait reason and trackingSeq: goroutine_key_*() */
	uint32_t tick;  /* m.syscalltick of a system call */
	uint32_t stack; /* in set->stacks; synthetic if it runs or is unknown */
	uint32_t labels;
	uint32_t flags;
	/* For the caller alone: the set carries them along and ignores them. */
	uint32_t owner_bucket;
	uint32_t owner_pass;
	uint32_t owner_creator;
	uint64_t owner_since;
};

static inline enum goroutine_status goroutine_status(const struct goroutine_record *r)
{
	return r->key & 0xff;
}

static inline uint8_t goroutine_wait_reason(const struct goroutine_record *r)
{
	return r->key >> 8 & 0xff;
}

/* It exists: neither dead nor newly allocated. */
bool goroutine_is_alive(const struct goroutine_record *r);

/* The fields that only some need, from a header. */
struct goroutine_details {
	uint64_t g;
	uint64_t goid;
	uint64_t m; /* 0 when none runs it */
	uint64_t locked_m;
	uint64_t wait_since; /* runtime.nanotime() = CLOCK_MONOTONIC; 0: not known */
	uint64_t parent;     /* 0 before Go 1.21 */
	uint64_t go_pc;      /* the go statement that created it: a return address */
	uint64_t start_pc;
	uint64_t bubble; /* synctest: address of its bubble or group; else 0 */
};

/* A run of goroutines that are adjacent in memory: the unit of a scan. */
struct goroutine_unit {
	uint32_t first;
	uint32_t count;
	uint32_t first_range; /* in the set's plan */
	uint32_t range_count;
	uint32_t bytes;
	/* The set's own. */
	uint16_t dead_looks; /* in a row, at which all of them were dead */
	uint16_t pause;      /* scans that skip it from now on */
	bool left_out;       /* of the scan under way */
};

struct goroutine_stats {
	uint64_t scans;     /* headers looked at; those of long dead ones are looked at rarely */
	uint64_t changed;   /* that differ from the last scan, or may differ */
	uint64_t stacks;    /* read */
	uint64_t torn;      /* dropped because the goroutine ran meanwhile, or did not unwind */
	uint64_t unknown;   /* still torn after all tries */
	uint64_t truncated; /* stacks longer than the limit */
	uint64_t faults;    /* scans that could not be read */
	uint64_t missing;   /* of a core file: entries of allgs that are not in it */
};

struct goroutine_options {
	size_t stack_limit; /* bytes of a stack that are read at most */
	/* Of headers, and of stacks, that one read holds in memory; 0: as many as is fastest. */
	size_t read_bytes;
	/* Keeps the first state of a goroutine that moved while it was read, so that goroutines
	 * that move often are not undercounted. Otherwise the newest state is shown. */
	bool keep_state;
	/* The registers of a thread, by its id in the target (m.procid), at the moment at which the
	 * memory is read; false: not known. With them a running goroutine has its stack. NULL:
	 * there are none. */
	bool (*registers)(void *arg, uint64_t thread, struct target_registers *ret);
	void *registers_arg;
	struct unwinding unwind; /* how frames are found */
	/* What is known of a request is among the labels of the goroutine that serves it; with its
	 * path; with the ids of its traceparent. */
	bool request_names, request_paths, request_ids;
	/* Called when a goroutine was seen in another state or place than before; `now` replaces
	 * `before` afterwards. `header` is for goroutine_details() and valid during the call. */
	struct error *(*changed)(void *arg, const struct goroutine_record *before,
				 struct goroutine_record *now, const uint8_t *header);
	void *arg;
};

struct goroutine_set;

/* The memory that a goroutine's stack was unwound from. */
struct goroutine_memory {
	struct stack_memory memory; /* bytes NULL: it is not known */
	bool has_general;           /* registers.general are those of the innermost frame */
	struct target_registers registers;
};

struct error *goroutine_set_open(struct target *t, const struct image *img,
				 const struct golayout *lay,
				 const struct goroutine_options *options,
				 struct goroutine_set **ret) must_check;
void goroutine_set_close(struct goroutine_set *set);

/* Learns of goroutines that are new since the last call; call it between scans. */
struct error *goroutine_set_refresh(struct goroutine_set *set) must_check;

/* All that were ever known, dead ones too; records are in the order of their addresses. */
size_t goroutine_set_count(const struct goroutine_set *set);
struct goroutine_record *goroutine_set_records(struct goroutine_set *set);

/* Cuts the set into units of about so many bytes of headers. Valid until the next refresh. */
struct error *goroutine_set_plan(struct goroutine_set *set, size_t unit_bytes,
				 const struct goroutine_unit **ret, size_t *ret_count) must_check;

/*
 * Looks at the goroutines of these units, named by their place in the plan. *ret_scanned is how
 * many units, from the first on, went into this call: as many as fit one read.
 */
struct error *goroutine_set_scan(struct goroutine_set *set, const uint32_t *units, size_t count,
				 size_t *ret_scanned) must_check;

/* Whether this address is that of a goroutine's g; its place among the records, if so. */
bool goroutine_set_find(const struct goroutine_set *set, uint64_t g, size_t *ret);

/* The identity of the goroutine with this g; false when it is unreadable or not a goroutine. */
struct goroutine_identity {
	uint64_t goid;
	uint64_t start_pc;
	uint32_t labels; /* their number in the set, LABELS_NONE when they were changing */
};

/*
 * Where a running goroutine shows which request it serves: a word on its stack, so many bytes from
 * the end; `first` behind that is a pointer, and so is `second` behind that one. A server of each
 * kind has one such place.
 */
enum { SERVED_PLACES = 3 };

struct served_place {
	uint32_t place; /* 0: not known, or not yet */
	uint32_t first, second;
};

struct served_words {
	uint64_t word; /* 0: not read, as the following */
	uint64_t first, second;
};

/* All 0 without options.request_names. */
void goroutine_set_served_places(const struct goroutine_set *set,
				 struct served_place ret[SERVED_PLACES]);

/* To be called before each reading of samples of running goroutines: see
 * request_names_begin_samples(). */
void goroutine_set_begin_samples(struct goroutine_set *set);

/* Bytes that were read before. */
struct goroutine_copy {
	uint64_t goid;
	uint64_t start_pc;
	uint64_t labels; /* g.labels */
	/* Pieces copied at the same time; NULL: they are read now. See label_sets_read_copied(). */
	const struct target_range *pieces;
	size_t piece_count;
	/* With words copied at the same time, the labels are those of its request, too. NULL: there
	 * are none. */
	const struct served_words *served; /* SERVED_PLACES */
	uint32_t stack;                    /* its number, of these two */
	uint64_t stack_end;
};

/* `copy` is NULL when nothing was read before: it is read now. */
bool goroutine_set_identify(struct goroutine_set *set, uint64_t g,
			    const struct goroutine_copy *copy, struct goroutine_identity *ret);

/* GOROUTINE_SYSTEM or 0, for a goroutine that began here and has this stack. */
uint32_t goroutine_set_system_flag(struct goroutine_set *set, uint64_t start_pc, uint32_t stack);

/* How many goroutines there are now, as runtime.NumGoroutine() counts them; reads headers alone. */
struct error *goroutine_set_count_alive(struct goroutine_set *set, size_t *ret) must_check;

/* During options.changed: of that goroutine. */
const struct goroutine_memory *goroutine_set_memory(const struct goroutine_set *set);
void goroutine_details(const struct goroutine_set *set, const uint8_t *header,
		       struct goroutine_details *ret);
const struct goroutine_stats *goroutine_set_stats(const struct goroutine_set *set);
struct stacks *goroutine_set_stacks(struct goroutine_set *set);
const struct label_sets *goroutine_set_labels(const struct goroutine_set *set);
/* "chan receive" ...: from the target's own table; "unknown wait reason" past its end. */
const char *goroutine_set_wait_reason(const struct goroutine_set *set, uint8_t reason);

static inline void cleanup_goroutine_set(struct goroutine_set **set)
{
	goroutine_set_close(*set);
}
#define _cleanup_goroutine_set_ __attribute__((cleanup(cleanup_goroutine_set)))

#endif
