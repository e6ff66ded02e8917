/* A Go program to look at: a live process, a core file, or memory that the caller reads. */
#ifndef GOSPECT_TARGET_H
#define GOSPECT_TARGET_H

#include <gospect/error.h>
#include <gospect/process.h>

GOSPECT_BEGIN

struct gospect_target;
struct gospect_hold;

struct gospect_target_options {
	size_t size; /* of this structure */
	/* An unstripped file of the same build as the target's program (the build ids have to be
	 * the same), for names and types that the program's own file lacks; of a core file the
	 * program itself. NULL: the program's file as the target names it. */
	const char *exe;
	/* Stays until the target is closed. NULL: the target's calls cannot be cancelled. */
	const struct gospect_cancel *cancel;
	/* Called with one line for each thing that a result lacks, and why: by the thread that uses
	 * the target, during a call. The callback must not use the target. NULL: no callback. */
	void (*remark)(void *arg, const char *line);
	void *arg; /* of remark() */
	/* Seconds that a process may take to set up its Go runtime; 0: 5. */
	double start_timeout;
	/* Seconds to wait until a child of this process calls exec and becomes a Go program: 1 for
	 * a child that was just forked. 0: do not wait. */
	double exec_timeout;
	/* The hold of this process: the call returns when the process is held. The caller still
	 * releases the hold. NULL: the process is not held. */
	struct gospect_hold *hold;
};

/*
 * A live process. Reads its program, and validates its runtime's structures against those of that
 * Go version; takes 5 to 50 ms. GOSPECT_ERROR_GONE: no such process; _DENIED: its memory may not be
 * read, with the remedy; _NOT_GO; _UNSUPPORTED: an unknown Go version.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_target_open_process(int pid, const struct gospect_target_options *options,
			    struct gospect_target **ret);

/* A core file: of the kernel, of GOTRACEBACK=crash, of gcore; plain or compressed by zstd; of amd64
 * or arm64, whatever this machine is. A truncated one is read as far as it goes. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_target_open_core(const char *path, const struct gospect_target_options *options,
			 struct gospect_target **ret);

/* A mapping of the target's memory, as a line of /proc/PID/maps. */
struct gospect_mapping {
	uint64_t start;
	uint64_t end;    /* the first address behind it */
	uint64_t offset; /* in the file */
	uint32_t access; /* a sum of 1: readable, 2: writable, 4: executable */
	uint32_t reserved;
	const char *path; /* NULL when it has no file */
};

/* Memory that the caller reads: a debugger lends its target so. */
struct gospect_memory {
	size_t size; /* of this structure */
	/* Reads all of [address, address + size), or returns anything but 0. Called by the thread
	 * that uses the target, during its calls. Changes during a read are detected as in a live
	 * process. */
	int (*read)(void *arg, uint64_t address, void *buffer, size_t size);
	void *arg;
	const char *exe; /* the file of the Go program */
	uint64_t entry;  /* where its entry point is (AT_ENTRY) */
	const struct gospect_mapping
		*mappings; /* by address; copied. May be left out: then profiles
			      have no mappings, and plugins are not found */
	size_t mapping_count;
};

/* `read` and `arg` stay in use until the target is closed. Running goroutines have no stacks. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_target_open_memory(const struct gospect_memory *memory,
			   const struct gospect_target_options *options,
			   struct gospect_target **ret);

/* Takes NULL as well. */
GOSPECT_API void gospect_target_close(struct gospect_target *target);

/* The facts about the program; valid until the target is closed. */
struct gospect_target_info {
	int32_t pid;            /* 0: not a live process, or a core file that does not say */
	uint32_t is_core;       /* 1: it is a core file */
	const char *exe;        /* the path of the program */
	const char *go_version; /* "go1.27.2" */
	const char *build;      /* "dynamic,pie,cgo,stripped": the properties that apply */
	const char *build_id;   /* the ELF build id in hexadecimal; "" without one */
	const char *machine;    /* "amd64", "arm64" */
};

GOSPECT_API const struct gospect_target_info *
gospect_target_info(const struct gospect_target *target);

/* How many goroutines there are, as runtime.NumGoroutine() counts them; reads no stacks. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_target_count_goroutines(struct gospect_target *target, size_t *ret);

/* A call on a stack. */
struct gospect_frame {
	uint64_t pc;          /* a return address, or that of the instruction that it stands at */
	uint64_t entry;       /* where the function's code begins; 0 when it is not known */
	const char *function; /* "main.(*Server).serve"; "[truncated]" and the like stand for what
				 is not known */
	const char *file;     /* "" when it is not known */
	int32_t line;
	uint32_t is_inlined; /* 1: into the next frame */
};

struct gospect_stack {
	size_t count;
	const struct gospect_frame *const *frames; /* innermost first */
};

struct gospect_label {
	const char *key;
	const char *value;
};

/*
 * The frames at an address of the target's code, several where calls were inlined; none when no Go
 * function is there. It is looked up as the address of an instruction: for a return address pass
 * one less. *ret is valid until the next call or until the target is closed.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_target_symbolize(struct gospect_target *target, uint64_t address,
			 const struct gospect_stack **ret);

GOSPECT_END

#endif
