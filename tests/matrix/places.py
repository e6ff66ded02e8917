"""Where the programs of the matrix run: on this machine, or in an emulated one of another architecture."""

import contextlib

from lib import emulated, golang, gospect, pprof, traceback, traced_there
from lib import tracing as agent
from lib.process import CpuMeter, Program
from lib.traced import tracing
from matrix import builds


class Here:
    arch = None

    def __init__(self, folder):
        self.folder = folder

    def start(self, binary, build):
        if "-buildmode=c-shared" in build.flags:
            return Program(builds.host(), binary)
        return Program(binary)

    def gospect(self, *args):
        return gospect.run(*args)

    def dump(self, pid):
        return gospect.dump(pid)

    def record(self, program, seconds):
        """While it spins: (what record said, the profile, the CPU that the program used while it was recorded)."""
        assert program.ask("spin") == "done", "it does not spin"
        file = self.folder / "matrix.pb.gz"
        with CpuMeter(program) as meter:
            said = gospect.run("record", "-p", program.pid, "-d", seconds, "-o", file).ok().err.strip()
        profile = pprof.read(file)
        return said, profile, meter.seconds_of(profile)

    @contextlib.contextmanager
    def tracing(self, program):
        """Gives the file that the trace is in at the end; none of its events is lost."""
        file = self.folder / "matrix.trace"
        with tracing(program, file) as t:
            yield file
        assert t.lost == 0, f"trace: {t.err}"
        agent.assert_untouched(program)


class InMachine:
    """An emulated machine. One percent of its processor is nothing: record has more."""
    # The program's code in memory: the linker of cgo may have changed it, so it is not that of the file.
    COPY_CODE = """
        range=$(grep "r-x.* %(path)s$" /proc/%(pid)s/maps)
        first=$((0x${range%%%%-*} / 4096)) range=${range#*-} last=$((0x${range%%%% *} / 4096))
        dd if=/proc/%(pid)s/mem bs=4096 skip=$first count=$((last - first)) of=/tmp/%(to)s 2>/dev/null
        [ -s /tmp/%(to)s ]"""

    def __init__(self, machine, arch=golang.ARM64):
        self.machine, self.arch = machine, arch

    def start(self, binary, build):
        return emulated.Program(self.machine, binary, seconds=120)

    def gospect(self, *args):
        return self.machine.gospect(*args)

    def dump(self, pid):
        return traceback.parse(self.machine.gospect("dump", "-p", pid).ok().text)

    def record(self, program, seconds):
        """It may be seconds until the recording begins: the program spins all the time."""
        def used():
            return sum(map(int, self.machine.run(f"cat /proc/{program.pid}/stat").text.rpartition(")")[2].split()[11:13])) / 100

        before = used()
        said = self.machine.run(f"""
            gospect record -p {program.pid} -d {4 + seconds} --budget 50 -o matrix.pb.gz & recorder=$!
            for i in 1 2 3 4; do {program.sending("spin")}; sleep 2; done
            wait $recorder""").ok().err
        assert [program.line() for _ in range(4)] == ["done"] * 4, "it does not spin"
        return said.strip(), pprof.read(self.machine.folder / "matrix.pb.gz"), used() - before

    @contextlib.contextmanager
    def tracing(self, program):
        def copy_code(to):
            self.machine.run(self.COPY_CODE % {"pid": program.pid, "path": program.path, "to": to}).ok()

        copy_code("before")
        t = traced_there.Tracing(self.machine, program)
        copy_code("traced")
        yield t.file
        t.end()
        copy_code("after")
        assert self.machine.run("cmp /tmp/before /tmp/after").status == 0, "trace: the code is another one afterwards"
        assert self.machine.run("cmp /tmp/before /tmp/traced").status == 1, "trace: the code was not changed meanwhile"
        left = self.machine.run(f"grep gospect /proc/{program.pid}/maps").text.splitlines()
        assert len(left) <= 1 and all("gospect-code" in line for line in left), left
