/*
 * A function table of a made-up program, in any of the three formats, for tests of its readers.
 */
#ifndef IMAGE_TESTS_MADE_FUNCTIONS_H
#define IMAGE_TESTS_MADE_FUNCTIONS_H

#include "base/strbuf.h"
#include "image/pclntab.h"

#define MADE_TEXT 0x401000u
#define MADE_SIZE 64u    /* bytes of code of each function */
#define MADE_BODY 8u     /* where the frame is set up */
#define MADE_INLINED 32u /* the second half holds an inlined call, when there is one */

struct made_function {
	const char *name;
	const char *inlined; /* called and inlined from MADE_INLINED on; or NULL */
	uint8_t frame;       /* bytes, a multiple of 8 */
	uint8_t flags;
	uint8_t func_id;
};

struct made_functions {
	struct pclntab tab;
	struct intern short_names;
	struct strbuf ftab, funcs, names, cutab, files, pctab, gofunc;
};

/* Function i begins at MADE_TEXT + i * MADE_SIZE, in the file "/src/<i>.go", at line 10 * i + 1;
 * its second half is one line further. abort()s when there is no memory. */
void made_functions_init(struct made_functions *m, enum pclntab_format format,
			 const struct made_function *functions, size_t count);
void made_functions_release(struct made_functions *m);

/* The address in the body of function i: before, or with `half` in, the inlined call. */
static inline uint64_t made_pc(size_t i, bool half)
{
	return MADE_TEXT + i * MADE_SIZE + (half ? MADE_INLINED : MADE_BODY) + 4;
}

#endif
