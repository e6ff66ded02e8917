/* The machine's part of a trace: stops of the world, waits for a P, the collector, system calls. */
#ifndef CLI_REPORT_MACHINE_H
#define CLI_REPORT_MACHINE_H

#include <stdio.h>

#include "cli/report.h"

enum report_machine_form {
	REPORT_MACHINE_SHORT, /* a line for each part */
	REPORT_MACHINE_TEXT,
	REPORT_MACHINE_JSON
};

/* `rows` of each part at most; 0: all. */
struct error *report_write_machine(const struct report_file *file, enum report_machine_form form,
				   size_t rows, FILE *out) must_check;

#endif
