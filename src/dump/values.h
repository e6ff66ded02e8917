/*
 * Arguments and local variables of a goroutine's frames, from the copy of its stack: arguments as
 * the runtime prints them, by its own tables; variables by DWARF.
 */
#ifndef DUMP_VALUES_H
#define DUMP_VALUES_H

#include "goroutine/goroutines.h"
#include "image/dwarf_variables.h"

struct local_value {
	const char *name;
	const char *type;
	const char *inlined; /* the inlined call that it belongs to; NULL: the function itself */
	const char *text;    /* printable */
	int declared;        /* the line; 0: not known */
	bool is_argument;    /* or a result */
};

struct frame_values {
	const char *arguments; /* NULL: not known */
	const struct local_value *locals;
	size_t local_count;
};

struct goroutine_values {
	const struct frame_values *frames; /* of the first words of the stack */
	size_t count;
};

struct values;

/* `variables`: also the local variables; NULL: arguments alone. It must outlive the result, as
 * must `img`. */
struct error *values_open(struct target *t, const struct image *img, struct variables *variables,
			  struct values **ret) must_check;
void values_close(struct values *v);

/*
 * The values of the frames of `stack`, which was unwound from this memory. *ret is valid until
 * values_close(); NULL: nothing is known. The only error is ERROR_NO_MEMORY.
 */
struct error *values_take(struct values *v, const struct goroutine_memory *memory,
			  struct stack stack, const struct goroutine_values **ret) must_check;

/* Whether local variables were requested. */
bool values_have_locals(const struct values *v);
/* How many frames were left out because there were too many. */
size_t values_left_out(const struct values *v);

#endif
