/* The DWARF of a target's program, or of its unstripped file. */
#ifndef LIB_PROGRAM_VARIABLES_H
#define LIB_PROGRAM_VARIABLES_H

#include "image/dwarf_variables.h"
#include "lib/target_handle.h"

/* *ret is NULL, and a remark says why, when there is none or it is broken. */
struct error *program_variables_open(const struct gospect_target *t,
				     struct variables **ret) must_check;

#endif
