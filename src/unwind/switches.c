#include "unwind/switches.h"

#include <string.h>

#include "base/array.h"

/* The linker's name of a function with both ABIs is "runtime.asmcgocall.abi0". */
static size_t plain_length(const char *function)
{
	size_t length = strlen(function);

	if (length > 5 && !strcmp(function + length - 5, ".abi0"))
		length -= 5;
	return length;
}

enum stack_switch switch_of(const char *function)
{
	static const struct {
		const char *name;
		enum stack_switch is;
	} switches[] = {
		{"runtime.systemstack", SWITCH_SYSTEMSTACK},
		{"runtime.morestack", SWITCH_MORESTACK},
		{"runtime.mcall", SWITCH_SCHEDULER},
		{"runtime.mstart", SWITCH_SCHEDULER},
		{"runtime.rt0_go", SWITCH_SCHEDULER},
		{"runtime.goschedImpl", SWITCH_RESCHEDULE},
		{"runtime.preemptPark", SWITCH_RESCHEDULE},
		{"runtime.gcAssistAlloc1", SWITCH_BORROWS},
		{"runtime.stopTheWorldWithSema", SWITCH_BORROWS},
		{"runtime.forEachP", SWITCH_BORROWS},
		{"runtime.forEachPInternal", SWITCH_BORROWS},
		{"runtime.asmcgocall", SWITCH_ASMCGOCALL},
		{"runtime.cgocallback", SWITCH_CGOCALLBACK},
		{"crosscall2", SWITCH_CROSSCALL},
		{"runtime.nanotime1", SWITCH_VDSO},
		{"runtime.walltime", SWITCH_VDSO},
		{"runtime.walltime1", SWITCH_VDSO},
		{"time.now", SWITCH_VDSO},
		{"runtime.vgetrandom1", SWITCH_VDSO},
		{"runtime.sigtramp", SWITCH_SIGNAL},
		{"runtime.sigreturn", SWITCH_SIGRETURN},
		{"runtime.sigreturn__sigaction", SWITCH_SIGRETURN},
	};
	size_t length = plain_length(function);

	for (size_t i = 0; i < ARRAY_SIZE(switches); i++)
		if (strlen(switches[i].name) == length &&
		    !memcmp(switches[i].name, function, length))
			return switches[i].is;
	return SWITCH_NONE;
}
