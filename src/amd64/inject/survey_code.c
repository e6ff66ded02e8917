#include "inject/survey_code.h"

/* syscall; ret */
const struct machine_code survey_syscall = {3, {0x0f, 0x05, 0xc3}};

/* mov rax, 15 (in two encodings); syscall */
const struct machine_code survey_sigreturns[SURVEY_SIGRETURNS] = {
	{9, {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05}},
	{7, {0xb8, 15, 0, 0, 0, 0x0f, 0x05}},
};

const char *const survey_sigreturn_functions[2] = {"runtime.sigreturn__sigaction",
						   "runtime.sigreturn"};
