"""`gospect trace` in an emulated machine, while the test makes a program there do something."""

from lib.process import wait_until


class Tracing:
    """From when its jumps are written until it is asked to end."""

    def __init__(self, machine, program, verb="trace", args=""):
        self.machine, self.file = machine, machine.folder / f"{program.pid}.trace"
        out = f"-o {self.file.name}" if verb == "trace" else ""
        self._command = machine.start(f"gospect {verb} -p {program.pid} {out} {args} & echo $! >/tmp/tracer; wait $!")
        wait_until(lambda: self._has_begun(program), 120, "the jumps")

    def _has_begun(self, program):
        """The first function that is hooked begins with a jump (inject/code_page.h: struct code_head)."""
        script = f"""
            words() {{ dd if=/proc/{program.pid}/mem bs=1 skip=$(($1)) count=$2 2>/dev/null | od -An -x; }}
            page=$(grep -m1 gospect-code /proc/{program.pid}/maps) || exit 1
            set -- $(words $((0x${{page%%-*}} + 152)) 8)
            set -- $(words 0x$4$3$2$1 4)
            case $(uname -m) in x86_64) set -- 0 $1; jump='??e9' ;; *) jump='1[4-7]??' ;; esac
            case $2 in $jump) ;; *) exit 1 ;; esac"""
        return self.machine.run(script).status == 0

    def end(self):
        """What gospect printed."""
        self.machine.run("kill -INT $(cat /tmp/tracer)").ok()
        result = self.machine.wait(self._command, 200).ok()
        assert ", 0 lost, " in result.err, result.err
        return result
