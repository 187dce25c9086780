from __future__ import annotations

import errno
import json
import math
from pathlib import Path
from typing import Any

import pytest

from mt.errors import RunError
from mt.training.log import EventLog, perplexity, read_log


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def written(path: Path, updates: range) -> None:
    with EventLog(path) as log:
        for update in updates:
            log.write("trained", {"update": update, "loss": 1.5})


def test_an_event_is_a_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "run" / "log.jsonl"
    with EventLog(path) as log:
        log.write("validated", {"update": 3, "scores": {"loss": 2.0}, "text": "ü\r\u2028"})
        (line,) = events(path)  # without waiting for the end
    assert line.pop("time").endswith("+00:00")
    assert line == {"event": "validated", "update": 3, "scores": {"loss": 2.0}, "text": "ü\r\u2028"}


def test_what_is_not_a_number_is_a_string(tmp_path: Path) -> None:
    """Fault 58: the log says so, and stays JSON."""
    with EventLog(tmp_path / "log") as log:
        log.write("validated", {"loss": math.nan, "scores": {"bleu": math.inf, "chrf": -math.inf}})
    (line,) = events(tmp_path / "log")
    assert (line["loss"], line["scores"]) == ("nan", {"bleu": "inf", "chrf": "-inf"})


def test_what_comes_again_after_resuming_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written(path, range(1, 6))
    with EventLog(path, update=3) as log:
        log.write("trained", {"update": 4, "loss": 1.5})
    assert [(line["event"], line["update"]) for line in events(path)] == [
        *[("trained", update) for update in (1, 2, 3)],
        ("resumed", 3),
        ("trained", 4),
    ]
    assert events(path)[3]["lines_cut"] == 2


@pytest.mark.parametrize("torn", [b'{"event": "tr', b'{"event": "trained", "update": 2}'])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "log"
    written(path, range(1, 3))
    path.write_bytes(path.read_bytes() + torn)
    EventLog(path, update=2).close()
    assert [line["event"] for line in events(path)] == ["trained", "trained", "resumed"]


def test_notes_of_a_person_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("my note\n[1]\n{}\n")
    EventLog(path, update=2).close()
    assert path.read_text().startswith("my note\n[1]\n{}\n")


def test_a_training_that_begins_again_begins_its_log_again(tmp_path: Path) -> None:
    written(tmp_path / "log", range(1, 3))
    EventLog(tmp_path / "log", update=0).close()
    assert [(line["event"], line["lines_cut"]) for line in events(tmp_path / "log")] == [("resumed", 2)]


class FullDisk:
    def write(self, _: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        """Nothing to close."""


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    with EventLog(path) as log, monkeypatch.context() as patch:
        log._file.close()
        patch.setattr(log, "_file", FullDisk())
        with pytest.raises(RunError) as caught:
            log.write("saved", {})
    assert str(caught.value) == (
        f"{path} could not be written ([Errno 28] No space left on device): "
        "make room there and run the same command again."
    )


@pytest.mark.parametrize(
    ("nll", "shown"),
    [(0.0, "1.0"), (710.0, "inf"), (1e4, "inf"), (math.inf, "inf"), (math.nan, "nan")],
)
def test_perplexity_never_overflows(nll: float, shown: str) -> None:
    """Faults 50 and 72."""
    assert str(perplexity(nll)) == shown


def test_perplexity_is_the_exponential() -> None:
    """Fault 50."""
    assert perplexity(20 / 12) == pytest.approx(5.294490, rel=1e-6)


def test_a_log_is_read_as_it_was_run_last(tmp_path: Path) -> None:
    """Lines of updates that were run again, as after a kill, a torn end, and notes of a person."""
    lines = [
        *('{"event": "trained", "update": 5, "loss": 3.0}', "my note", "[1]", '{"update": 6}', '{"event": "x"}'),
        *('{"event": "validated", "update": 5, "loss": "nan"}', '{"event": "saved", "update": 5}'),
        *('{"event": "trained", "update": 10, "loss": 2.0}', '{"event": "trained", "update": 15, "loss": 1.0}'),
        *('{"event": "trained", "update": 10, "loss": 2.5}', '{"event": "trained", "update": 12, "lo'),
    ]
    (tmp_path / "log").write_text("\n".join(lines))
    found = read_log(tmp_path / "log")
    assert [(event["event"], event["update"], event.get("loss")) for event in found[:1] + found[2:]] == [
        ("trained", 5, 3.0),
        ("saved", 5, None),
        ("trained", 10, 2.5),
    ]
    assert math.isnan(found[1]["loss"])


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    with EventLog(tmp_path / "log") as log:
        log.write("trained", {"update": 1, "loss": math.inf, "text": "inf and nan"})
    (event,) = read_log(tmp_path / "log")
    assert (event["loss"], event["text"]) == (math.inf, "inf and nan")


def test_a_log_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="could not be read"):
        read_log(tmp_path)
