"""scripts/check-house, which is a unit test itself: that it finds violations."""

import importlib.machinery
import importlib.util

import pytest

from lib import gospect

SCRIPT = gospect.ROOT / "scripts" / "check-house"


@pytest.fixture(scope="module")
def check():
    loader = importlib.machinery.SourceFileLoader("check_house", str(SCRIPT))
    spec = importlib.util.spec_from_loader("check_house", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def put(root, *paths, text=""):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def test_two_files_of_one_name_are_found(check, tmp_path):
    put(tmp_path, "src/base/error.c", "src/base/error.h", "src/lib/error_api.c", "src/lib/tests/test_error.c")
    assert check.check_names(tmp_path) == []
    put(tmp_path, "src/lib/error.h", "src/base/tests/test_error.c")
    found = check.check_names(tmp_path)
    assert len(found) == 2
    assert any("base/error.c, lib/error.h" in line for line in found)
    assert any("base/tests/test_error.c, lib/tests/test_error.c" in line for line in found)


def test_a_circle_is_found_by_way_of_others(check):
    graph = {"a": {"b": {"x"}}, "b": {"c": {"y"}}, "c": {"a": {"z"}}, "d": {"a": {"x"}}}
    assert [sorted(circle) for circle in check.circles(graph)] == [["a", "b", "c"]]


def test_headers_and_sources_that_include_each_other_are_found(check, tmp_path):
    put(tmp_path, "src/base/map.h", text="struct map;\n")
    put(tmp_path, "src/base/part.h", text='#include "base/map.h"\n')
    put(tmp_path, "src/base/map.c", text='#include "base/map.h"\n#include "base/part.h"\n')
    put(tmp_path, "src/base/part.c", text='#include "base/part.h"\n')
    assert check.check_include_circles(["base"], tmp_path) == []
    put(tmp_path, "src/base/spill.h", "src/base/log.h")
    put(tmp_path, "src/base/spill.c", text='#include "base/spill.h"\n#include "base/log.h"\n')
    put(tmp_path, "src/base/log.c", text='#include "base/log.h"\n#include "base/spill.h"\n')
    found = check.check_include_circles(["base"], tmp_path)
    assert len(found) == 1 and "sources" in found[0] and "log includes spill.h" in found[0]
    put(tmp_path, "src/base/map.h", text='#include "base/part.h"\n')
    assert any("headers" in line and "map includes part.h" in line
               for line in check.check_include_circles(["base"], tmp_path))


def test_an_include_of_a_later_room_is_found(check, tmp_path):
    put(tmp_path, "src/base/map.h", text='#include "base/array.h"\n#include "image/image.h"\n')
    assert check.check_includes(["base", "image"], tmp_path) == ["base/map.h includes image, a room that comes later"]
