#include "cli/stop.h"

#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"

/* Signals within this time count as one request. */
#define REPEAT_NS 1000000000ull

volatile sig_atomic_t stop_requested;
struct gospect_cancel *stop_cancel;

/* The actions when gospect began; valid where `handled` is set. */
static struct sigaction before[NSIG];
static bool handled[NSIG];

/* State of the first signal. Only the handler writes it, and it never interrupts itself. */
static volatile uint64_t first_ns;
static volatile sig_atomic_t first_number, is_terminals;

static volatile sig_atomic_t held, abort_number;
static volatile pid_t child;
static void (*volatile restore)(void);

static void complain(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		return;
}

/* Async-signal-safe. Called from a handler, the signal arrives when the handler returns. */
static void die_of(int number)
{
	if (restore)
		restore();
	complain(child ? "gospect: ended by a second signal; the command continues\n"
		       : "gospect: aborted by a second signal; nothing more is written\n");
	signal(number, SIG_DFL);
	raise(number);
}

static bool aborts(int number)
{
	return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
}

static void on_stop(int number, siginfo_t *info, void *context)
{
	uint64_t now = clock_now();

	if (!stop_requested) {
		first_ns = now;
		first_number = number;
		is_terminals = info->si_code == SI_KERNEL;
		stop_requested = 1;
		if (stop_cancel)
			gospect_cancel_request(stop_cancel);
		if (child && !is_terminals)
			kill(child, number);
	} else if (aborts(number) && now - first_ns >= REPEAT_NS) {
		if (held)
			abort_number = number;
		else
			die_of(number);
	}
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};

	if (!handler)
		action = (struct sigaction){.sa_handler = SIG_IGN};
	sigfillset(&action.sa_mask);
	if (sigaction(number, NULL, &before[number]) ||
	    (number == SIGHUP && before[number].sa_handler == SIG_IGN))
		return;
	handled[number] = !sigaction(number, &action, NULL);
}

void stop_on_signals(void)
{
	static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGUSR1,
				      SIGUSR2, SIGALRM, SIGXCPU,  SIGPROF, SIGVTALRM,
				      SIGPOLL, SIGPWR,  SIGSTKFLT};

	if (handled[SIGINT])
		return;
	stop_cancel = gospect_cancel_create();
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		handle(numbers[i], on_stop);
	for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
		handle(number, on_stop);
	handle(SIGPIPE, NULL);
	handle(SIGXFSZ, NULL);
}

void stop_forget(void)
{
	for (int number = 1; number < NSIG; number++)
		if (handled[number])
			sigaction(number, &before[number], NULL);
}

void stop_hold(void)
{
	held = 1;
}

void stop_release(void)
{
	held = 0;
	if (abort_number)
		die_of(abort_number);
}

void stop_forward(pid_t pid)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	child = pid;
	if (pid && stop_requested && !is_terminals)
		kill(pid, first_number);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void stop_before_death(void (*function)(void))
{
	restore = function;
}

static const int faults[] = {SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGABRT, SIGSYS};

/* The instruction runs again, now with the action from before: a sanitizer's, or death. */
static void on_fault(int number, siginfo_t *info, void *context)
{
	if (number == SIGBUS && info->si_code > 0 && gospect_sigbus(info->si_addr))
		return;
	if (restore)
		restore();
	sigaction(number, &before[number], NULL);
	if (info->si_code <= 0)
		raise(number);
}

void stop_on_faults(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		if (!sigaction(faults[i], NULL, &before[faults[i]]))
			sigaction(faults[i], &action, NULL);
}
