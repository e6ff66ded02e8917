/* Functions and lines for recorded addresses, on any machine that has the program; no process is
 * needed. Files are identified by their build ids. */
#ifndef GOSPECT_SYMBOLIZE_H
#define GOSPECT_SYMBOLIZE_H

#include <gospect/profile.h>

GOSPECT_BEGIN

/* Without files and folders, the paths are those of the recorded process. */
struct gospect_symbolize_options {
	size_t size;              /* of this structure */
	const char *const *files; /* programs, libraries, unstripped or separate debug files */
	size_t file_count;
	const char *const
		*folders; /* with such files, directly or as FOLDER/.build-id/ab/cdef[.debug] */
	size_t folder_count;
	/* Called with one line for each file whose functions get no names; the line says why. NULL:
	 * no callback. */
	void (*remark)(void *arg, const char *line);
	void *arg;
	/* Must outlive the call. NULL: it cannot be cancelled. */
	const struct gospect_cancel *cancel;
};

/* Adds functions and lines to a profile of addresses. GOSPECT_ERROR_INVALID: it has them already.
 * An error leaves the profile unchanged. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_profile_symbolize(struct gospect_profile *profile,
			  const struct gospect_symbolize_options *options);

/* 1 if these bytes begin as a snapshot that was written as GOSPECT_TEXT with
 * GOSPECT_WRITE_ADDRESSES; else 0. */
GOSPECT_API int gospect_text_has_addresses(const void *bytes, size_t size);

/* Writes the text of the snapshot with functions and lines instead of addresses. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_text_symbolize(const void *bytes, size_t size,
		       const struct gospect_symbolize_options *options, struct gospect_sink sink);

GOSPECT_END

#endif
