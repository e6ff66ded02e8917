/*
 * One step up the stack by a file's call frame information (.eh_frame): what C compilers leave for
 * exceptions and debuggers, so that no frame pointers are needed. Parsed by
 * libdw; the expressions are evaluated here, on registers and memory that the caller has.
 */
#ifndef IMAGE_CFI_H
#define IMAGE_CFI_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "image/registers.h"

/* A word of the stack, as it was at the sampled moment; false when that is not known. */
struct stack_reader {
	bool (*word)(void *arg, uint64_t address, uint64_t *ret);
	void *arg;
};

enum cfi_result {
	CFI_STEPPED,
	CFI_NONE,      /* nothing is said of this address */
	CFI_OUTERMOST, /* the stack ends here */
	CFI_FAILED,    /* a word or register is not known, or the information is broken */
};

/*
 * *regs becomes those of the caller. `address` is the key: the pc less `bias`, and less 1 for a
 * return address. *ret_exact: a signal interrupted the caller, so its pc is exact.
 */
enum cfi_result cfi_step(Dwarf_CFI *cfi, uint64_t address, enum machine machine,
			 const struct stack_reader *stack, struct registers *regs, bool *ret_exact);

#endif
