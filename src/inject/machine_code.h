/* A few instructions of the machine. */
#ifndef INJECT_MACHINE_CODE_H
#define INJECT_MACHINE_CODE_H

#include <stddef.h>
#include <stdint.h>

#define MACHINE_CODE_MOST 16

struct machine_code {
	size_t size;
	uint8_t bytes[MACHINE_CODE_MOST];
};

#endif
