"""Reads Perfetto traces with the classes of Perfetto's own Python package."""

import collections
import functools
import subprocess
import sys
import zlib

from lib import golang

REQUIREMENTS = ("perfetto==0.59.1", "protobuf>=6.31.1,<7")


@functools.cache
def protos():
    """The module of Perfetto's messages; None when the package is unavailable."""
    folder = golang.CACHE / "pypi-perfetto"
    with golang.building(folder):
        if not (folder / "perfetto").exists():
            result = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target",
                                     folder, *REQUIREMENTS], capture_output=True)
            if result.returncode != 0:
                return None
    sys.path.insert(0, str(folder))
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    return perfetto_trace_pb2


class Track:
    def __init__(self):
        self.name = None
        self.parent = None
        self.open = []
        self.slices = []    # (name, begin, end)
        self.instants = []  # (name, time)
        self.counts = []
        self.labels = collections.Counter()  # what slices and instants are annotated with
        self.last = 0


class Goroutine:
    """The slices of one, on any track."""

    def __init__(self):
        self.slices = []  # (name, begin, end)
        self.labels = collections.Counter()
        self.tracks = set()


class Trace:
    """Reads the packets as a viewer does; violations of the format are in `wrong`."""

    def __init__(self, data):
        self.tracks = collections.defaultdict(Track)
        self.names, self.values, self.annotations = {}, {}, {}
        self.flows, self.arrows, self.wrong = {}, 0, []
        self.stacks = collections.Counter()
        self.goroutines = collections.defaultdict(Goroutine)  # by name: "G7 main.worker"
        self.flow_steps = collections.defaultdict(list)  # flow -> (time, track, name of the event, goroutine)
        self.process = None
        self.clocks = {}  # ours -> its time
        self.clock = None
        self.packets = 0
        self.functions, self.frames, self.callstacks, self.mappings = {}, {}, {}, {}
        self.samples = []  # (time, thread, functions from the innermost on)
        self.read(data)

    def read(self, data):
        trace = protos().Trace()
        trace.ParseFromString(data)
        for packet in trace.packet:
            if packet.HasField("compressed_packets"):
                self.read(zlib.decompress(packet.compressed_packets))
            else:
                self.take(packet)

    def take(self, packet):
        self.packets += 1
        if packet.trusted_packet_sequence_id != 1:
            self.wrong.append(f"a packet of no sequence: {packet}")
        if packet.sequence_flags & 1:
            self.names, self.values, self.annotations = {}, {}, {}
            self.functions, self.frames, self.callstacks, self.mappings = {}, {}, {}, {}
            self.clock = packet.trace_packet_defaults.timestamp_clock_id
        for clock in packet.clock_snapshot.clocks:
            self.clocks[clock.clock_id] = clock.timestamp
        data = packet.interned_data
        for table, entries, text in ((self.names, data.event_names, lambda e: e.name),
                                     (self.annotations, data.debug_annotation_names, lambda e: e.name),
                                     (self.values, data.debug_annotation_string_values,
                                      lambda e: e.str.decode())):
            for entry in entries:
                if table.setdefault(entry.iid, text(entry)) != text(entry):
                    self.wrong.append(f"{entry.iid} is {table[entry.iid]!r} and {text(entry)!r}")
        self.intern_stacks(data)
        if packet.HasField("track_descriptor"):
            self.describe(packet.track_descriptor)
        if packet.HasField("track_event"):
            self.event(self.time(packet), packet.track_event)
        if packet.HasField("perf_sample"):
            self.sample(self.time(packet), packet.perf_sample)

    def time(self, packet):
        """The clock is incremental, the time since the packet before, unless the packet names another."""
        if packet.timestamp_clock_id:
            return packet.timestamp
        self.clocks[self.clock] += packet.timestamp
        return self.clocks[self.clock]

    def intern_stacks(self, data):
        self.functions.update((e.iid, e.str.decode()) for e in data.function_names)
        self.mappings.update((e.iid, e) for e in data.mappings)
        self.frames.update((e.iid, e) for e in data.frames)
        self.callstacks.update((e.iid, list(e.frame_ids)) for e in data.callstacks)

    def sample(self, time, sample):
        frames = [self.frames[iid] for iid in self.callstacks[sample.callstack_iid]]
        if any(f.mapping_id not in self.mappings or not f.iid for f in frames):
            self.wrong.append("a frame without a mapping, which viewers skip")
        if sample.pid != self.process.pid:
            self.wrong.append(f"a sample of another process: {sample}")
        self.samples.append((time, sample.tid, [self.functions[f.function_name_id] for f in reversed(frames)]))

    def describe(self, descriptor):
        track = self.tracks[descriptor.uuid]
        if track.name is not None and track.name != descriptor.name:
            self.wrong.append(f"track {descriptor.uuid} is {track.name} and {descriptor.name}")
        track.name = descriptor.name
        track.parent = descriptor.parent_uuid
        if track.parent and track.parent not in self.tracks:
            self.wrong.append(f"the parent of {track.name} is not described")
        if descriptor.HasField("process"):
            self.process = descriptor.process

    def event(self, time, event):
        track = self.tracks[event.track_uuid]
        name = self.names.get(event.name_iid)
        if track.name is None:
            self.wrong.append(f"an event on a track without a name: {event}")
        if time < track.last:
            self.wrong.append(f"time goes back on {track.name}")
        track.last = time
        number = None
        for annotation in event.debug_annotations:
            kind = self.annotations[annotation.name_iid]
            assert kind in ("stack", "labels", "goroutine", "task"), kind
            if kind in ("goroutine", "task"):
                number = annotation.uint_value
                continue
            text = self.values[annotation.string_value_iid]
            if kind == "stack":
                self.stacks[text] += 1
            else:
                track.labels[text] += 1
                self.labels_of(track, text)
        for flow in (*event.flow_ids, *event.terminating_flow_ids):
            self.flow_steps[flow].append((time, track, name, self.owner(track)))
        for flow in event.flow_ids:
            self.flows[flow] = time
        for flow in event.terminating_flow_ids:
            if self.flows.pop(flow, time + 1) > time:
                self.wrong.append(f"a flow ends that did not begin, on {track.name}")
            self.arrows += 1
        self.slice(time, event, track, name, number)

    def owner(self, track):
        """The name of the goroutine that a track shows now, or None.

        A track belongs to one goroutine, or is a lane that goroutines use one after the other."""
        if track.name and track.name.startswith("G") and track.name[1:2].isdigit():
            return track.name if not track.name.endswith(" regions") else None
        if track.open and (track.open[0][0] or "").startswith("G") and track.open[0][0][1:2].isdigit():
            parent = self.tracks[track.parent].name if track.parent else None
            return track.open[0][0] if parent not in ("processors", "threads") else None
        return None

    def labels_of(self, track, text):
        owner = self.owner(track)
        if owner:
            self.goroutines[owner].labels[text] += 1

    def slice(self, time, event, track, name, number):
        kind = protos().TrackEvent
        if event.type == kind.TYPE_COUNTER:
            track.counts.append(event.counter_value)
        elif event.type == kind.TYPE_SLICE_END:
            self.end(time, track)
        elif name is None:
            self.wrong.append(f"an event without a name on {track.name}")
        elif event.type == kind.TYPE_SLICE_BEGIN:
            track.open.append((name, time))
            owner = self.owner(track)
            if owner and owner == name and number != int(name.split()[0][1:]):
                self.wrong.append(f"{name} has the number {number}")
        else:
            track.instants.append((name, time))

    def end(self, time, track):
        owner = self.owner(track)
        if not track.open:
            self.wrong.append(f"an end without a beginning on {track.name}")
            return
        begun, since = track.open.pop()
        track.slices.append((begun, since, time))
        if owner and begun != owner:
            self.goroutines[owner].slices.append((begun, since, time))
            self.goroutines[owner].tracks.add(track.name)

    def named(self, text):
        return [track for track in self.tracks.values() if text in (track.name or "")]

    def goroutines_named(self, text):
        return [g for name, g in self.goroutines.items() if text in name]
