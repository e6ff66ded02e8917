/* `gospect report` as a program of its own: it links the rooms that reports need, and no others.
 *
 *	report_only FILE [OPTION...]
 */
#include "cli/cli.h"
#include "cli/stop.h"
#include "sandbox/sandbox.h"

int main(int argc, char **argv)
{
	_cleanup_error_ struct error *err = NULL;
	int status = EXIT_DONE;

	stop_on_faults();
	err = verb_report.run(argc, argv, &status);
	sandbox_leave();
	if (!err)
		return status;
	say("%s", err->message);
	return EXIT_FAILED;
}
