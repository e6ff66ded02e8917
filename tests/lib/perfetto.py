"""Reads Perfetto traces with the classes of Perfetto's own Python package."""

import collections
import functools
import subprocess
import sys

from lib import golang

REQUIREMENTS = ("perfetto==0.59.1", "protobuf>=6.31.1,<7")


@functools.cache
def protos():
    """The module of Perfetto's messages; None when the package cannot be had."""
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
        self.open = []
        self.slices = []    # (name, begin, end)
        self.instants = []  # (name, time)
        self.counts = []
        self.labels = collections.Counter()  # what slices and instants are annotated with
        self.last = 0


class Trace:
    """What a viewer makes of the packets; what is not as the format wants it is in `wrong`."""

    def __init__(self, data):
        self.tracks = collections.defaultdict(Track)
        self.names, self.values, self.annotations = {}, {}, {}
        self.flows, self.arrows, self.wrong = {}, 0, []
        self.stacks = collections.Counter()
        self.process = None
        trace = protos().Trace()
        trace.ParseFromString(data)
        for packet in trace.packet:
            self.take(packet)

    def take(self, packet):
        if packet.sequence_flags & 1:
            self.names, self.values, self.annotations = {}, {}, {}
        for entry in packet.interned_data.event_names:
            self.names[entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_names:
            self.annotations[entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_string_values:
            self.values[entry.iid] = entry.str.decode()
        if packet.HasField("track_descriptor"):
            self.describe(packet.track_descriptor)
        if packet.HasField("track_event"):
            self.event(packet.timestamp, packet.track_event)

    def describe(self, descriptor):
        self.tracks[descriptor.uuid].name = descriptor.name
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
        for annotation in event.debug_annotations:
            kind = self.annotations[annotation.name_iid]
            assert kind in ("stack", "labels"), kind
            counts = self.stacks if kind == "stack" else track.labels
            counts[self.values[annotation.string_value_iid]] += 1
        for flow in event.flow_ids:
            self.flows[flow] = time
        for flow in event.terminating_flow_ids:
            if self.flows.pop(flow, time + 1) > time:
                self.wrong.append(f"a flow ends that did not begin, on {track.name}")
            self.arrows += 1
        self.slice(time, event, track, name)

    def slice(self, time, event, track, name):
        kind = protos().TrackEvent
        if event.type == kind.TYPE_COUNTER:
            track.counts.append(event.counter_value)
        elif event.type == kind.TYPE_SLICE_END:
            if track.open:
                begun, since = track.open.pop()
                track.slices.append((begun, since, time))
            else:
                self.wrong.append(f"an end without a beginning on {track.name}")
        elif name is None:
            self.wrong.append(f"an event without a name on {track.name}")
        elif event.type == kind.TYPE_SLICE_BEGIN:
            track.open.append((name, time))
        else:
            track.instants.append((name, time))

    def named(self, text):
        return [track for track in self.tracks.values() if text in (track.name or "")]
