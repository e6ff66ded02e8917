/* The definition of struct gospect_cancel, to pass its flag to a room. */
#ifndef LIB_CANCEL_API_H
#define LIB_CANCEL_API_H

#include <gospect/process.h>
#include <stdatomic.h>

struct gospect_cancel {
	atomic_int requested;
};

/* The flag that the rooms check; never NULL. */
const atomic_int *cancel_flag(const struct gospect_cancel *cancel);

#endif
