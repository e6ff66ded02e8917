#include "hooks/survey.h"

#include <string.h>

#include "inject/stale_agent.h"
#include "inject/survey_code.h"

#define VDSO_MOST 65536 /* bytes that are looked at */

static struct error *must_check find_code(const struct image *img, const char *const names[2],
					  const struct machine_code *wanted, uint64_t *ret)
{
	struct go_func f;

	for (int i = 0; i < 2; i++) {
		if (!names[i] || !pclntab_find_name(&img->functions, names[i], &f))
			continue;
		for (uint64_t at = f.entry; at + wanted->size <= f.end && at < f.entry + 64; at++) {
			const uint8_t *code = image_bytes(img, at, wanted->size);

			if (code && !memcmp(code, wanted->bytes, wanted->size)) {
				*ret = at;
				return NULL;
			}
		}
	}
	return error_format(
		ERROR_UNSUPPORTED,
		"cannot map memory in the target: gospect does not know the code of %s; report "
		"the Go version and how the program was built",
		names[0]);
}

/* The kernel's own sigreturn, which signal handlers of a program without one return to. */
static struct error *must_check find_in_vdso(struct target *t, uint64_t *ret)
{
	_cleanup_maps_ struct target_maps maps = {0};
	const struct machine_code *wanted = &survey_sigreturns[0];
	uint8_t code[VDSO_MOST];
	struct error *err = target_maps(t, &maps);

	for (size_t i = 0; !err && i < maps.count; i++) {
		const struct target_map *map = &maps.items[i];
		size_t size = map->end - map->start < VDSO_MOST ? map->end - map->start : VDSO_MOST;

		if (strcmp(map->path, "[vdso]") != 0)
			continue;
		err = target_read(t, map->start, code, size);
		for (size_t at = 0; !err && at + wanted->size <= size; at += 4)
			if (!memcmp(code + at, wanted->bytes, wanted->size)) {
				*ret = map->start + at;
				return NULL;
			}
	}
	return err ? err
		   : error_format(ERROR_UNSUPPORTED,
				  "cannot map memory in the target: this kernel's vDSO has no "
				  "sigreturn that gospect knows; report the kernel's version");
}

static struct error *must_check find_codes(struct target *t, const struct image *img,
					   struct survey *ret)
{
	static const char *const yield[2] = {"runtime.osyield"};
	struct error *err = find_code(img, yield, &survey_syscall, &ret->syscall);

	if (err)
		return err;
	if (!survey_sigreturn_functions[0])
		return find_in_vdso(t, &ret->restore);
	err = find_code(img, survey_sigreturn_functions, &survey_sigreturns[0], &ret->restore);
	if (!error_dropped(err))
		return NULL;
	return find_code(img, survey_sigreturn_functions, &survey_sigreturns[1], &ret->restore);
}

/* gospect restores the bytes of the program's file, not bytes that the target chooses. */
static bool is_original(const struct image *img, const struct code_site *site)
{
	const uint8_t *file = NULL;

	if (site->address >= img->functions.text && site->address < img->functions.etext)
		file = image_bytes(img, site->address, SITE_JUMP_BYTES);
	return file && !memcmp(file, site->bytes, SITE_JUMP_BYTES);
}

struct error *survey_originals(struct target *t, const struct image *img, struct survey *ret)
{
	_cleanup_maps_ struct target_maps maps = {0};
	struct error *err = target_maps(t, &maps);
	struct code_head head;

	ret->original_count = 0;
	/* The caller that removes it reports the error. */
	if (err || error_dropped(stale_agent_read_head(t, &maps, &head)))
		return err;
	for (size_t i = 0; i < head.site_count; i++)
		if (head.sites[i].address && is_original(img, &head.sites[i])) {
			struct original *o = &ret->originals[ret->original_count++];

			o->address = head.sites[i].address;
			memcpy(o->bytes, head.sites[i].bytes, sizeof(o->bytes));
		}
	return NULL;
}

static void fill_words(const struct golayout *lay, struct runtime_words *ret)
{
	const struct golayout_numbers *n = &lay->n;

	*ret = (struct runtime_words){.allm = lay->v.allm,
				      .m_procid = n->m_procid,
				      .m_alllink = n->m_alllink,
				      .m_gsignal = n->m_gsignal,
				      .m_curg = n->m_curg,
				      .g_stack_lo = n->g_stack_lo,
				      .g_stack_hi = n->g_stack_hi,
				      .g_sched_sp = n->g_sched_sp,
				      .g_sched_pc = n->g_sched_pc,
				      .g_sched_bp = n->g_sched_bp};
}

struct error *survey_make(struct target *t, const struct image *img, const struct golayout *lay,
			  struct survey *ret)
{
	struct error *err = find_codes(t, img, ret);

	fill_words(lay, &ret->words);
	return err ? err : survey_originals(t, img, ret);
}
