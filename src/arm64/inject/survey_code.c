#include "inject/survey_code.h"

#include <stddef.h>

/* svc 0; ret */
const struct machine_code survey_syscall = {8, {0x01, 0, 0, 0xd4, 0xc0, 0x03, 0x5f, 0xd6}};

/* mov x8, 139; svc 0, and the same with w8 */
const struct machine_code survey_sigreturns[SURVEY_SIGRETURNS] = {
	{8, {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4}},
	{8, {0x68, 0x11, 0x80, 0x52, 0x01, 0, 0, 0xd4}},
};

/* The runtime has none on arm64. */
const char *const survey_sigreturn_functions[2] = {NULL, NULL};
