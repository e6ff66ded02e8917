"""The known facts about tests/programs/callers."""

# The caller of each function.
CALLER = {"main.leaf": "main.work", "main.framed": "main.work", "main.duff": "main.work",
          "main.tiny": "main.framed", "main.work": "main.burn", "runtime.duffcopy": "main.work",
          "runtime.duffzero": "main.work"}


def judge(profile):
    """CPU time with the right caller, in ns, and the stacks with a wrong one."""
    right, wrong = 0, []
    for sample in profile.samples:
        leaf, caller = sample.stack[0], sample.stack[1] if len(sample.stack) > 1 else None
        # runtime.newstack copies by duffcopy, too.
        if leaf.startswith("runtime.") and caller == "runtime.newstack":
            continue
        if leaf in CALLER and sample.values["cpu"]:
            if caller == CALLER[leaf]:
                right += sample.values["cpu"]
            else:
                wrong.append(sample.stack)
    return right, wrong
