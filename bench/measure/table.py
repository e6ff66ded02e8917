"""The one table."""

WIDTHS = (38, 27, 27, 32, 32, 27, 0)


def line(*cells):
    return "".join(str(c).ljust(w) for c, w in zip(cells, WIDTHS)).rstrip()


def plain(number):
    """Three digits that count, never an exponent."""
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def short(number):
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.3g} {unit}"
    return plain(number)


def microseconds(us):
    return f"{plain(us / 1000)} ms" if us >= 1000 else f"{plain(us)} us"


def spread(values, scale=1.0):
    median, low, high = (plain(v * scale) for v in values[:3])
    return f"{median} [{low} .. {high}]"


def change(values):
    median, low, high = (f"{100 * v:+.1f}" for v in values[:3])
    return f"{median} % [{low} .. {high}]"


def count(n):
    if n >= 1000000:
        return f"{n / 1e6:.0f}M"
    return f"{n // 1000}k" if n >= 1000 else str(n)


def snapshots(rows):
    yield line("one look at all goroutines", "full: stacks read", "nothing changed", "same, cold caches",
               "from nothing (CPU)")
    for r in rows:
        n = r["goroutines"]
        for unit, scale in (("ns each", 1.0 / n), ("ms", 1e-6)):
            name = f"  {count(n)}, {r['frames']:.0f} frames: {unit}"
            yield line(name, *(spread(r[k], scale) for k in ("full", "incremental", "cold")),
                       plain((r["open"] + r["first"]) * scale))


def dump(rows):
    yield line("dump", "gospect: ms", "its CPU: ms; memory: MB", "target's own debug=2: ms", "delve, goroutines -t 20: ms",
               "times as long as gospect")
    for r in rows:
        own = delve = times = ""
        if "own_ms" in r:
            own = spread(r["own_ms"]) + (f" (cut at {r['own_mb']:.0f} MB)" if r["own_mb"] > 67 else "")
            times = f"debug=2 {plain(r['own_ms'][0] / r['gospect_ms'][0])}"
        if "delve_ms" in r:
            delve = f"{spread(r['delve_ms'])}, {r['delve_rss_mb'][0]:.0f} MB"
            times += f", delve {plain(r['delve_ms'][0] / r['gospect_ms'][0])}"
        yield line(f"  {count(r['goroutines'])}, {r['frames']:.0f} frames", spread(r["gospect_ms"]),
                   f"{spread(r['gospect_cpu_ms'])}; {r['gospect_rss_mb'][0]:.0f}", own, delve, times)


def startup(rows):
    yield line("a large program", "first sample after: ms", "finished dump after: ms", "CPU of the dump: ms",
               "memory, dump: MB", "memory, record: MB")
    for r in rows:
        yield line(f"  {r['name']}, {r['mb']:.0f} MB", spread(r["first_sample_ms"]), spread(r["dump_ms"]),
                   spread(r["dump_cpu_ms"]), spread(r["dump_rss_mb"]), spread(r["record_rss_mb"]))


def many(rows):
    yield line("recordings of 10 s", "its CPU: % of a core", "error it tells: %", "largest error: pp", "looks at each a second",
               "memory: MB")
    for r in rows:
        yield line(f"  {count(r['goroutines'])} goroutines, budget {r['budget']} %",
                   *(spread(r[k]) for k in ("cpu", "told", "wrong", "looks", "rss_mb")))


def oncpu(rows):
    ways = list(dict.fromkeys(way for r in rows for group in r["groups"].values() for way in group))
    yield line("caller is work: % of samples", *ways)
    for r in rows:
        for group, seen in r["groups"].items():
            yield line(f"  Go {r['version']}, in {group}", *(spread(seen[w]["right"], 100) if w in seen else "-" for w in ways))
            yield line("    of all samples", *(spread(seen[w]["share"], 100) if w in seen else "-" for w in ways))


def outcome(seen):
    """The share of stacks with all callers right; of the others what is wrong."""
    wrong = [f"{100 * seen[k]:.1f} {k}" for k in ("lost", "twice", "cut", "other") if seen[k] >= 0.0005]
    return f"{100 * seen['right']:.1f}" + (f" ({', '.join(wrong[:2])})" if wrong else "")


def unwinding(r):
    yield line("all callers right: % of stacks", "stacks of each", "pcsp", "fp: as perf -g", "dwarf: .debug_frame")
    for row in r["programs"]:
        yield line(f"  Go {row['version']}, {row['name']}",
                   " ".join(str(row[m]["samples"]) for m in ("pcsp", "fp", "dwarf")),
                   *(outcome(row[m]) for m in ("pcsp", "fp", "dwarf")))
    yield line("time: ns", "a stack again", "a stack of known frames", "a frame's row in the table", "records alone",
               "a frame's symbols")
    for row in r["costs"]:
        yield line(f"  Go {row['version']}, {row['stacks']} of {row['frames']:.1f} frames")
        for m in ("pcsp", "fp", "dwarf"):
            seen = row[m]
            yield line("    " + m, plain(seen["again"]), plain(seen["known"]),
                       plain(seen["lookup"]) if "lookup" in seen else "none",
                       plain(seen["chain"]) if "chain" in seen else "", plain(row["symbolize"]))
    yield line("labels: % of time in labelled code", *(f"-r {hz}" for hz in r["labels"]))
    yield line("  Go's newest, http", *(plain(100 * share) for share in r["labels"].values()))


def standard(versions):
    for r in versions:
        yield line(f"encoding/json, {r['version']}, n = {r['rounds']}", "time, geometric mean",
                   "significantly slower", "significantly faster", "its CPU: % of a core")
        for name, key in (("nothing again", "again"), ("gospect 100 Hz (1 %)", "gospect")):
            c = r[key]
            yield line("  " + name, f"{100 * c['geomean']:+.2f} %", f"{c['slower']} of {c['benchmarks']}",
                       f"{c['faster']} of {c['benchmarks']}", plain(r["own_cpu"]) if key == "gospect" else "")
        yield line("  each", "nothing: us", "gospect 100 Hz: us", "change (~: p >= 0.05)", "nothing again")
        for name, row in r["gospect"]["rows"].items():
            yield line("    " + name, plain(row["before"] * 1e6), plain(row["after"] * 1e6), row["change"],
                       r["again"]["rows"][name]["change"])


def services(r):
    modes = r["modes"]
    changed = [modes[m] for m in ("nothing again", "record", "trace")]
    yield line(f"a gRPC service, n = {r['rounds']}", "nothing", "nothing again", "gospect record (1 %)", "gospect trace")
    yield line("  calls a second", short(modes["nothing"]["throughput"][0]), *[change(m["throughput_change"]) for m in changed])
    yield line("  CPU of the server a call, us", plain(modes["nothing"]["cpu_per_op"][0] / 1e3),
               *[change(m["cpu_per_op_change"]) for m in changed])
    for key in ("p50", "p99"):
        yield line(f"  {key}, us", plain(modes["nothing"][f"{key}_us"][0]), *[change(m[f"{key}_us_change"]) for m in changed])
    yield line("  events lost", "", "", "", modes["trace"]["lost"])


def overhead(cases):
    yield line("the target, while", "nothing", "nothing again", "gospect 100 Hz (1 %)", "gospect --budget 100",
               "fgprof 99 Hz")
    for case in cases:
        yield from overhead_case(case)


def overhead_case(case):
    modes = case["modes"]
    base = modes["nothing"]
    changed = [modes[m] for m in ("nothing again", "gospect", "gospect --budget 100", "fgprof")]
    others = max(m["others"][0] for m in modes.values())
    yield line(f"  {case['work']}, {count(case['parked'])} parked", "",
               "" if others < 0.05 else f"(others used {others:.2f} CPUs)")
    for key, name, value in (
            ("throughput", "throughput", short(base["throughput"][0]) + " op/s"),
            ("cpu_per_op", "CPU per op, target and tool", microseconds(base["cpu_per_op"][0] / 1000)),
            ("p999_us", "p99.9", microseconds(base["p999_us"][0]))):
        yield line("    " + name, value, *(change(m[key + "_change"]) for m in changed))
    for key, name, scale in (
            ("hz", "rate reached: Hz", 1),
            ("looks", "looks at each goroutine a second", 1),
            ("own_cpu", "its own CPU: % of a core", 100),
            ("whole_cpu", "with its start and end", 100)):
        yield line("    " + name, "", *(spread(m[key], scale) if key in m else "" for m in changed))


def module(cases):
    yield line("a program that profiles itself", "nothing", "nothing again", "the Go module", "fgprof 99 Hz")
    for case in cases:
        modes = case["modes"]
        base, changed = modes["nothing"], [modes[m] for m in ("nothing again", "module", "fgprof")]
        yield line(f"  {case['work']}, {count(case['parked'])} parked")
        for key, name, value in (
                ("throughput", "throughput", short(base["throughput"][0]) + " op/s"),
                ("cpu_per_op", "CPU per op, with its child", microseconds(base["cpu_per_op"][0] / 1000)),
                ("p999_us", "p99.9", microseconds(base["p999_us"][0]))):
            yield line("    " + name, value, *(change(m[key + "_change"]) for m in changed))


def tracing(cases):
    yield line("the target, while traced", "nothing", "by gospect trace", "without stacks", "by its own runtime/trace")
    for case in cases:
        modes, events = case["modes"], case["events_per_op"]
        yield line(f"  {case['work']}, {events:.1f} events per op")
        for key, name, value in (
                ("cpu_per_op", "CPU per op: ns", plain),
                ("throughput", "throughput: op/s", short),
                ("p999_us", "p99.9: us", plain)):
            yield line("    " + name, *(value(modes[m][key][0]) for m in modes))
        yield line("    CPU per event: ns", "", *(spread(modes[m]["per_event"]) for m in modes if m != "nothing"))
        ours = modes["gospect"]
        yield line("    events: million a second", "", *(f"{modes[m]['events_a_second'][0] / 1e6:.1f}"
                                                         for m in ("gospect", "gospect without stacks")))
        yield line("    lost events: %", "", *(f"{100 * modes[m]['lost_share']:.2f}"
                                               for m in ("gospect", "gospect without stacks")))
        sizes = case["bytes_per_event"]
        yield line("    bytes per event", "", f"{sizes['gospect']:.2f}", "", f"{sizes['own']:.2f}")
        yield line("    gospect's CPU per million events: ms", "", spread(ours["own_ms"]))
        yield line("    longest stop of the target: ms", "", spread(ours["pause_ms"]))


def together(cases):
    yield line("the machine, while traced", "nothing", "by gospect trace", "by its own runtime/trace")
    for case in cases:
        modes = case["modes"]
        yield line(f"  {case['work']}, all processors busy")
        yield line("    throughput: op/s", *(short(m["throughput"][0]) for m in modes.values()))
        yield line("      change", "", *(change(modes[m]["throughput_change"]) for m in ("gospect", "own")))
        yield line("    CPU per op, target and tool: ns", *(plain(m["cpu_per_op"][0]) for m in modes.values()))
        yield line("      change", "", *(change(modes[m]["cpu_per_op_change"]) for m in ("gospect", "own")))
        yield line("      of it gospect: ns", "", spread(modes["gospect"]["own_per_op"]))
        yield line("    lost events", "", f"{case['lost']} of {case['events'] + case['lost']}")
        yield line("    gospect's CPU to the end: ns per event", "", spread(case["to_the_end"]))


def decoding(cases):
    yield line("gospect's CPU for an event, up to here: ns", *(stage for stage in cases[0] if stage != "work"))
    for case in cases:
        yield line("  " + case["work"], *(spread(case[stage]) for stage in case if stage != "work"))


def bursts(cases):
    yield line("bursts of 1.2 million events", "events", "lost")
    for case in cases:
        beside = f"{case['others']} of 4 hogs elsewhere" if case["busy"] else "a quiet machine"
        yield line(f"  {case['bursts']} of them, {beside}", str(case["events"]),
                   str(case["lost"]))


def hooks(cases, what="an event, by hooks that are switched", unit="CPU, ns"):
    yield line(what, "gospect", "its own runtime/trace", "share: %")
    for case in cases:
        yield line(f"  {case['work']}: {unit}", spread(case["gospect"]), spread(case["own"]), spread(case["share"], 100))


def uprobes(found):
    yield line("a call, with on its function", "nothing there", "what it adds: ns")
    for key, of, name in (("checked", "checked", "uprobe on cmp, single-stepped"),
                          ("unchecked", "unchecked", "uprobe on push rbp, emulated"),
                          ("gospect", "checked", "gospect --root: call and return")):
        yield line("  " + name, spread(found["bare"][of]), spread(found["extra"][key]))


def names(found):
    yield line("a traced call of a handler: ns", "nothing traces", "traced, --no-names", "traced", "of it the names")
    for name in found["nothing"]:
        yield line(f"  a request with {name}", *(spread(found[key][name]) for key in ("nothing", "unnamed", "named", "naming")))


def stops(cases):
    yield line("the world stands still", "times a second", "ms a second", "one: ms", "until all stood: ms", "longest: ms", "who asked")
    for case in cases:
        for mode, rows in case["modes"].items():
            yield line(f"  http, {count(case['parked'])} parked, {mode}")
            for reason, row in sorted(rows.items()):
                yield line("    " + reason, *(spread(row[key]) for key in ("count", "total", "median", "until_all", "longest")),
                           row["who"])


def pauses(cases):
    yield line("the longest stop of a traced program: ms", "gospect says", "a thread that runs sees")
    for case in cases:
        busy = ", 2 busy loops a core" if case["busy"] else ""
        yield line(f"  {case['sleepers']} threads sleep, 2 run{busy}", spread(case["said"]), spread(case["seen"]))


def leaks(rows):
    yield line("leaked goroutines", "gospect: ms", "its CPU: ms; memory: MB", "pause: said before; was: ms", "copied: MB",
               "target: operations a second", "its p99.9: us; longest: ms")
    for r in rows:
        cost = [spread(r["ms"]), f"{spread(r['cpu_ms'])}; {r['rss_mb'][0]:.0f}"] if "ms" in r else ["", ""]
        pause = f"{plain(r['told'][0])}; {spread(r['pause'])}" if "pause" in r else ""
        yield line(f"  {r['megabytes']} MB: {r['way']}", *cost, pause, spread(r["copied"]) if "copied" in r else "",
                   spread(r["ops"]), f"{spread(r['p999'])}; {plain(r['longest'][0])}")


def page(cases):
    yield line("the page, in headless Chromium", "size: MB", "open: ms (goal: 2,000)", "another range of time: ms", "a frame while it zooms: ms",
               "frames a second (goal: 60)")
    for case in cases:
        yield line("  " + case["name"], plain(case["mb"]), *(spread(case[key]) for key in ("open_ms", "choose_ms", "frame_ms")),
                   plain(case["frames_a_second"]))


def heaps(cases):
    yield line("the heap, while the target serves HTTP", "time: ms", "CPU: ms", "memory: MB", "target's throughput",
               "its p99.9", "its longest request")
    for case in cases:
        if "skipped" in case:
            yield line(f"  {case['mb']} MB", "skipped: " + case["skipped"])
            continue
        yield line(f"  {case['mb']} MB live, {case['rss_mb']:.0f} MB resident")
        for name, m in case["modes"].items():
            if "skipped" in m:
                yield line("    " + name, "skipped: " + m["skipped"])
                continue
            base = name == "nothing"
            memory = plain(m["rss_mb"][0]) if "rss_mb" in m else f"file of {plain(m['mb'][0])}" if "mb" in m else ""
            yield line("    " + name, "" if base else spread(m["ms"]), "" if base else spread(m["cpu_ms"]), memory,
                       short(m["throughput"][0]) + " op/s" if base else change(m["throughput_change"]),
                       microseconds(m["p999_us"][0]), microseconds(m["max_us"][0]))


SECTIONS = {"snapshots": snapshots, "dump": dump, "startup": startup, "many": many, "oncpu": oncpu, "unwinding": unwinding,
            "standard": standard, "caches": standard, "services": services, "overhead": overhead, "module": module, "tracing": tracing,
            "together": together, "decoding": decoding, "bursts": bursts,
            "hooks": hooks, "switched": lambda cases: hooks(cases, "an event, by a program that switches"),
            "instructions": lambda cases: hooks(cases, "an event on arm64, emulated", "instructions"),
            "uprobes": uprobes, "names": names, "stops": stops, "pauses": pauses, "leaks": leaks, "page": page, "heaps": heaps}


def render(results):
    machine = results["machine"]
    lines = [f"{machine['cores']} cores of {machine['cpu']}, Linux {machine['kernel']}; medians [min .. max]"]
    for name, section in SECTIONS.items():
        if name not in results:
            continue
        lines.append("")
        if "skipped" in results[name]:
            lines.append(f"{name}: skipped: {results[name]['skipped']}")
        else:
            lines += section(results[name])
    return "\n".join(lines)
