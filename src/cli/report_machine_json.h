/* The machine's part of a trace as JSON (docs/reference/formats.md). */
#ifndef CLI_REPORT_MACHINE_JSON_H
#define CLI_REPORT_MACHINE_JSON_H

#include <gospect/machine.h>
#include <stdio.h>

/* `rows` of each list at most; 0: all. */
void report_write_machine_json(const struct gospect_machine_info *m, size_t rows, FILE *out);

#endif
