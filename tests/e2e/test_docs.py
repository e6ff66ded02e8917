"""The documents against the program: scripts/check-docs, without the commands, which `make check-docs`
runs; and that each of its checks finds a mistake."""

import importlib.machinery
import importlib.util
import re
import shutil
import subprocess
import sys

import pytest

from lib import gospect

SCRIPT = gospect.ROOT / "scripts" / "check-docs"


@pytest.fixture(scope="module")
def check():
    loader = importlib.machinery.SourceFileLoader("check_docs", str(SCRIPT))
    spec = importlib.util.spec_from_loader("check_docs", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ("links", "options", "figures", "counts", "sections", "messages", "records", "library", "files", "screens", "manuals"))
def test_the_documents_are_those_of_the_program(name):
    done = subprocess.run([sys.executable, SCRIPT, "--only", name], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_link_to_nothing_is_found(check, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("# One heading\n[there](page.md#one-heading) [not there](page.md#two)\n")
    (tmp_path / "README.md").write_text("[a](docs/page.md) [b](docs/none.md) `[c](not/a/link.md)` [d](https://example.org)\n")
    found = list(check.check_links(tmp_path))
    assert len(found) == 2 and "docs/none.md" in found[0] and "#two" in found[1]


def test_a_record_that_the_page_lacks_is_found(check):
    table = 'RECORD(START, 1, 0, 0, START, plain, "g")\nRECORD(LOG, 3, 2, 2, LOG, log_line,\n       "runner, task")\n'
    page = "## Records\n| `START` | g | `START` |\n| `LOG` | runner, task | `LOG` |\n\n## Next\n"
    assert not list(check.check_records(table, page))
    assert any("`LOG`" in line for line in check.check_records(table, page.replace("runner, task", "runner")))
    assert any("`START`" in line for line in check.check_records(table, ""))


def test_a_source_file_that_is_gone_is_found(check, tmp_path):
    for folder, name in (("src/lib", "confine.c"), ("docs/internals", "map.md"), ("src/top", "model.h")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).write_text("")
    (tmp_path / "docs" / "internals" / "map.md").write_text(
        "`lib/confine.c`, `src/lib/confine.c`, `model.h`, `runtime/proc.go`, `struct g`\n`cli/confine.c` and `gone.c`\n")
    assert list(check.check_files(tmp_path)) == ["docs/internals/map.md:2: there is no cli/confine.c",
                                                 "docs/internals/map.md:2: there is no gone.c"]


def test_a_page_of_the_guide_that_is_longer_than_a_screen_is_found(check, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("line\n" * 80)
    assert not list(check.check_screens([page]))
    page.write_text("line\n" * 81)
    assert len(list(check.check_screens([page]))) == 1


def test_a_function_that_the_page_lacks_is_found(check):
    headers = "/* gospect_no(1) */ GOSPECT_API int gospect_a_open(int x);\nint gospect_a_close(void);\nint gospect_b(void);"
    page = "| `gospect_a_open`, `_close` | `gospect_b()` |"
    assert not list(check.check_library(headers, page))
    assert list(check.check_library(headers, page.replace(", `_close`", ""))) == ["library.md lacks gospect_a_close()"]
    assert list(check.check_library("int gospect_b(void);", "`gospect_b`, `gospect_c`")) == [
        "library.md names gospect_c(), which no header declares"]


def test_an_option_of_a_manual_is_what_stands_in_its_tags(check):
    manual = ".SH DESCRIPTION\n.TP\n\\fB\\-\\-no\\fR\n.SH OPTIONS\n.TP\n\\fB\\-o\\fR, \\fB\\-\\-output\\fR=\\fIFILE\\fR\nNot \\fB\\-\\-this\\fR.\n"
    assert check.options_of_manual(manual) == {"-o", "--output"}


def test_a_verb_that_its_manual_page_names_in_other_words_is_found(check, tmp_path):
    text = "Usage: x\n\n Now:\n  dump        print every goroutine\n"
    (tmp_path / "gospect-dump.1").write_text(".SH NAME\ngospect\\-dump \\- print every goroutine\n.SH SYNOPSIS\n")
    (tmp_path / "README.md").write_text("| [gospect-dump(1)](gospect-dump.1) | print every goroutine |\n")
    assert not list(check.check_names(text, tmp_path))
    assert len(list(check.check_names(text.replace("every", "each"), tmp_path))) == 2


def test_completions_are_asked_by_their_shells(check):
    assert "--flight" in check.options_of_bash("trace") and "--group" not in check.options_of_bash("trace")
    if shutil.which("zsh"):
        assert "--flight" in check.options_of_zsh("trace") and "--group" not in check.options_of_zsh("trace")
    if shutil.which("fish"):
        found = check.options_of_fish("trace", "dump")
        assert "--flight" in found["trace"] - found["dump"] and "--group" in found["dump"] - found["trace"]


def test_commands_are_found_in_text_blocks_and_behind_others(check):
    text = "Run `gospect dump -p PID --nonsense`.\n```sh\nsudo gospect ps\nkubectl debug X -- gospect record -d 1 -- ./x --y\n```\n"
    found = [(verb, words) for _, verb, words in check.words_of_commands(text, "page")]
    assert found == [("ps", []), ("record", ["-d", "1"]), ("dump", ["-p", "PID", "--nonsense"])]


def test_a_command_runs_on_a_terminal_where_the_page_says_so(check, tmp_path):
    page = "<!-- terminal -->\n```console\n$ a\n```\n```console\n$ b\n```\n"
    assert [block.terminal for block in check.parse(page)[0]] == [True, False]
    command = r"test -t 1 && printf 'one\rtwo\033[Kthree\nfour\n'; exit 3"
    assert check.run_step(command, 1, tmp_path, True) == (3, ["three", "four"])
    assert check.run_step(command, 1, tmp_path) == (3, [])


def test_a_figure_that_was_not_measured_is_found(check):
    table = "## Figures\n| dump | 31.7 ms, 394 ms |\n\n## Next\n99 ms\n"
    assert not list(check.check_figures("It takes 31.7 ms.\n", table))
    assert len(list(check.check_figures("It takes 31.8 ms, or 99 ms.\n", table))) == 2


def test_a_figure_of_another_claim_is_found(check):
    table = "## Figures\n| dump of 10,000 goroutines | 31.7 ms |\n| an event of a trace | 20.6 ns |\n\n## Next\n"
    assert not list(check.check_figures("A dump of 10,000 goroutines takes 31.7 ms.\n", table, []))
    assert len(list(check.check_figures("A dump of 10,000 goroutines takes 20.6 ns.\n", table, []))) == 1


def test_a_figure_of_the_guide_is_measured_or_printed(check, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("It takes 987.6 ms, or 12.3 KB. Others say 55.5 us. <!-- not measured here -->\n```console\n$ x\n987.6 ms\n```\n")
    assert not list(check.check_figures_of_guide([page]))
    page.write_text("It takes 987.6 ms of `12.3 KB` for 40 s.\n")
    assert len(list(check.check_figures_of_guide([page]))) == 1


def test_a_section_of_the_benchmarks_that_the_page_lacks_is_found(check):
    run = 'SECTIONS = {\n    "dump": dumps.measure,\n    "stops": stops.measure,\n}\n'
    assert not list(check.check_sections(run, "It runs one part: `dump`,\n`stops`.\n"))
    assert len(list(check.check_sections(run, "It runs one part: `dump`.\n"))) == 1


def test_a_stale_count_is_found(tmp_path):
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "count-tests").write_text((gospect.ROOT / "scripts" / "count-tests").read_text())
    (tmp_path / "docs" / "internals").mkdir(parents=True)
    page = tmp_path / "docs" / "internals" / "testing.md"
    page.write_text((gospect.ROOT / "docs" / "internals" / "testing.md").read_text())
    (tmp_path / "tests" / "fuzz").mkdir(parents=True)
    (tmp_path / "tests" / "fuzz" / "fuzz_one.c").write_text("int LLVMFuzzerTestOneInput(void);\n")
    subprocess.run("git init -q && git add -A", shell=True, cwd=tmp_path, check=True)
    count = [sys.executable, folder / "count-tests"]
    done = subprocess.run(count, capture_output=True, text=True)
    assert done.returncode == 1 and "fuzz targets" in done.stdout
    subprocess.run([*count, "--write"], check=True)
    assert "| fuzz targets | 1 |" in page.read_text()
    assert subprocess.run(count, capture_output=True, text=True).stdout == ""


def test_a_message_is_put_together_as_the_compiler_does(check, tmp_path):
    (tmp_path / "one.c").write_text('#define KIND "a \\"kind\\""\nreturn error_format(CODE,\n\t"cannot read %s: "\n\t"100 %% of %" PRIu64 "d"'
                                    ' KIND, f("x)"));\nwrong_option(state, "no %.*s%s")')
    found = check.messages(tmp_path)
    assert set(found) == {'cannot read …: 100 % of …da "kind"', "no …"}


def test_remarks_findings_and_both_texts_of_a_choice_are_messages(check, tmp_path):
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "one.c").write_text(
        'remark(to, "%s ends early", name);\nsay("no such verb");\nsay_progress("%d s");\nerror_wrap(err, bad ? "cannot read %s" : "cannot show %s", path);'
        'findings_add(to, true, "yama", "%d: %s", 1, "run gospect as root or so");\nfindings_add(to, true, "go", "none");'
        'findings_add_verb(to, "trace", "stops the program briefly", err);'
        'return refused("it is a directory, choose a file");')
    assert set(check.messages(tmp_path)) == {"… ends early", "no such verb", "cannot read …", "cannot show …", "stops the program briefly"}
    assert set(check.parts_of_messages(tmp_path)) == {"run gospect as root or so", "it is a directory, choose a file"}


def test_the_words_in_the_place_of_a_value_stand_on_the_page(check, tmp_path):
    (tmp_path / "one.c").write_text('error_format(CODE, "no stacks: %s", "the disk is full");')
    assert not list(check.check_messages(tmp_path, "### no stacks: …\n\nPerhaps the disk is full.\n"))
    found = list(check.check_messages(tmp_path, "### no stacks: …\n\nTry again.\n"))
    assert len(found) == 1 and "the disk is full" in found[0]


def test_a_message_that_has_changed_is_named_with_its_heading(check, tmp_path):
    (tmp_path / "one.c").write_text('error_format(CODE, "process %d has ended its life");')
    found = list(check.check_messages(tmp_path, "### process … has ended\n\nIt ended.\n"))
    assert len(found) == 2
    assert "process … has ended its life" in found[0] and "it may have been: process … has ended" in found[0]


def test_output_may_differ_in_figures_alone(check):
    printed = ["  943 ms     74 us    -  sync in main.f:39, 2 times", "goroutine 7 [sleep]: 1, 2, 3, ..."]
    assert not check.differences(["1.2 s      -    3 us  sync in main.f:40, 11 times", "...", "goroutine 9 [sleep]: 5"], printed)
    assert check.differences(["943 ms  74 us  -  sync in main.g:39, 2 times"], printed)
    assert check.differences(["goroutine 9 [select]: 5"], printed)


def test_a_command_goes_with_the_lines_below_it(check):
    blocks, _ = check.parse("<!-- target: shop -->\n```console\n$ one \\\n  two\nline\n$ three\n```\n")
    assert blocks[0].target == "shop"
    assert check.steps(blocks[0]) == [["one two", ["line"]], ["three", []]]


def test_a_long_sentence_is_found(check):
    assert not list(check.long_ones("One two three. " * 30, "page", 20))
    assert len(list(check.long_ones("word " * 21, "page", 20))) == 1


def test_the_tests_that_the_table_of_attacks_names_exist():
    """One that is renamed must not leave its finding without a test."""
    page = (gospect.ROOT / "tests" / "attack" / "README.md").read_text()
    sources = {path.name: path.read_text() for folder in ("src", "tests")
               for path in (gospect.ROOT / folder).rglob("test_*") if path.suffix in (".c", ".py")}
    named = 0
    for line in page.splitlines():
        file = None
        for text in re.findall(r"`([^`]+)`", line.split("|")[2] if line.startswith("| ") else ""):
            if text.startswith("tests/"):
                assert (gospect.ROOT / text).exists(), text
                continue
            if ": " in text:
                file, text = text.split(": ")
            assert re.search(rf"\b{text}\(", sources[file]), (file, text)
            named += 1
    assert named > 50
