/* What gospect writes and reads again, but pprof: pages, speedscope and Firefox files, folded
 * stacks, dumps. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "profile/read_any.h"
#include "tests/made_up.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_profile_file_ struct profile_file file = {0};
	_cleanup_free_ char *text = NULL;
	size_t length;
	FILE *out;

	if (error_dropped(profile_read_any(data, size, NULL, &file)))
		return 0;
	fuzz_accepted++;
	out = open_memstream(&text, &length);
	fuzz_require(!error_dropped(profile_format_html.write(file.profile, file.symbols, out)));
	fclose(out);
	return 0;
}

static void emit_as(fuzz_emit *emit, void *arg, const struct profile_format *format)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_(made_up_deinit) struct made_up m = {0};
	_cleanup_free_ char *text = NULL;
	const char *data;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	made_up_bursts(&m);
	symbols = made_up_symbolize(&m);
	fuzz_require(!error_dropped(format->write(m.profile, symbols, out)));
	fclose(out);
	/* Of a page its data alone: the rest is the same in all of them. */
	data = strstr(text, "<script type=\"application/json\" id=\"profile\">");
	if (data) {
		static const char doctype[] = "<!DOCTYPE html>";
		char *begin = (char *)data - strlen(doctype);

		memcpy(begin, doctype, strlen(doctype));
		emit(arg, begin, strstr(data, "</script>") + 9 - begin);
	} else {
		emit(arg, text, size);
	}
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	static const char dump[] =
		"{\"process\":{},\"goroutines\":[{\"id\":1,\"state\":\"waiting\",\"wait_reason\":"
		"\"select\",\"labels\":{\"a\":\"b\"},\"frames\":[{\"func\":\"runtime.gopark\","
		"\"file\":\"proc.go\",\"line\":435,\"pc\":4198400},{\"func\":\"main.main\"}]}]}";

	emit(arg, dump, sizeof(dump) - 1);
	emit_as(emit, arg, &profile_format_html);
	emit_as(emit, arg, &profile_format_speedscope);
	emit_as(emit, arg, &profile_format_firefox);
	emit_as(emit, arg, &profile_format_folded);
	emit_as(emit, arg, &profile_format_folded_state);
}
