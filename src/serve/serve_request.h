/*
 * What the front, which talks HTTP and has no privilege, may ask the keeper for: one packet a
 * request. The keeper takes each packet as hostile. It starts a worker, which is a process of its
 * own, and answers with two descriptors.
 */
#ifndef SERVE_SERVE_REQUEST_H
#define SERVE_SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum serve_kind {
	SERVE_HOME,    /* the page with links to the processes */
	SERVE_INDEX,   /* /debug/pprof/ */
	SERVE_CMDLINE, /* the arguments of the program, with NUL between them */
	SERVE_PROFILE, /* CPU */
	SERVE_SYMBOL,
	SERVE_TRACE,
	SERVE_HEAP, /* from here on as enum gospect_heap_kind ... */
	SERVE_ALLOCS,
	SERVE_BLOCK,
	SERVE_MUTEX,
	SERVE_GOROUTINE,
	SERVE_THREADCREATE,
	SERVE_GOROUTINELEAK, /* ... to here */
	SERVE_WALL,
	SERVE_OFFCPU,
	SERVE_WAITS,
	SERVE_MEMORY,
	SERVE_WHY,
	SERVE_LEAKS,
	SERVE_METRICS,
	SERVE_RANGE, /* a part of the last hour: where the time went */
	SERVE_GREW,  /* the end of a part of the last hour, against its beginning */
	/* Of the front's own. */
	SERVE_WATCH, /* beats without end */
	SERVE_LIST,  /* a struct serve_listed for each process that has a history */
	/* Which the front answers by itself. */
	SERVE_HISTORY, /* the page of the last hour */
	SERVE_PICTURE, /* the last hour as a small picture */
	SERVE_SCRIPT,  /* of that page */
	SERVE_KINDS
};

enum serve_format {
	SERVE_PPROF,
	SERVE_HTML,
	SERVE_FOLDED,
	SERVE_SPEEDSCOPE,
	SERVE_JSON,
	SERVE_TEXT,
	SERVE_DOT,
	SERVE_FORMATS
};

/* Limits of a request. */
#define SERVE_MOST_SECONDS 3600.0
#define SERVE_MOST_ADDRESSES 4096

/* The packet; the addresses to symbolize follow, each a uint64_t. */
struct serve_request {
	uint32_t kind;   /* an enum serve_kind */
	uint32_t format; /* an enum serve_format */
	int32_t pid;     /* 0: none */
	uint32_t debug;  /* 0, 1 or 2, as in net/http/pprof */
	double seconds;  /* 0: at once */
	/* A part of the last hour, in seconds since 1970; `to` 0: the last `seconds`. */
	double from, to;
	uint32_t address_count;
	uint32_t reserved;
};

/* The answer, in one packet. */
struct serve_answer {
	uint32_t status;        /* 0: started, with the descriptors; else one of HTTP: 404, 503 */
	uint32_t is_unconfined; /* of the front's first packet: the kernel has no seccomp */
};

enum {
	SERVE_FD_DATA,  /* read: struct serve_head, then frames */
	SERVE_FD_LEASH, /* closing it stops the worker */
	SERVE_FDS
};

#define SERVE_MAGIC 0x67735031u

/* The media types that a worker may answer with. */
enum serve_type {
	SERVE_TYPE_TEXT,
	SERVE_TYPE_BINARY, /* a file to save: its name is that of the kind */
	SERVE_TYPE_HTML,   /* a page of the worker's own, without scripts */
	SERVE_TYPE_FLAME,  /* a page with scripts, which the browser has to isolate */
	SERVE_TYPE_JSON,
	SERVE_TYPE_DOT,
	SERVE_TYPE_METRICS,
	SERVE_TYPES_OF_WORKERS,
	SERVE_TYPE_LIVE = SERVE_TYPES_OF_WORKERS, /* a page with a script of this server */
	SERVE_TYPE_PICTURE,
	SERVE_TYPE_SCRIPT,
	SERVE_TYPES
};

/* What a worker sends first. Frames follow: a uint32_t, and so many bytes. A frame of 0 bytes ends
 * a complete answer. */
#define SERVE_REMARK_SIZE 240

struct serve_head {
	uint32_t magic;
	uint32_t status; /* of HTTP */
	uint32_t type;   /* an enum serve_type */
	uint32_t reserved;
	char remark[SERVE_REMARK_SIZE]; /* what the answer lacks, in ASCII; "": nothing */
};

/* A frame of SERVE_WATCH: what all goroutines did, in seconds; by enum gospect_state. */
struct serve_beat {
	double seconds; /* that passed */
	double states[4];
	double cpu;
	double locks;    /* waits for locks of sync */
	double end;      /* seconds since 1970 */
	double resident; /* bytes; 0: not known */
	/* Requests of net/http and gRPC; not known where has_requests is 0. */
	double has_requests;
	double requests; /* a second */
	double progress; /* in progress, on average */
	double p50, p99; /* seconds */
};

/* A frame of SERVE_LIST. */
struct serve_listed {
	int32_t pid;
	int32_t reserved;
	uint64_t start; /* tells it from a later process with its id */
	char name[64];
};

#define SERVE_MAX_FRAME (64u << 10)

/* Whether the front answers it, without a worker. */
static inline bool serve_kind_is_of_front(uint32_t kind)
{
	return kind == SERVE_HISTORY || kind == SERVE_PICTURE || kind == SERVE_SCRIPT;
}

/* Whether the kind is about one process. */
static inline bool serve_kind_has_process(uint32_t kind)
{
	return kind != SERVE_HOME && kind != SERVE_METRICS && kind != SERVE_LIST &&
	       kind != SERVE_SCRIPT;
}

#endif
