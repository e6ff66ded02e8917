/* The definition of struct gospect_profile. */
#ifndef LIB_PROFILE_HANDLE_H
#define LIB_PROFILE_HANDLE_H

#include <gospect/profile.h>

#include "lib/given.h"
#include "profile/profile.h"
#include "profile/read.h"

struct gospect_profile {
	struct profile *profile;
	struct profile_symbols *symbols;
	struct gospect_profile_info info;
	bool is_merged;                              /* by gospect_profile_create() */
	struct arena given;                          /* what gospect_profile_samples() gave out */
	const struct gospect_sample *const *samples; /* NULL: not asked for yet */
};

/* With an empty profile in it. NULL: no memory. */
struct gospect_profile *profile_new(void);

static inline void cleanup_profile_handle(struct gospect_profile **p)
{
	gospect_profile_destroy(*p);
}
#define _cleanup_profile_handle_ __attribute__((cleanup(cleanup_profile_handle)))

/* Fills in `info` once the profile is complete. */
void profile_describe(struct gospect_profile *p, bool has_functions);

/* Takes over the contents of the file. */
struct error *profile_of_file(struct profile_file *file, struct gospect_profile **ret) must_check;

/* The format's writer; NULL: profiles lack this format. */
const struct profile_format *profile_format_of(enum gospect_format format);

/* A sample as the library returns it; the profile owns its strings. False: no memory. */
bool profile_give_sample(const struct profile *p, const struct profile_symbols *symbols,
			 const struct profile_sample *from, struct arena *arena,
			 struct gospect_sample *ret);

#endif
