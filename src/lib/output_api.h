/* A struct gospect_output is a struct outfile, seen from outside. */
#ifndef LIB_OUTPUT_API_H
#define LIB_OUTPUT_API_H

#include <gospect/write.h>

#include "base/outfile.h"

static inline struct outfile *output_file(struct gospect_output *output)
{
	return (struct outfile *)output;
}

#endif
