"""The machine of a measurement, and the load of others on it."""
import os
import platform

TICK = os.sysconf("SC_CLK_TCK")


def describe():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release()}


def busy_seconds():
    """CPU time that all processes of this machine used so far."""
    with open("/proc/stat", encoding="utf-8") as stat:
        user, nice, system, _idle, _iowait, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / TICK


def on_core(core):
    """What goes before a command that is to have one core; any, when that is None."""
    return [] if core is None else ["taskset", "-c", str(core)]


def process_cpu_ns(pid):
    """CPU time of a process, to the nanosecond, from its threads."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="utf-8") as stat:
                total += int(stat.read().split()[0])
        except FileNotFoundError:
            pass
    return total
