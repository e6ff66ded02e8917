/* Remarks about a recording: for this room alone. */
#ifndef PERFDATA_REMARKS_H
#define PERFDATA_REMARKS_H

#include "perfdata/perfdata.h"

struct error *perfdata_remark(struct perfdata_remarks *r, const char *format, ...) must_check
	__attribute__((format(printf, 2, 3)));

#endif
