"""The tests' own reader of tracebacks: it finds a difference where there is one."""

import dataclasses

import pytest

from lib import golang, traceback
from lib.params import every_version


@pytest.fixture
def goroutines(states):
    return traceback.parse(states.stack())


def found(inside, outside, **kwargs):
    return traceback.differences(inside, outside, golang.minor(golang.NEWEST), **kwargs)


@every_version()
def test_equal_text_has_no_difference(targets, version):
    program = targets.keep("states", version)
    before, after = traceback.parse(program.stack()), traceback.parse(program.stack())
    assert len(before) > 80
    assert traceback.differences(before, after, golang.minor(version), labels=True) == []


@pytest.mark.parametrize("change", [
    {"line": 1}, {"file": "elsewhere.go"}, {"func": "main.other"}, {"offset": "0x1"},
    {"offset": None}])
def test_another_frame_is_a_difference(states, goroutines, change):
    other = traceback.parse(states.stack())
    goroutine = traceback.one(other, "main.holdSleep")
    goroutine.frames[-1] = dataclasses.replace(goroutine.frames[-1], **change)
    assert len(found(goroutines, other)) == 1


@pytest.mark.parametrize("change", [
    {"state": "select"}, {"details": ("locked to thread",)}, {"creator": 12345},
    {"created_by": None}, {"available": False}, {"labels": {"a": "b"}}, {"frames": []}])
def test_another_header_is_a_difference(states, goroutines, change):
    other = traceback.parse(states.stack())
    goroutine = traceback.one(other, "main.holdSleep")
    other[goroutine.id] = dataclasses.replace(goroutine, **change)
    assert len(found(goroutines, other, labels=True)) == 1


def test_a_missing_goroutine_and_one_too_many_are_differences(states, goroutines):
    other = traceback.parse(states.stack())
    goroutine = other.pop(traceback.one(other, "main.holdSleep").id)
    other[99999] = dataclasses.replace(goroutine, id=99999)
    assert len(found(goroutines, other)) == 2


def test_a_deep_stack_is_compared_whether_it_is_shortened_or_not(states, goroutines):
    deep = next(g for g in goroutines.values() if g.elided and "main.recurse" in g.functions())
    call = deep.frames[10]
    assert deep.elided > 300
    whole = [*deep.frames[:50], *[call] * deep.elided, *deep.frames[50:]]
    other = {**goroutines, deep.id: dataclasses.replace(deep, frames=whole, elided_at=None)}
    assert found(goroutines, other) == []
    whole.pop(70)
    assert len(found(goroutines, other)) == 1
