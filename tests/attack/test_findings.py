"""The list in README.md: each finding of the two reviews is in it, and each test that it names exists."""

import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TEXT = (HERE / "README.md").read_text()
ROWS = re.findall(r"^\| ([^:|]+): [^|]*\| (.*) \|$", TEXT, re.M)
FINDINGS = {*map(str, range(1, 29)), *(f"B{i}" for i in range(1, 13)), *(f"L{i}" for i in range(1, 21))}
# The list says why.
WITHOUT_TEST = {"27", "L16"}


def test_every_finding_is_in_the_list():
    listed = {number for findings, _ in ROWS for number in findings.split(", ")} & FINDINGS
    assert FINDINGS - listed == WITHOUT_TEST
    assert "These have no test of their own: 27 (" in TEXT and " and L16 (" in TEXT


def test_every_test_that_it_names_exists():
    sources = {path.name: path.read_text() for path in (*(ROOT / "tests").rglob("*.py"), *(ROOT / "src").rglob("test_*.c"))}
    for findings, tests in ROWS:
        file = None
        for word in re.findall(r"`([^`]+)`", tests):
            if word.startswith("tests/"):
                assert (ROOT / word).exists(), f"{findings}: {word}"
                continue
            file, _, name = word.rpartition(": ") if ": " in word else (file, "", word)
            assert re.search(rf"\b{name}\(", sources[file]), f"{findings}: {file} has no {name}"
