/* The profile that `top` writes: of what its model has of the last minute. */
#ifndef CLI_TOP_PROFILE_H
#define CLI_TOP_PROFILE_H

#include "cli/output.h"
#include "cli/subject.h"
#include "profile/profile.h"
#include "sample/wall.h"
#include "top/model.h"

#define TOP_PROFILE_SECONDS 60

/* Says in *ret which files may be written: that of -o, and new ones that the user names later. */
struct error *top_profile_name_outputs(const struct output_options *output,
				       struct subject_options *ret) must_check;

/* `about`: a profile with nothing but what fill_process() says; it may be written when the target
 * is gone. `end`: CLOCK_REALTIME of the last lap. *ret_ns is the time that is in it. The model's
 * window is as before. `named`: by top_profile_name_outputs(); what else exists is not replaced.
 * ERROR_USAGE: no format has such a name. */
struct error *top_profile_write(struct top_model *m, struct wall_sampler *sampler,
				const struct subject *s, const struct profile *about,
				const struct output_options *output,
				const struct subject_options *named, uint64_t end,
				uint64_t *ret_ns) must_check;

#endif
