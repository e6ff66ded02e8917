#include "oncpu/go_threads.h"

#include "base/cleanup.h"
#include "golayout/view.h"

#define MAX_THREADS 100000

void go_threads_release(struct go_threads *threads)
{
	map_release(&threads->m);
}

void go_threads_stale(struct go_threads *threads)
{
	threads->are_fresh = false;
}

/* Maps the target's number of a thread to gospect's. */
static void name_threads(struct go_threads *threads, struct map *names)
{
	_cleanup_free_ struct target_thread *list = NULL;
	size_t count;

	if (error_dropped(target_threads(threads->t, &list, &count)))
		return;
	for (size_t i = 0; i < count; i++) {
		uint64_t *name = map_at(names, list[i].inner);

		if (name)
			*name = list[i].id;
	}
}

/* The list of all m's, newest first. */
static void read_all(struct go_threads *threads)
{
	const struct golayout_numbers *n = &threads->lay->n;
	_cleanup_map_ struct map names = {0};
	uint64_t m, procid, *place;
	const uint64_t *name;

	threads->are_fresh = true;
	/* A program may create threads without end: forget those that have ended. */
	if (threads->m.count > 2 * MAX_THREADS)
		map_release(&threads->m);
	name_threads(threads, &names);
	if (error_dropped(target_read_u64(threads->t, threads->lay->v.allm, &m)))
		return;
	for (size_t i = 0; m && i < MAX_THREADS; i++) {
		if (error_dropped(target_read_u64(threads->t, m_at_procid(n, m), &procid)))
			return;
		name = map_find(&names, procid);
		place = name ? map_at(&threads->m, *name) : NULL;
		if (place)
			*place = m;
		if (error_dropped(target_read_u64(threads->t, m_at_alllink(n, m), &m)))
			return;
	}
}

uint64_t go_threads_m(struct go_threads *threads, pid_t tid)
{
	const uint64_t *m = map_find(&threads->m, tid);

	if (!m && !threads->are_fresh) {
		read_all(threads);
		m = map_find(&threads->m, tid);
	}
	return m ? *m : 0;
}

uint64_t go_threads_procid(struct go_threads *threads, pid_t tid)
{
	uint64_t m = go_threads_m(threads, tid), procid;

	if (!m ||
	    error_dropped(target_read_u64(threads->t, m_at_procid(&threads->lay->n, m), &procid)))
		return tid;
	return procid;
}

bool go_threads_is_go(struct go_threads *threads, pid_t tid)
{
	return go_threads_m(threads, tid) != 0;
}

uint64_t go_threads_goroutine(struct go_threads *threads, pid_t tid)
{
	uint64_t m = go_threads_m(threads, tid), g;

	if (!m || error_dropped(target_read_u64(threads->t, m_at_curg(&threads->lay->n, m), &g)))
		return 0;
	return g;
}

bool go_threads_own_sp(struct go_threads *threads, pid_t tid, uint64_t *ret)
{
	const struct golayout_numbers *n = &threads->lay->n;
	uint64_t m = go_threads_m(threads, tid), g0;

	return m && !error_dropped(target_read_u64(threads->t, m_at_g0(n, m), &g0)) &&
	       !error_dropped(target_read_u64(threads->t, g_at_sched_sp(n, g0), ret));
}
