"""An emulated machine: a kernel of Debian's under qemu, with gospect in it and a shared folder.

It boots in seconds and runs shell commands, as root unless they say otherwise. Beside gospect it has busybox, setpriv,
unshare and script, and no network but lo.
"""

import contextlib
import dataclasses
import lzma
import os
import pathlib
import re
import select
import shlex
import shutil
import subprocess
import tempfile
import time

from lib import gospect, process
from lib.golang import TESTS
from lib.initramfs import Initramfs

# The kernel's modules for the port, and for the shared folders.
MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p")
MOUNT = "trans=virtio,version=9p2000.L,msize=262144"
BOOT_SECONDS = 120
# By its whole name: busybox's shell would take its own.
SETPRIV = "/usr/bin/setpriv"


@dataclasses.dataclass(frozen=True)
class Kind:
    """What boots."""
    qemu: str              # the emulator, its machine and its processor
    console: str
    kernel: pathlib.Path
    modules: pathlib.Path  # the folder that has lib/modules
    busybox: pathlib.Path
    programs: dict         # path in the machine: file
    folders: tuple         # where their libraries are
    files: dict = dataclasses.field(default_factory=dict)  # likewise, without libraries


def needed_libraries(file, folders, found=None):
    """The shared libraries of a program: path by name."""
    found = {} if found is None else found
    dynamic = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True)
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic.stdout):
        if name not in found:
            path = next(folder / name for folder in folders if (folder / name).exists())
            found[name] = path
            needed_libraries(path, folders, found)
    return found


def image(root):
    """The kernel among the files of its packages."""
    return next(path for pattern in ("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz") for path in root.glob(pattern))


def read_module(path):
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-qdc", path], capture_output=True, check=True).stdout
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


def modules_in_order(root):
    """MODULES and what they depend on, in the order of loading."""
    files = {path.name.partition(".")[0].replace("-", "_"): path
             for top in ("lib", "usr/lib") for path in root.glob(f"{top}/modules/*/kernel/**/*.ko*")}
    order = {}

    def add(name):
        if not name or name not in files or name in order:  # without a file it is part of the kernel
            return
        module = read_module(files[name])
        for other in re.search(rb"\0depends=([^\0]*)\0", module)[1].decode().split(","):
            add(other.replace("-", "_"))
        order[name] = module

    for name in MODULES:
        add(name)
    return list(order.values())


def make_initramfs(kind, init=TESTS / "arm64" / "init"):
    made = Initramfs(["proc", "sys", "dev", "tmp", "control", "share"])
    made.add_file("init", init.read_bytes())
    made.add_file("bin/busybox", kind.busybox.read_bytes())
    made.add_file("etc/passwd", b"root:x:0:0::/tmp:/bin/sh\nalice:x:1000:1000::/tmp:/bin/sh\n"
                                b"bob:x:1001:1001::/tmp:/bin/sh\n")
    made.add_file("etc/group", b"root:x:0:\nalice:x:1000:\nbob:x:1001:\n")
    needed = {}
    for name, path in kind.programs.items():
        made.add_file(name, path.read_bytes())
        needed_libraries(path, kind.folders, needed)
    for name, path in kind.files.items():
        made.add_file(name, path.read_bytes())
    for name, path in needed.items():
        # The loader has its own place.
        made.add_file(f"lib64/{name}" if name.startswith("ld-linux-x86") else f"lib/{name}", path.read_bytes())
    for i, module in enumerate(modules_in_order(kind.modules)):
        made.add_file(f"modules/{i:02}.ko", module)
    return made.data()


class Ended(RuntimeError):
    """The machine did, by itself."""

    def __init__(self, buffer, console):
        self.console = console
        super().__init__("\n".join(["the machine ended:", buffer, *console.splitlines()[-20:]]))


class Machine:
    """Boots the machine; `folder` is /share in it. The output of a command is there when it has ended.

    `same`: folders that have the same place in it as here."""

    def __init__(self, kind, share=None, processors=2, memory=1024, append="", same=()):
        self.temporary = pathlib.Path(tempfile.mkdtemp(dir="/tmp", prefix="emulated."))
        self.control = self.temporary / "control"
        self.control.mkdir()
        self.folder = pathlib.Path(share or self.temporary / "share").resolve()
        self.folder.mkdir(exist_ok=True)
        (self.temporary / "initramfs").write_bytes(make_initramfs(kind))
        self.console = self.temporary / "console"
        self.process = subprocess.Popen(
            self._command(kind, processors, memory, append, same), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, preexec_fn=process._in_child)
        self._begin()
        try:
            for i, folder in enumerate(same):
                self.run(f"mkdir -p {folder} && mount -t 9p -o {MOUNT} same{i} {folder}").ok()
        except BaseException:
            self.stop()
            raise

    def _begin(self):
        """Its process was started."""
        self._buffer = b""
        self._count = 0
        self._ended = {}
        self._put = {}
        try:
            self._await("ready", BOOT_SECONDS)
        except BaseException:
            self.stop()
            raise

    def _command(self, kind, processors, memory, append, same):
        command = f"""
            {kind.qemu} -smp {processors} -m {memory}
            -nographic -nodefaults -monitor none -no-reboot -serial file:{self.console}
            -kernel {kind.kernel} -initrd {self.temporary}/initramfs
            -append 'console={kind.console} quiet panic=-1 rdinit=/init {append}'
            -chardev stdio,id=port,signal=off -device virtio-serial-pci
            -device virtserialport,chardev=port"""
        shared = {"control": self.control, "share": self.folder, **{f"same{i}": folder for i, folder in enumerate(same)}}
        for name, folder in shared.items():
            command += f" -fsdev local,id={name},path={folder},security_model=none"
            command += f" -device virtio-9p-pci,fsdev={name},mount_tag={name}"
        return shlex.split(command)

    def _read_line(self, end):
        while b"\n" not in self._buffer:
            left = max(0, end - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                raise TimeoutError("the machine does not answer")
            data = os.read(self.process.stdout.fileno(), 4096)
            if not data:
                raise self._has_ended()
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode().strip()

    def _has_ended(self):
        console = self.console.read_text(errors="replace") if self.console.exists() else ""
        return Ended(self._buffer.decode(errors="replace"), console)

    def _await(self, name, seconds):
        """The status with which the command of that name ended."""
        end = time.monotonic() + seconds
        while name not in self._ended:
            line = self._read_line(end)
            said, _, status = line.partition(" ")
            if not (status or "0").isdigit():
                raise RuntimeError(f"the emulator said: {line}")
            self._ended[said] = int(status or 0)
        return self._ended.pop(name)

    def start(self, script):
        """Begins to run it; for wait()."""
        self._count += 1
        name = str(self._count)
        (self.control / f"{name}.sh").write_text(script)
        try:
            self.process.stdin.write(name.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._has_ended() from None
        return name

    def wait(self, name, seconds=60):
        status = self._await(name, seconds)
        out, err = ((self.control / f"{name}.{kind}").read_bytes() for kind in ("out", "err"))
        return gospect.Result(subprocess.CompletedProcess([], status, out, err))

    def run(self, script, seconds=60):
        """Runs a shell script to its end, in /share."""
        return self.wait(self.start(script), seconds)

    def gospect(self, *args, prefix="", seconds=60):
        """Runs gospect there, behind the words of prefix."""
        return self.run(f"{prefix} gospect {shlex.join(map(str, args))}", seconds)

    def put(self, file):
        """Copies a file there, into a folder of its own; its path in the machine."""
        file = pathlib.Path(file).resolve()
        if file not in self._put:
            folder = self.folder / f"file{len(self._put)}"
            folder.mkdir()
            shutil.copy(file, folder)
            self._put[file] = f"/share/{folder.name}/{file.name}"
        return self._put[file]

    def stop(self):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        shutil.rmtree(self.temporary, ignore_errors=True)


class Program(process.Program):
    """A program of tests/programs in the machine, behind the words of prefix."""

    def __init__(self, machine, binary, *args, prefix="", seconds=60):
        self.machine = machine
        self.binary = pathlib.Path(binary)
        self.path = machine.put(binary)
        name = f"{self.binary.name}-{machine._count}"
        self._input = f"/tmp/{name}.in"
        self._said = machine.control / f"{name}.said"
        self._cried = machine.control / f"{name}.cried"
        self._said.touch()
        self._cried.touch()
        self._read = 0
        self._buffer = b""
        self._seconds = seconds
        self.pid = int(machine.run(
            f"mkfifo {self._input}\n"
            f"{prefix} {self.path} {shlex.join(map(str, args))} <>{self._input} "
            f">/control/{self._said.name} 2>/control/{self._cried.name} &\n"
            "echo $!").ok().text)
        ready = self.line()
        assert ready == f"ready {self.pid}", f"{self.binary.name} said {ready!r}"
        self.answer = self.ask("check")

    def _fill(self):
        process.wait_until(lambda: self._said.stat().st_size > self._read, self._seconds,
                           f"{self.binary.name} in the machine: {self.stderr()[:500]}")
        with open(self._said, "rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        self._buffer += data

    def sending(self, command):
        """The shell command there that sends it."""
        return f"echo {shlex.quote(command)} >{self._input}"

    def send(self, command):
        self.machine.run(self.sending(command)).ok()

    def lines(self):
        """All that it has said, when it says no more."""
        self.send("check")
        found = []
        while not found or found[-1] != self.answer:
            found.append(self.line())
        return found[:-1]

    def stderr(self):
        """Its output so far."""
        return self._cried.read_text()

    def idle(self):
        time.sleep(0.5)

    def status(self):
        """/proc/PID/status as a dict; {} when it has ended."""
        lines = self.machine.run(f"cat /proc/{self.pid}/status").text.splitlines()
        return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}

    def assert_well(self):
        fields = self.status()
        assert fields, f"{self.binary.name} ended: {self.stderr()[:500]}"
        assert fields["TracerPid"] == "0", "it is being traced"
        assert fields["State"][0] in "RSD", f"it is {fields['State']}"
        assert self.ask("check") == self.answer

    def stop(self):
        with contextlib.suppress(Ended):
            self.machine.run(f"kill -9 {self.pid}")
