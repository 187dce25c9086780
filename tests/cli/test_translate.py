"""`mt translate` and `mt score` as processes: what is answered when, and what is left by one that is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mt.data.config import DataConfig, ParallelText
from mt.lines.answer import WINDOW
from mt.search.config import DecodeConfig
from tests.cli.conftest import ROOT, Call, start
from tests.translators import run_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with a model that says nonsense, soon."""
    folder = tmp_path_factory.mktemp("model")
    decode = DecodeConfig(beam_size=2, max_length=4)
    run_folder(folder, DataConfig("en", "de", (ParallelText(Path("a"), Path("b")),)), decode)
    return folder


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Processes inherit that interrupts are ignored, as they are where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def text(lines: int) -> bytes:
    return b"".join(b"abcdefghij"[n % 10 : n % 10 + 1] + b" b" * (n % 7) + b"\n" for n in range(lines))


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (
            signal.SIGINT,
            130,
            b"Interrupted. With --output the same command goes on from what is done, else it begins anew.",
        ),
        (signal.SIGKILL, -9, b"Device: CPU, 1 thread"),
    ],
)
def test_a_stopped_translation_goes_on_where_it_was(
    mt: Call, number: signal.Signals, code: int, said: bytes, model: Path, tmp_path: Path
) -> None:
    """Fault 90: stopped by a real signal after the first block, the end is that of an uninterrupted job."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(text(WINDOW + 50))
    options = ("--device", "cpu", "--threads", 1, "--format", "jsonl")
    with start("translate", model, "-o", out, *options) as process:
        assert process.stdin
        assert process.stderr
        process.stdin.write(text(WINDOW + 1))
        process.stdin.flush()
        while process.poll() is None and not list(tmp_path.glob("out.part/0*")):
            time.sleep(0.02)
        os.kill(process.pid, number)
        assert said in process.stderr.read()
    assert process.returncode == code
    assert not out.exists()
    again = mt("translate", model, "-i", source, "-o", out, *options)
    assert "\n1024 lines had been translated before.\n" in again.err
    assert mt("translate", model, "-i", source, "-o", tmp_path / "whole", *options).code == 0
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out", "whole"]


def test_several_workers_translate_as_one_does(mt: Call, model: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(text(600) + b"\n" + text(99))
    mt("translate", model, "-i", tmp_path / "in", "-o", tmp_path / "alone", "--device", "cpu")
    files = ("-i", tmp_path / "in", "-o", tmp_path / "several")
    assert mt("translate", model, "--workers", 2, *files).code == 0
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "several").read_bytes()
    assert (tmp_path / "alone").read_bytes().count(b"\n") == 700


@pytest.mark.slow
def test_torchrun_shares_a_file(mt: Call, model: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(text(2 * WINDOW + 5))
    mt("translate", model, "-i", tmp_path / "in", "-o", tmp_path / "whole", "--device", "cpu")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "mt", "translate"]
    arguments = [model, "-i", tmp_path / "in", "-o", tmp_path / "out", "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, *map(str, arguments)], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out", "whole"]


def test_each_line_is_answered_before_the_next_comes(model: Path) -> None:
    """Fault 89."""
    with start("translate", model, "--device", "cpu", "--threads", 1, "--interactive") as process:
        assert process.stdin
        assert process.stdout
        for line in (b"a b\n", b"\n", b"c\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(30) == 0


def test_a_bad_line_of_json_is_named(mt: Call, model: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_text('{"text": "a", "id": 1}\n{"txt": "b"}\n{"text": "c"}\n')
    called = mt("translate", model, "-i", source, "-o", out, "--input-format", "jsonl", "--device", "cpu")
    assert called.code == 2
    assert called.err.endswith(
        f'Error: {source}, line 2: there is no "text" in the JSON object; it is the line to translate.\n'
    )
    assert not out.exists()


def test_nobody_reads_on(model: Path) -> None:
    """Fault 90: `| head -n 1`."""
    with start("translate", model, "--device", "cpu", "--threads", 1) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(text(1))
        process.stdin.flush()
        assert process.stdout.readline()
        process.stdout.close()
        process.stdin.write(text(1000))
        process.stdin.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait(30) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", [("translate",), ("score", "--src", "in", "--tgt", "in")])
def test_a_full_disk(mt: Call, command: tuple[str, ...], model: Path, tmp_path: Path) -> None:
    """Fault 90: behind standard output, and named as the output."""
    (tmp_path / "in").write_bytes(text(3))
    arguments = [str(tmp_path / "in") if one == "in" else one for one in (command[0], str(model), *command[1:])]
    if command == ("translate",):
        program = [sys.executable, "-m", "mt", *arguments, "--device", "cpu"]
        with Path("/dev/full").open("wb") as full, (tmp_path / "in").open("rb") as source:
            ended = subprocess.run(program, stdin=source, stdout=full, stderr=subprocess.PIPE, cwd=ROOT, check=False)
        assert ended.returncode == 2
        assert ended.stderr.endswith(b"Error: No space left on device; make room and run the command again.\n")
        arguments += ["-i", str(tmp_path / "in")]
    named = mt(*arguments, "-o", "/dev/full", "--device", "cpu")
    assert named.code == 2
    assert named.err.endswith("No space left on device; make room and run the command again.\n")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--alignments",), "--alignments goes with --format jsonl; plain text has no place for them"),
        (
            ("--interactive", "--workers", 2),
            "--interactive answers standard input by one process: leave out -i, -o and --workers",
        ),
        (
            ("--workers", 2, "--device", "cuda:0"),
            "--workers are of the CPU; on several GPUs: torchrun --nproc-per-node N -m mt translate",
        ),
    ],
)
def test_options_that_exclude_each_other(mt: Call, options: tuple[object, ...], sentence: str) -> None:
    """Fault 116: before anything is loaded."""
    called = mt("translate", "absent", *options)
    assert (called.code, called.err) == (2, f"Error: {sentence} (mt translate --help shows the options).\n")


def test_what_no_line_can_have_is_refused_once(mt: Call, model: Path) -> None:
    called = mt("translate", model, "--constraint", "a", "--set", "decode.search=sample")
    assert called.code == 2
    assert called.err.startswith("Error: --constraint needs another decode.search than sample, which cannot require")


def test_torchrun_needs_files(mt: Call, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    source = tmp_path / "in"
    source.write_text("a\n")
    for given in ((), ("-i", source, "-o", os.devnull), ("-i", os.devnull, "-o", tmp_path / "out")):
        called = mt("translate", model, *given)
        assert called.err.startswith("Error: several processes share files: torchrun needs --input and --output, no ")


def test_wishes_of_the_command_line(mt: Call, model: Path, tmp_path: Path) -> None:
    """Fault 86: a constraint that cannot be met is an error of its line; the number of lines stays."""
    (tmp_path / "in").write_text("a b\nc\n")
    out = tmp_path / "out"
    called = mt("translate", model, "-i", tmp_path / "in", "-o", out, "--prefix", "b", "--ban", "c", "--device", "cpu")
    assert called.code == 0
    assert all(line.startswith("b") and "c" not in line.split() for line in out.read_text().splitlines())
    called = mt("translate", model, "-i", tmp_path / "in", "-o", out, "--constraint", "a a a a a", "--device", "cpu")
    assert called.code == 0
    assert called.err.split("\n")[1:3] == [
        f"Line {n} has no translation. What is asked for cannot be met: it needs 5 pieces and the limit is 4."
        for n in (1, 2)
    ]
    assert out.read_text() == "\n\n"


def test_scores_of_files(mt: Call, model: Path, tmp_path: Path) -> None:
    (tmp_path / "src").write_text("a b\nc\n")
    (tmp_path / "tgt").write_text("a\nb c\n")
    called = mt("score", model, "--src", tmp_path / "src", "--tgt", tmp_path / "tgt", "--device", "cpu")
    assert called.code == 0
    assert [len(line.split("\t")) for line in called.out.split("\n")[:-1]] == [2, 2]
    mt("translate", model, "-i", tmp_path / "src", "-o", tmp_path / "jsonl", "--format", "jsonl", "--alignments")
    again = mt("score", model, "--jsonl", tmp_path / "jsonl", "--format", "jsonl", "--device", "cpu")
    wrote = [json.loads(line) for line in (tmp_path / "jsonl").read_text().splitlines()]
    found = [json.loads(line) for line in again.out.splitlines()]
    assert [one["log_prob"] for one in found] == pytest.approx([one["log_prob"] for one in wrote], abs=1e-4)
    assert all("alignment" in one for one in wrote)
    for options in ((), ("--src", tmp_path / "src"), ("--jsonl", tmp_path / "src", "--src", tmp_path / "src")):
        assert mt("score", model, *options).err.startswith("Error: give --src and --tgt, or --jsonl")
