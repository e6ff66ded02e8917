/* Functions and lines for recorded addresses, without the process, on any machine that has the
 * program. Build ids identify files, so none is mistaken for another. */
#ifndef GOSPECT_SYMBOLIZE_H
#define GOSPECT_SYMBOLIZE_H

#include <gospect/profile.h>

GOSPECT_BEGIN

/* Without any, the files are looked for where the recorded process had them. */
struct gospect_symbolize_options {
	size_t size;              /* of this structure */
	const char *const *files; /* programs, libraries, unstripped or separate debug files */
	size_t file_count;
	const char *const
		*folders; /* of such files: those in it, and FOLDER/.build-id/ab/cdef[.debug] */
	size_t folder_count;
	/* Called with one line for each file whose functions get no names, and why. NULL: no
	 * callback. */
	void (*remark)(void *arg, const char *line);
	void *arg;
	/* Stays until the call is over. NULL: it cannot be cancelled. */
	const struct gospect_cancel *cancel;
};

/* Completes a profile of addresses. GOSPECT_ERROR_INVALID: it has its functions already. After an
 * error the profile is as it was. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_symbolize(struct gospect_profile *profile,
			  const struct gospect_symbolize_options *options);

/* Whether these bytes begin as a snapshot does that was written as GOSPECT_TEXT with
 * GOSPECT_WRITE_ADDRESSES: 1, or 0. */
GOSPECT_API int gospect_text_has_addresses(const void *bytes, size_t size);

/* Writes the text that it would have been with functions and lines. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_text_symbolize(const void *bytes, size_t size,
		       const struct gospect_symbolize_options *options, struct gospect_sink sink);

GOSPECT_END

#endif
