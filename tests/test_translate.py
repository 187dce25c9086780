from __future__ import annotations

import gzip
import io
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mt.data.config import DataConfig, ParallelText, TestSet
from mt.errors import DataError, RunError
from mt.events import Event, Notice, Progress, finish
from mt.lines.formats import FORMATS
from mt.recipe import Recipe
from mt.search.config import DecodeConfig
from mt.text.files import read_json, sha256_of
from mt.training.distributed import Group
from mt.translate import Request, Style, Translated, Translator, check_paths, translate_stream, translate_tests
from mt.translator import load
from tests.translators import copied, copier, run_folder, untrained

ROOT = Path(__file__).resolve().parents[1]


def stream(data: bytes, translator: Translator | None = None, format: str = "text") -> bytes:
    out = io.BytesIO()
    finish(translate_stream(translator or copier(), io.BytesIO(data), out, Style(format)))
    return out.getvalue()


def notices(data: bytes, translator: Translator) -> list[str]:
    events: list[Event] = []
    finish(translate_stream(translator, io.BytesIO(data), io.BytesIO()), events.append)
    return [event.text for event in events if isinstance(event, Notice)]


@pytest.mark.parametrize(
    ("given", "lines"),
    [(b"a\nb", 2), (b"a\nb\n", 2), (b"a\nb\n\n", 3), (b"", 0), (b"\n", 1), (b"a\r\nb\r\n", 2), (b"a\rb\n", 1)],
)
def test_n_lines_in_are_n_lines_out_each_with_one_line_feed(given: bytes, lines: int, tmp_path: Path) -> None:
    """Faults 15, 2 and 3; from a stream and from a file."""
    (tmp_path / "in").write_bytes(given)
    finish(translate_stream(copier(), tmp_path / "in", tmp_path / "out"))
    out = stream(given)
    assert out == (tmp_path / "out").read_bytes()
    assert out.count(b"\n") == lines
    assert out == b"" or out.endswith(b"\n")
    assert b"\r" not in out


def test_a_nul_byte_shifts_nothing() -> None:
    """Fault 5."""
    assert stream(b"a\x00b c\nd e\n").split(b"\n")[1:] == [b"d e", b""]


@pytest.mark.parametrize("n_best", [2, 3])
def test_n_best_text_has_n_lines_a_line(n_best: int) -> None:
    """Fault 74: k groups in order; a blank line, and a space with fewer translations, give empty lines."""
    out = stream(b"a b\n\nc\n", copier(DecodeConfig(beam_size=4, n_best=n_best))).split(b"\n")[:-1]
    assert len(out) == 3 * n_best
    assert out[0] == b"a b"
    assert out[n_best : 2 * n_best] == [b""] * n_best
    assert out[2 * n_best] == b"c"


def test_fewer_translations_than_asked_for_leave_empty_lines() -> None:
    translator = copier(DecodeConfig(beam_size=3, n_best=3, max_length=1))
    translator.tokenizers.tgt.pieces[4:] = ["a"] * len(translator.tokenizers.tgt.pieces[4:])
    assert len(stream(b"a\n", translator).split(b"\n")) == 4


def test_jsonl_carries_scores() -> None:
    """Fault 92."""
    [line] = stream(b"a b\n", format="jsonl").splitlines()
    found: dict[str, Any] = json.loads(line)
    assert list(found) == [
        "source",
        "translation",
        "score",
        "log_prob",
        "truncated",
        "repetitive",
        "tokens",
        "token_scores",
    ]
    assert found["tokens"] == ["a", "b", "</s>"]
    assert sum(found["token_scores"]) == pytest.approx(found["log_prob"], abs=1e-5)
    assert (found["source"], found["translation"], found["truncated"]) == ("a b", "a b", False)
    assert found["score"] == pytest.approx(found["log_prob"] / 3)


def test_jsonl_carries_the_n_best() -> None:
    lines = stream(b"a b\n\n", copier(DecodeConfig(n_best=2)), "jsonl").splitlines()
    first, blank = map(json.loads, lines)
    assert first["n_best"][0]["translation"] == first["translation"] == "a b"
    assert len(first["n_best"]) == 2
    assert first["n_best"][0]["score"] > first["n_best"][1]["score"]
    assert [one["translation"] for one in blank["n_best"]] == [""]


@pytest.mark.parametrize("format", FORMATS)
def test_text_is_utf8_whatever_it_holds(format: str) -> None:
    out = stream("a \U0001f600 \u2028 b\n".encode(), format=format)
    assert out.count(b"\n") == 1
    assert "\u2047".encode() in out


def test_a_cut_source_is_named() -> None:
    """Fault 84."""
    data = b"a\n" + b"b " * 5000 + b"\nc\n"
    assert notices(data, copier(DecodeConfig(beam_size=1, max_source_length=100, long_source="cut"))) == [
        "Line 2 has 5000 pieces, which is too long: only its start was translated."
    ]


def test_split_lines_are_counted() -> None:
    """Fault 84: from a stream; the lines around are as ever."""
    data = b"a\n" + b"b " * 5000 + b"\nc\n"
    config = DecodeConfig(beam_size=1, max_source_length=100)
    assert notices(data, copier(config)) == [
        "Split: 1 line longer than those of the training, line 2; the parts were translated one by one and joined "
        "(decode.long_source, decode.max_source_length)."
    ]
    assert notices(data * 2, copier(config)) == [
        "Split: 2 lines longer than those of the training, line 2 first; the parts were translated one by one and "
        "joined (decode.long_source, decode.max_source_length)."
    ]
    assert stream(data, copier(config)) == data.replace(b" \n", b"\n")


def test_cut_translations_are_counted() -> None:
    """Fault 83."""
    one = notices(b"\na\n", copier(DecodeConfig(beam_size=1, max_length=5), endless=True))
    assert one == [
        "Cut: the translation of line 2 was ended by the length limit (decode.max_length, decode.max_length_ratio)."
    ]
    two = notices(b"\na\nb\n", copier(DecodeConfig(beam_size=1, max_length=5), endless=True))
    assert two == [
        "Cut: 2 translations were ended by the length limit, the first that of line 2 "
        "(decode.max_length, decode.max_length_ratio)."
    ]


def test_progress_and_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mt.translator.WINDOW", 2)
    events: list[Event] = []
    report = finish(translate_stream(copier(), io.BytesIO(b"a\nb\nc\n"), io.BytesIO()), events.append)
    assert report == Translated(3, 0)
    assert events == [Progress("translate", 2), Progress("translate", 3)]


def test_bytes_that_are_not_utf8_are_named_and_earlier_lines_come_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 17."""
    monkeypatch.setattr("mt.translator.WINDOW", 1)
    out = io.BytesIO()
    with pytest.raises(DataError) as raised:
        finish(translate_stream(copier(), io.BytesIO(b"a\nb \xe9\n"), out))
    assert str(raised.value) == (
        "standard input, line 2, byte offset 4: 0xE9 is not UTF-8; convert the file to UTF-8 or mend the line."
    )
    assert out.getvalue() == b"a\n"


@pytest.mark.parametrize("good", [0, 3])
def test_lines_before_one_that_is_not_utf8_are_translated(good: int) -> None:
    """Fault 17: also those of the same window; none after it is."""
    out = io.BytesIO()
    with pytest.raises(DataError, match=rf"^standard input, line {good + 1}, byte offset {2 * good + 2}: 0xE9 is not"):
        finish(translate_stream(copier(), io.BytesIO(b"a\n" * good + b"b \xe9\nc\n"), out))
    assert out.getvalue() == b"a\n" * good


def test_the_answers_before_a_bad_line_of_json_come_out() -> None:
    out = io.BytesIO()
    data = io.BytesIO(b'{"text": "a", "id": 1}\n{"txt": "b"}\n{"text": "c"}\n')
    with pytest.raises(DataError) as raised:
        finish(translate_stream(copier(), data, out, Style("jsonl", "jsonl")))
    assert str(raised.value) == (
        'standard input, line 2: there is no "text" in the JSON object; it is the line to translate.'
    )
    [line] = out.getvalue().splitlines()
    assert json.loads(line)["id"] == 1


def test_interactively_each_line_is_translated_by_itself() -> None:
    """Fault 89: also where several have come already."""
    translator = copier()
    out = io.BytesIO()
    finish(translate_stream(translator, io.BytesIO(b"a b\nc\nd\n"), out, interactive=True))
    assert out.getvalue() == b"a b\nc\nd\n"
    assert copied(translator).rows == [1, 1, 1]


def test_compressed_input(tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"a\n") + gzip.compress(b"b\n"))
    finish(translate_stream(copier(), tmp_path / "in.gz", tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"a\nb\n"


def test_a_file_is_never_its_own_translation(tmp_path: Path) -> None:
    """Fault 119: by name, through a link, and through a hard link."""
    source = tmp_path / "a.txt"
    source.write_bytes(b"a\n")
    (tmp_path / "soft").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    for target in (source, tmp_path / "soft", tmp_path / "hard", tmp_path / "." / "a.txt"):
        with pytest.raises(DataError) as raised:
            finish(translate_stream(copier(), source, target))
        assert str(raised.value) == f"{target} is the input {source} itself; name another file for the output."
    with source.open("rb") as opened, pytest.raises(DataError) as raised:
        finish(translate_stream(copier(), opened, source))
    assert str(raised.value) == f"{source} is the input itself; name another file for the output."
    assert source.read_bytes() == b"a\n"


def test_impossible_files_are_refused_by_name(tmp_path: Path) -> None:
    """Fault 119."""
    source = tmp_path / "a.txt"
    source.write_bytes(b"a\n")
    absent = tmp_path / "absent"
    for arguments, sentence in (
        ((source, tmp_path), f"{tmp_path} is a folder; name a file for the output."),
        ((source, source / "b"), f"{source} cannot be a folder: a file of that name is in the way."),
        ((absent, None), f"{absent} cannot be read: no such file."),
        ((tmp_path, None), f"{tmp_path} cannot be read: it is a folder."),
    ):
        with pytest.raises(DataError) as raised:
            check_paths(*arguments)
        assert str(raised.value) == sentence
    check_paths(source, tmp_path / "new")
    check_paths(None, None)


def test_a_device_or_a_pipe_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    """Fault 119: for the superuser, /dev/null itself became a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    (tmp_path / "a").write_bytes(b"a\nb\n")
    finish(translate_stream(copier(), tmp_path / "a", pipe))
    reader.join(20)
    assert found == [b"a\nb\n"]
    assert pipe.is_fifo()


def test_a_pipe_can_be_the_source(tmp_path: Path) -> None:
    """As `-i <(zcat a.gz)` has it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"a\nb\n"), daemon=True)
    writer.start()
    finish(translate_stream(copier(), pipe, tmp_path / "out"))
    writer.join(20)
    assert (tmp_path / "out").read_bytes() == b"a\nb\n"


def test_output_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\n")
    (tmp_path / "old").write_bytes(b"old\n")
    (tmp_path / "link").symlink_to(tmp_path / "old")
    finish(translate_stream(copier(), tmp_path / "a", tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "old").read_bytes() == b"a\n"


def test_an_interrupted_job_leaves_the_old_file_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 90: the end is byte for byte that of a job that was never stopped, and nothing is translated twice."""
    monkeypatch.setattr("mt.translator.WINDOW", 2)
    (tmp_path / "in").write_bytes(b"a\nb\nc\nd\ne\n")
    (tmp_path / "out").write_bytes(b"old\n")
    style = Style("jsonl")
    finish(translate_stream(untrained(), tmp_path / "in", tmp_path / "whole", style))
    work = translate_stream(untrained(), tmp_path / "in", tmp_path / "out", style)
    next(work)
    with pytest.raises(KeyboardInterrupt):
        work.throw(KeyboardInterrupt())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out", "out.part", "whole"]
    assert (tmp_path / "out").read_bytes() == b"old\n"
    events: list[Event] = []
    assert finish(translate_stream(untrained(), tmp_path / "in", tmp_path / "out", style), events.append).lines == 5
    assert events[-1] == Notice("2 lines had been translated before.")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "out.part").exists()


@pytest.mark.parametrize(
    ("translator", "style", "text"),
    [
        (untrained(seed=2), Style(), b"a\nb\nc\n"),
        (untrained(DecodeConfig(beam_size=2)), Style(), b"a\nb\nc\n"),
        (untrained(), Style("jsonl"), b"a\nb\nc\n"),
        (untrained(), Style(common=Request("", banned=("a",))), b"a\nb\nc\n"),
        (untrained(), Style(), b"a\nx\nc\n"),
    ],
)
def test_what_was_translated_otherwise_is_not_taken_up(
    translator: Translator, style: Style, text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another model, other settings, another format, other wishes, another text in the middle."""
    monkeypatch.setattr("mt.translator.WINDOW", 2)
    source = tmp_path / "in"
    source.write_bytes(b"a\nb\nc\n")
    work = translate_stream(untrained(), source, tmp_path / "out")
    next(work)
    work.close()
    source.write_bytes(text)
    finish(translate_stream(translator, source, tmp_path / "out", style))
    finish(translate_stream(translator, source, tmp_path / "whole", style))
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def test_the_end_of_a_stopped_job_tells_of_all_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults 83 and 90: what was cut before the stop is counted, too."""
    monkeypatch.setattr("mt.translator.WINDOW", 1)
    (tmp_path / "in").write_bytes(b"a\nb\n")
    endless = copier(DecodeConfig(beam_size=1, max_length=5), endless=True)
    work = translate_stream(endless, tmp_path / "in", tmp_path / "out")
    next(work)
    work.close()
    events: list[Event] = []
    assert finish(translate_stream(endless, tmp_path / "in", tmp_path / "out"), events.append) == Translated(2, 2)
    assert "Cut: 2 translations were ended by the length limit, the first that of line 1" in str(events[-1])


def test_what_had_no_translation_before_a_stop_is_named_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults 86 and 90: whoever looks at the last call alone knows of each line that is empty."""
    source, target, _ = line_by_line(tmp_path, monkeypatch)
    style = Style(common=Request("", prefix="~"))
    stopped = translate_stream(untrained(), source, target, style)
    assert "Line 1 has no translation." in str(next(stopped))
    next(stopped)
    stopped.close()
    events: list[Event] = []
    finish(translate_stream(untrained(), source, target, style), events.append)
    told = [event.text for event in events if isinstance(event, Notice) and "no translation" in event.text]
    assert sorted(text[:6] for text in told) == ["Line 1", "Line 2"]


def test_a_second_translation_into_the_same_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and the first ends as if nothing had been."""
    monkeypatch.setattr("mt.translator.WINDOW", 1)
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"a\nb\nc\n")
    first = translate_stream(copier(), source, target)
    next(first)
    with pytest.raises(RunError) as error:
        finish(translate_stream(untrained(), source, target))
    assert str(error.value) == (
        f"another mt translate (process {os.getpid()}) is writing {target}; wait until it has ended."
    )
    assert finish(first).lines == 3
    assert target.read_bytes() == source.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def line_by_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """Two lines to translate, a block each; where to; and where the blocks lie until all are there."""
    monkeypatch.setattr("mt.translator.WINDOW", 1)
    (folder / "in").write_bytes(b"a\nb\n")
    return folder / "in", folder / "out", folder / "out.part"


def test_who_is_alone_waits_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that was deleted meanwhile is named; the same command makes it again, and only it."""
    source, target, part = line_by_line(tmp_path, monkeypatch)
    work = translate_stream(copier(), source, target)
    next(work)
    [first] = part.iterdir()
    first.unlink()
    with pytest.raises(RunError) as error:
        finish(work)
    assert str(error.value) == f"{first} was deleted by somebody before {target} was whole; run the same again."
    again = copier()
    finish(translate_stream(again, source, target))
    assert copied(again).rows == [1]
    assert target.read_bytes() == source.read_bytes()


def test_what_is_left_of_other_settings_stays_and_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, part = line_by_line(tmp_path, monkeypatch)
    stopped = translate_stream(untrained(), source, target)
    next(stopped)
    stopped.close()
    left = list(part.iterdir())
    (part / ".0000000002-ab.12345678.tmp").write_bytes(b"torn")
    events: list[Event] = []
    finish(translate_stream(copier(), source, target), events.append)
    assert Notice(f"{part} keeps 1 block of other lines or settings.") in events
    assert list(part.iterdir()) == left
    finish(translate_stream(untrained(), source, target))
    assert not part.exists()


class One(Group):
    """One of several processes; what it does where all wait for one another is `sums`."""

    def __init__(self, rank: int, size: int, sums: Callable[[float], float] = float) -> None:
        self.rank, self.size, self.sums = rank, size, sums

    def sum(self, *values: float) -> list[float]:
        return list(map(self.sums, values))


def test_several_processes_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each does its blocks; the first joins them; whatever one of them left undone is made by a later call."""
    monkeypatch.setattr("mt.translator.WINDOW", 1)
    (tmp_path / "in").write_bytes(b"a\nb\nc\nd\ne\n")
    finish(translate_stream(copier(), tmp_path / "in", tmp_path / "whole"))

    def work(rank: int, world: int, translator: Translator) -> Translated:
        group = One(rank, world)
        return finish(translate_stream(translator, tmp_path / "in", tmp_path / "out", group=group))

    assert work(1, 2, copier()) == Translated(2, 0)
    assert not (tmp_path / "out").exists()
    again = copier()
    assert work(1, 2, again) == Translated(0, 0)
    assert copied(again).rows == []
    assert work(2, 3, copier()) == Translated(1, 0)  # lines 3 and 6, of which there is one
    first = copier()
    assert work(0, 1, first) == Translated(5, 0)
    assert sum(copied(first).rows) == 2
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "out.part").exists()


def test_a_process_that_comes_late_finds_its_share_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a call that was stopped: the first process joins no block before the other has looked for it."""
    monkeypatch.setattr("mt.translator.WINDOW", 1)
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"a\nb\nc\n")
    finish(translate_stream(copier(), source, target, group=One(1, 2)))
    waits, together = threading.Event(), threading.Barrier(2)

    events: list[Event] = []

    def work(rank: int, translator: Translator) -> None:
        def sum_of_both(found: float) -> float:
            waits.set()
            together.wait()
            return found + 1

        group = One(rank, 2, sum_of_both)
        finish(translate_stream(translator, source, target, group=group), events.append)

    first = threading.Thread(target=lambda: work(0, copier()), daemon=True)
    first.start()
    assert waits.wait(30)
    assert not target.exists()
    late = copier()
    work(1, late)
    first.join()
    assert [event.text for event in events if isinstance(event, Notice)] == ["1 line had been translated before."]
    assert copied(late).rows == []
    assert target.read_bytes().count(b"\n") == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_blocks_of_a_process_that_failed_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who ends without its blocks, on another machine perhaps, is noticed where all wait for one another."""
    monkeypatch.setattr("mt.translator.WINDOW", 1)
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"a\nb\n")

    def gone(_: float) -> float:
        raise RunError("gone")

    def heard(event: Event) -> None:
        assert not (isinstance(event, Progress) and event.label == "waiting for other processes")

    with pytest.raises(RunError, match="gone"):
        finish(translate_stream(copier(), source, target, group=One(0, 2, gone)), heard)
    assert not target.exists()


PROGRAM = """
import sys
from mt.events import finish
from mt.translate import translate_stream
from tests.translators import copier
from mt.search.config import DecodeConfig
finish(translate_stream(copier(DecodeConfig(beam_size=1)), sys.stdin.buffer, sys.stdout.buffer))
"""


@pytest.fixture
def talker() -> Iterator[subprocess.Popen[bytes]]:
    """A process that copies its standard input by `translate_stream`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        yield process
        process.kill()


def test_each_line_is_answered_before_the_next_is_sent(talker: subprocess.Popen[bytes]) -> None:
    """Fault 89."""
    assert talker.stdin
    assert talker.stdout
    for line in (b"a b\n", b"\n", b"c\n"):
        talker.stdin.write(line)
        talker.stdin.flush()
        assert talker.stdout.readline() == line
    talker.stdin.write(b"no end")
    talker.stdin.close()
    assert talker.stdout.readline() == "\u2047 \u2047\n".encode()
    assert talker.wait(30) == 0


def test_memory_stays_flat_in_a_long_stream() -> None:
    """Fault 88."""

    class Endless(io.BytesIO):
        def __init__(self, lines: int) -> None:
            super().__init__()
            self.left = lines

        def read1(self, size: int | None = -1, /) -> bytes:  # noqa: ARG002
            count = min(self.left, 500)
            self.left -= count
            return b"a b c\n" * count

    class Sink(io.BytesIO):
        written = 0

        def write(self, data: Any, /) -> int:
            Sink.written += data.count(b"\n")
            return len(data)

    translator = copier(DecodeConfig(beam_size=1))
    finish(translate_stream(translator, Endless(2000), Sink()))
    copied(translator).modes.clear()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    finish(translate_stream(translator, Endless(20_000), Sink()))
    assert Sink.written == 22_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


def test_tests_of_a_run_are_translated_once(tmp_path: Path) -> None:
    source = tmp_path / "x.en"
    source.write_bytes(b"a b\n\nc\n")
    tests = {name: TestSet(source, (source,)) for name in ("one", "two")}
    data = DataConfig("en", "de", (ParallelText(source, source),), test=tests)
    recipe = run_folder(tmp_path / "run", data, DecodeConfig(max_length=5, n_best=2))
    files = finish(translate_tests(recipe, "cpu"))
    assert files == {name: tmp_path / "run" / "translations" / f"{name}.de" for name in ("one", "two")}
    assert [len(path.read_bytes().splitlines()) for path in files.values()] == [3, 3]

    def notices(recipe: Recipe) -> list[str]:
        seen: list[Event] = []
        finish(translate_tests(recipe, "cpu"), seen.append)
        return [event.text for event in seen if isinstance(event, Notice) and "up to date" in event.text]

    up_to_date = ["Translations of one are up to date.", "Translations of two are up to date."]
    assert notices(recipe) == up_to_date
    other = replace(recipe, decode=DecodeConfig(max_length=4))
    assert notices(other) == []
    assert notices(other) == up_to_date
    stamp = files["one"].with_name("one.de.json")
    for damaged in (b"", b"{", b"[]", b"\xff", b'{"model": 1}'):
        stamp.write_bytes(damaged)
        assert notices(other) == up_to_date[1:]
    files["two"].write_bytes(b"changed\n")
    assert notices(other) == up_to_date[:1]
    source.write_bytes(b"a b c\n")
    assert notices(other) == []
    weights = tmp_path / "run" / "model.safetensors"
    weights.unlink()
    with pytest.raises(RunError, match="has no final model"):
        notices(other)


def test_weights_are_read_once_for_their_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that no description names, and where a file of translations is to be made of them."""
    (tmp_path / "x.en").write_bytes(b"a\n")
    one = TestSet(tmp_path / "x.en", (tmp_path / "x.en",))
    data = DataConfig("en", "de", (ParallelText(tmp_path, tmp_path),), test={"one": one})
    recipe, read = run_folder(tmp_path / "run", data, DecodeConfig(max_length=5)), list[str]()

    def sum_of(path: Path) -> str:
        read.append(path.name)
        return sha256_of(path)

    monkeypatch.setattr("mt.training.checksum.sha256_of", sum_of)
    files = finish(translate_tests(recipe, "cpu"))
    assert read == ["model.safetensors"]
    stamp = read_json(files["one"].with_name("one.de.json"))
    assert stamp["model"] == sha256_of(tmp_path / "run" / "model.safetensors")
    assert json.loads(load(tmp_path / "run", device="cpu").identity)[1] == stamp["model"]


def test_a_missing_test_text_is_named(tmp_path: Path) -> None:
    data = DataConfig("en", "de", (ParallelText(tmp_path, tmp_path),), test={"one": TestSet(tmp_path / "no", ())})
    recipe = run_folder(tmp_path / "run", data)
    with pytest.raises(DataError, match=r"no cannot be read: no such file\.$"):
        finish(translate_tests(recipe, "cpu"))
