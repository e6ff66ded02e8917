/*
 * The interface of the agent, which runs inside the target, and gospect, which reads its records:
 * the layout of the shared memory and the format of the records.
 *
 * Each P of the target has a slot: only the thread that holds the P writes into the
 * slot's ring, so no hook ever waits. A thread without a P takes one of a few slots that are kept
 * for that. A ring is written by one and read by one: `write` and `read` count bytes and only grow.
 *
 * A ring consists of chunks, which are numbered from 0 on by the bytes before them. The writer puts
 * a chunk into the memory of the one that was given back last, so that a ring takes as much memory
 * as is unread, and not its whole size; `moved` says where each chunk is. A chunk begins with a
 * struct agent_chunk; records follow, up to a RECORD_NONE or the chunk's end, and none goes over
 * the end. A record is a byte, its kind, and numbers as unsigned LEB128. The first of them, but in
 * RECORD_M, is the time since the record before it, in ticks of the CPU's clock.
 * agent/records.def describes the others.
 *
 * The target can write to all of it: the reader takes every number as hostile.
 */
#ifndef AGENT_ABI_H
#define AGENT_ABI_H

#include <stddef.h>
#include <stdint.h>

#define AGENT_MAGIC 0x32746e6567617367ull /* "gsagent2" */

enum {
	AGENT_CHUNK_BYTES = 65536,
	AGENT_MAX_CHUNKS = 256,   /* of a ring */
	AGENT_MAX_RECORD = 96,    /* of those without text */
	AGENT_MAX_TEXT = 1024,    /* bytes of a text of the program; a longer one is truncated */
	AGENT_FALLBACK_SLOTS = 8, /* for threads that hold no P */
	AGENT_MOST_P_SLOTS = 1024,
	/* Before each slot is its stack, on which its hooks run; the page in which that ends has
	 * the slot's head, too. */
	AGENT_SLOT_OFFSET = 32768 + 1024,
	AGENT_SLOT_SHIFT = 18,
	AGENT_SLOT_BYTES = 1 << AGENT_SLOT_SHIFT,
	AGENT_MAX_DEPTH = 127,
	AGENT_TABLE_SLOTS = 1 << 17,
	AGENT_MAX_PROBES = 24,
	AGENT_CACHED_STACKS = 256, /* a power of two; two of them for one key */
	AGENT_CACHED_FRAMES = 52,
	AGENT_BLOCK_FRAMES = 4, /* that are looked at at once */
	AGENT_MAX_LABELS = 128, /* of a set; those behind them are left out */
	AGENT_MAX_LABEL =
		1024, /* bytes of a value; a longer one is truncated. A longer key is left out */
	AGENT_LABEL_BYTES = 4096, /* of a set */
	AGENT_MAX_BUCKETS = 256,  /* of a map that is a set; those behind them are left out */
	AGENT_LABEL_SETS = 64,    /* that a slot knows again; a power of two */
	AGENT_SPAN_NPAGES = 32,   /* offset of mspan.npages, Go 1.17 to 1.27 */
	AGENT_PAGE_BYTES = 8192,  /* the runtime's */
	AGENT_GOID_BATCH = 16,    /* the runtime's _GoidCacheBatch, Go 1.17 to 1.23 */
	AGENT_MAX_READABLE = 32,
	AGENT_NO_REASON = UINT8_MAX, /* no g.waitreason is that large */
	AGENT_MAX_HEAP_RANGES = 64,
	AGENT_MAX_ENTRY_POINTS = 64, /* request entry points */
	AGENT_MAX_ENTRY_SITES = 320, /* where these begin and return */
	/* Bytes of what is copied of a request; a longer path is truncated. */
	AGENT_MAX_METHOD = 16,
	AGENT_MAX_PATH = 200,
	AGENT_MAX_PEER = 64,
	AGENT_TRACEPARENT = 55,    /* a W3C traceparent of version 00 has so many */
	AGENT_REQUEST_BYTES = 384, /* all of it is no longer */
	AGENT_MAX_ROUTE = 200,
	AGENT_MAX_PATTERNS = 16, /* of routers within one another */
	AGENT_MAX_HEADERS = 256, /* places in a header's map that are looked at */
};

/* A function's code. */
struct agent_range {
	uint64_t start;
	uint64_t size; /* 0: this program has none */
};

/* The probe sites in the target's code, one hook each: docs/internals/trace.md. */
enum agent_hook {
	HOOK_CASGSTATUS,
	HOOK_PREEMPT_PARK,
	HOOK_CORO_SWITCH,
	HOOK_SYSCALL,
	HOOK_SYSCALL_EXIT,
	HOOK_P_START,
	HOOK_P_STOP,
	HOOK_P_STEAL,
	HOOK_P_HANDOFF,
	HOOK_STW_BEGIN,
	HOOK_STW_END,
	HOOK_GC_BEGIN,
	HOOK_GC_END,
	HOOK_TASK_BEGIN,
	HOOK_TASK_END,
	HOOK_REGION,
	HOOK_LOG,
	HOOK_LABELS,
	HOOK_SWEEP_SPAN,
	HOOK_SWEEP_DONE, /* of deductSweepCredit; of cacheSpan, with a span and without; of reclaim
			  */
	HOOK_SWEEP_DONE_FOUND,
	HOOK_SWEEP_DONE_NONE,
	HOOK_SWEEP_DONE_RECLAIM,
	HOOK_ALLOC,
	HOOKS
};

enum agent_record {
	RECORD_NONE,
	RECORD_M, /* thread: the records behind it are of this one. No time */
#define RECORD(name, ...) RECORD_##name,
#include "agent/records.def"
#undef RECORD
	RECORDS
};

struct agent_chunk {
	uint64_t tick;   /* the time to which the first record's is relative */
	uint64_t thread; /* of the first record */
	uint64_t lost;   /* records since the chunk before it that found no room */
};

/* Bits of a stack's words; the rest is an address. */
#define AGENT_WORD_AT_SP \
	(1ull << 62)                /* the caller, if the previous frame had no record of its own */
#define AGENT_WORD_CUT (1ull << 61) /* frames are missing; where the goroutine began */

/* A stack in the table: its number is its place + 1. */
struct agent_stack {
	uint64_t hash;   /* 0: free */
	uint64_t offset; /* in the arena, + 1: a count, then so many words; 0: not yet written */
};

enum agent_entry_kind {
	ENTRY_CALL,
	ENTRY_RETURN,
	ENTRY_STATUS,      /* a server writes the status of a response, the second argument */
	ENTRY_GRPC_STATUS, /* likewise, a *status.Status of grpc-go, the third */
	/* A router has found the pattern of a request: a string in the third and fourth result. */
	ENTRY_ROUTE,
	/* Likewise: a string in a structure, whose address is the second argument. */
	ENTRY_ROUTE_FIELD,
	/* Likewise: in a context of go-chi or gin, which is the function's second argument. */
	ENTRY_ROUTE_CHI,
	ENTRY_ROUTE_GIN,
};

/* Where a call has its *http.Request, or the like. */
enum agent_request_place {
	REQUEST_NOWHERE,
	REQUEST_IN_THIRD,
	REQUEST_IN_FOURTH,
	REQUEST_OF_GRPC, /* a stream of grpc-go's transport, likewise the fourth */
};

/* A probe site where a request entry point begins or returns, or where more of a request becomes
 * known: hook HOOKS + its number. */
struct agent_entry_site {
	uint16_t entry_point; /* in agent_sites.entry_points; of a call and a return */
	uint8_t kind;         /* enum agent_entry_kind */
	uint8_t request;      /* enum agent_request_place; of a call */
	/* Bytes from SP, as it is there, to the return address; of ENTRY_ROUTE_FIELD AGENT_FIELD().
	 */
	uint32_t frame;
};

/* Where a string is: at `text` in a structure, or, if `pointer` is not 0, in the one to which that
 * structure has a pointer at `pointer - 1`. */
#define AGENT_FIELD(pointer, text) ((uint32_t)(pointer) << 16 | (text))

/* Offsets in net/http.Request and net/url.URL (hooks/http_layout.h). */
struct agent_http {
	uint32_t request_size; /* 0: not known, nothing is read */
	uint32_t method, url, header, peer;
	uint32_t url_size, path;
	uint32_t map_kind; /* enum go_map_kind */
	/* In google.golang.org/genproto/googleapis/rpc/status.Status; 0: not known. */
	uint32_t grpc_code;
	/* Addresses of types: *google.golang.org/grpc/peer.Peer, *net.TCPAddr; 0: not known. */
	uint64_t grpc_peer, tcp_address;
	/* In github.com/go-chi/chi.Context: the last pattern, and all of them; 0: not known. */
	uint32_t chi_pattern, chi_patterns;
	uint32_t gin_path, gin_engine; /* likewise, in github.com/gin-gonic/gin.Context */
};

/*
 * Field offsets and other facts that the hooks need; written before the agent runs. Each slot has a
 * copy beside its head, so that a hook reads few cache lines and pages. The fields for the frequent
 * state changes come first.
 */
struct agent_config {
	uint16_t g_status, g_goid, g_waitreason, g_sched_pc, g_sched_sp, g_sched_bp, g_stack_hi;
	uint16_t m_procid, m_curg, m_vdso_sp;
	uint8_t worker_reason;        /* "GC worker (idle)" */
	uint8_t worker_active_reason; /* "GC worker (active)"; AGENT_NO_REASON: up to Go 1.19 */
	uint8_t syscall_is_hook;      /* system calls bypass casgstatus (from Go 1.26 on) */
	uint64_t systemstack_switch;
	struct agent_range park_m, coroswitch_m;
	uint64_t text;
	uint32_t g_m, g_startpc, g_labels, g_coroarg, g_coroexit;
	uint32_t m_p, m_vdso_pc;
	uint32_t p_id, p_goidcache, p_goidcacheend, p_gc_worker_mode, coro_gp;
	uint32_t depth;      /* frames of a stack, at most; 0: none */
	uint32_t g_sched_lr; /* 0: the return address is on the stack, where g.sched.sp leads */
	/* From the record of asyncPreempt()'s frame: what lies at the SP of the interrupted
	 * function, or is its return address in a register. */
	uint32_t interrupted;
	uint32_t dead_extra;   /* the state of a g for threads of C while no thread has it */
	uint32_t goid_late;    /* a new g gets its goid after casgstatus (up to Go 1.23) */
	uint8_t assist_reason; /* "GC assist marking"; AGENT_NO_REASON: up to Go 1.19 */
	uint32_t label_maps;   /* sets of labels are maps (up to Go 1.23) */
	uint64_t goidgen;      /* address of sched.goidgen */
	struct agent_range entersyscallblock, assist, retake, for_each_p;
	struct agent_range exitsyscall_no_p, gosched, gosched_m, goschedguarded_m, async_preempt2;
	struct agent_range cache_span, deduct_sweep_credit, reclaim, sweepone, reclaim_chunk;
	uint64_t mem_profile_rate;    /* address of runtime.MemProfileRate; 0: no HOOK_ALLOC */
	uint32_t alloc_size_is_third; /* argument of mProf_Malloc; else the second */
};

_Static_assert(offsetof(struct agent_config, text) == 64, "what is frequent is in one line");

/* Where the target's code is patched; written before the agent runs, too. */
struct agent_sites {
	uint64_t addresses[HOOKS + AGENT_MAX_ENTRY_SITES]; /* of the instructions */
	struct agent_entry_site entry_sites[AGENT_MAX_ENTRY_SITES];
	uint64_t entry_points[AGENT_MAX_ENTRY_POINTS]; /* where the functions begin; 0: no more */
};

/* Memory that is there for good. */
struct agent_readable {
	uint64_t start;
	uint64_t end; /* may grow */
};

/* The shared memory begins with this. Addresses are the target's; offsets are from here. */
struct agent_shared {
	uint64_t magic;
	uint64_t size;  /* of all of it */
	uint32_t slots; /* those of Ps, then AGENT_FALLBACK_SLOTS */
	uint32_t ring_bytes;
	uint64_t slots_offset;
	uint64_t rings_offset;
	uint64_t table_offset;
	uint64_t arena_offset;
	uint64_t arena_words;
	struct agent_config config;
	struct agent_sites sites;
	struct agent_http http;
	/* The address ranges that the runtime has mapped for its heap (mheap_.pages.inUse: a slice
	 * of {base, limit}); the runtime removes none. 0: not found. The agent reads the slice
	 * without the runtime's lock, while the runtime stores length, capacity and array in this
	 * order. So an array counts only when gospect has seen it, with its capacity, in a
	 * consistent slice. */
	uint64_t heap_ranges;
	uint64_t heap_array; /* 0: none */
	uint64_t heap_capacity;
	/* The program's data and constants, and its heap when gospect looked. gospect adds ranges
	 * and removes none. */
	struct agent_readable readable[AGENT_MAX_READABLE];
	uint64_t readable_count;
	_Alignas(64) uint64_t arena_used; /* words */
	uint64_t stacks;                  /* in the table */
	/* When gospect was there last, in ticks, as it says itself. A hook that finds it gone
	 * switches all hooks off, and sets switched_off; gospect, if it comes back, switches them
	 * on again. */
	_Alignas(64) uint64_t seen;
	uint64_t absence; /* it is gone when it was not there for so many ticks */
	uint64_t enabled; /* address of the switch, 32 bits */
	uint32_t switched_off;
};

/*
 * An entry of the stack cache: a stack that was unwound before. The size of a frame depends on its
 * pc alone, so frames lie at the same distance from the stack's end whenever the same functions
 * called each other: equal pcs in sequence mean equal frames. No load depends on another. Most
 * lookups need the first of the two cache lines alone.
 */
struct agent_cached_stack {
	_Alignas(128) uint64_t hash; /* of the word before the frames, and of their pcs */
	uint32_t height; /* words from the first frame to the stack's end; 0: empty entry */
	uint32_t pc;     /* of the word before the frames, its lower half */
	uint32_t stack;  /* its number as LEB128 of three bytes */
	uint32_t count;  /* of frames; a multiple of AGENT_BLOCK_FRAMES */
	uint16_t at[AGENT_CACHED_FRAMES]; /* words from the first frame to each, and, where there
					    are no more, 0 */
};
_Static_assert(sizeof(struct agent_cached_stack) == 128, "a power of two");
_Static_assert(AGENT_CACHED_FRAMES % AGENT_BLOCK_FRAMES == 0, "the last block is whole");
_Static_assert(AGENT_TABLE_SLOTS < 1 << 21, "a stack's number has three bytes");

/* One P's, or a fallback slot. Its stack is below it. */
struct agent_slot {
	uint32_t busy;   /* a thread runs a hook with this slot */
	uint64_t resume; /* the stub's own: where it goes on */
	uint64_t write;  /* bytes; all before it may be read */
	uint64_t limit;  /* of the chunk that is being written */
	uint64_t bias;   /* from `write` to its address */
	uint64_t tick;
	uint64_t thread;
	uint64_t shared; /* addresses in the target */
	_Alignas(64) struct agent_config config;
	_Alignas(64) uint64_t ring;
	uint64_t lost; /* since the last chunk began */
	uint64_t lost_all;
	uint64_t stacks_lost;
	uint64_t labels_unread; /* sets that lay elsewhere than in shared->readable */
	uint64_t sweeps;        /* RECORD_SWEEP_BEGIN was written, and not yet RECORD_SWEEP_END */
	uint64_t swept;         /* bytes since */
	_Alignas(64) uint64_t read; /* gospect's */
	/* Numbers of entries in stack_cache, by a hash; 0: none. Entries are handed out in
	 * sequence, so that few pages hold those in use. The page of the head holds the first of
	 * them. */
	_Alignas(64) uint8_t stack_cache_index[AGENT_CACHED_STACKS];
	uint32_t stack_cache_used;
	uint32_t stack_cache_turn; /* which of the two candidates in the index is replaced next */
	struct agent_cached_stack stack_cache[AGENT_CACHED_STACKS]; /* the first is never used */
	uint64_t words[AGENT_MAX_DEPTH + 8];
	uint64_t label_sets[AGENT_LABEL_SETS]; /* hashes, by number; 0: none yet */
	uint8_t labels[AGENT_LABEL_BYTES + 16];
	/* For chunk n, at [n % chunks of the ring]: its place in the ring, less n. */
	uint16_t moved[AGENT_MAX_CHUNKS];
	uint32_t fresh;    /* places that were in use so far: the first ones */
	uint32_t returned; /* chunks that were given back so far; `free` has their places */
	uint32_t free_count;
	uint16_t free[AGENT_MAX_CHUNKS]; /* places, the last one on top */
};
_Static_assert(AGENT_SLOT_OFFSET + sizeof(struct agent_slot) <= AGENT_SLOT_BYTES,
	       "a slot has room for its stack");
_Static_assert(AGENT_SLOT_OFFSET % sizeof(struct agent_cached_stack) == 0,
	       "no entry lies in two pages");
_Static_assert(AGENT_SLOT_OFFSET % 4096 + offsetof(struct agent_slot, stack_cache[2]) <= 4096,
	       "the first entry in use is in the page of the head");
_Static_assert(AGENT_CACHED_STACKS - 1 <= UINT8_MAX, "the index has bytes");

#endif
