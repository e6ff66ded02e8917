/* The instructions by which threads of the target make system calls and go back: one file for each
 * architecture. */
#ifndef INJECT_SURVEY_CODE_H
#define INJECT_SURVEY_CODE_H

#include <stdbool.h>

#include "inject/machine_code.h"

#define SURVEY_SIGRETURNS 2

/* A system call and a return, as in runtime.osyield. */
extern const struct machine_code survey_syscall;
/* The number of sigreturn and a system call, as any of these. */
extern const struct machine_code survey_sigreturns[SURVEY_SIGRETURNS];
/* Functions of the runtime that have it; without any, the kernel's vDSO has. */
extern const char *const survey_sigreturn_functions[2];

#endif
