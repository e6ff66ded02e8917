/* The processes of a recording at each time: names and mappings. */
#ifndef PERFDATA_PROCESS_TABLE_H
#define PERFDATA_PROCESS_TABLE_H

#include "base/intern.h"
#include "base/map.h"
#include "image/modules.h"
#include "perfdata/perf_file.h"
#include "perfdata/programs.h"
#include "unwind/running_thread.h"

/* A process, from its start or exec on. */
struct recorded_process {
	uint32_t pid;
	uint32_t number;       /* in the order of creation */
	const char *comm;      /* "" when it is not known */
	struct map_list *maps; /* NULL: none. Paths are the table's. */
	size_t maps_seen;      /* how many of them were processed */
	const char *file;      /* the first that was mapped: the program; NULL: none */
	size_t threads;        /* its threads that have not ended, as far as the recording shows */
	/* For processes with samples. */
	const struct recorded_program *program; /* Go's, or NULL */
	struct modules *modules;
	struct stacks *stacks;
	struct running_unwinder *unwinder;
	uint16_t tag; /* in its stack words; 0 before it has samples */
	bool met;     /* it has samples */
};

struct process_table {
	struct recorded_process **items;
	size_t count;
	size_t capacity;
	struct map by_pid; /* index + 1 of the process that has the id now */
	struct intern strings;
	size_t map_count;     /* in all lists */
	size_t map_copies;    /* made so far, because of forks */
	size_t maps_left_out; /* mappings beyond the limit */
};

/* Takes a record other than a sample. */
struct error *process_table_take(struct process_table *t,
				 const struct perf_record *record) must_check;
/* The process that has this id now, created if it is new; NULL: no memory. */
struct recorded_process *process_table_get(struct process_table *t, uint32_t pid);
void process_table_release(struct process_table *t);

#endif
