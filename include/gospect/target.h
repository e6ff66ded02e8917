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
	/* An unstripped file of the same build as the target's program, for names and types that
	 * the program's own file lacks. The build ids must be equal. For a core file: the program
	 * itself. NULL: the file that the target names. */
	const char *exe;
	/* Cancels calls on the target; must outlive it. NULL: they cannot be cancelled. */
	const struct gospect_cancel *cancel;
	/* Called with one line for each thing that a result lacks; the line says why. It is called
	 * by the thread that uses the target, during a call. The callback must not use the target.
	 * NULL: no callback. */
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
 * A live process. Reads its program, and checks that its memory has the structures of that Go
 * version. Takes 5 to 50 ms. GOSPECT_ERROR_GONE: no such process. _DENIED: its memory may not be
 * read; the message has the remedy. _NOT_GO: not a Go program. _UNSUPPORTED: an unknown Go version.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_target_open_process(int pid, const struct gospect_target_options *options,
			    struct gospect_target **ret);

/* A core file by the kernel or gcore, plain or compressed by zstd, of amd64 or arm64 on either
 * machine. A truncated file is read up to its end. */
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

/* Memory that the caller reads, as a debugger does with its own target. */
struct gospect_memory {
	size_t size; /* of this structure */
	/* Reads all of [address, address + size) and returns 0; any other value means that it could
	 * not. Called by the thread that uses the target, during its calls. Changes during a read
	 * are detected as in a live process. */
	int (*read)(void *arg, uint64_t address, void *buffer, size_t size);
	void *arg;
	const char *exe; /* the file of the Go program */
	uint64_t entry;  /* where its entry point is (AT_ENTRY) */
	const struct gospect_mapping
		*mappings; /* in order of addresses; the call copies them. NULL: profiles have no
			      mappings, and plugins are not found */
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
	int32_t pid;            /* 0: memory that the caller reads, or a core file without it */
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
	uint64_t pc;          /* a return address; if the function made no call, the address of its
				 instruction */
	uint64_t entry;       /* where the function's code begins; 0 when it is not known */
	const char *function; /* "main.(*Server).serve"; a name in brackets, as "[truncated]", is
				 not a function */
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
 * The frames at an address of the target's code: several if calls were inlined, none if no Go
 * function is there. The address is that of an instruction: for a return address, pass one less.
 * *ret is valid until the next call or until the target is closed.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_target_symbolize(struct gospect_target *target, uint64_t address,
			 const struct gospect_stack **ret);

GOSPECT_END

#endif
