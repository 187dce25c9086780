"""Which machine computes."""

from __future__ import annotations

import pytest
import torch

from mt.device import is_out_of_memory, pick_device
from mt.errors import ConfigError
from mt.events import Event, Notice, finish


def picked(name: str) -> tuple[torch.device, list[str]]:
    events: list[Event] = []
    device = finish(pick_device(name), events.append)
    return device, [event.text for event in events if isinstance(event, Notice)]


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)


@pytest.fixture
def two_cudas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda number: f"Chip {number}")


@pytest.mark.usefixtures("no_cuda")
@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:7"])
def test_a_cuda_device_that_is_asked_for_is_never_replaced(name: str) -> None:
    """Fault 117."""
    with pytest.raises(ConfigError) as error:
        picked(name)
    assert str(error.value) == (
        f"--device {name}: torch {torch.__version__} finds no CUDA device here; use --device cpu or --device auto."
    )


@pytest.mark.usefixtures("no_cuda")
def test_auto_without_cuda_is_the_cpu_with_a_notice() -> None:
    """Fault 117."""
    device, said = picked("auto")
    assert device == torch.device("cpu")
    assert len(said) == 1
    assert said[0].startswith("Device: CPU, ")
    assert said[0].endswith(": no CUDA device was found.")


@pytest.mark.usefixtures("two_cudas")
def test_the_device_that_is_asked_for_is_taken_and_named() -> None:
    """Fault 117: device 1 is asked for and 1 is used."""
    assert picked("cuda:1") == (torch.device("cuda", 1), ["Device: cuda:1, Chip 1."])
    assert picked("cuda")[0] == picked("auto")[0] == torch.device("cuda", 0)
    assert picked("cpu")[0] == torch.device("cpu")
    with pytest.raises(
        ConfigError, match=r"^--device cuda:2: this machine has 2 CUDA devices, counted from cuda:0; use "
    ):
        picked("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "CUDA", "cuda:", "cuda:-1", "cpu:0", ""])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        picked(name)
    assert str(error.value) == f"--device must be auto, cpu, cuda or cuda:N, but is '{name}'."


def test_threads_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", asked.append)
    finish(pick_device("cpu", 3))
    assert asked == [3]


@pytest.mark.usefixtures("two_cudas")
def test_each_of_several_processes_has_a_device_of_its_own() -> None:
    for number in (0, 1):
        assert finish(pick_device("auto", process=number)) == torch.device("cuda", number)
    for name, number in (("auto", 2), ("cuda:1", 1)):
        with pytest.raises(ConfigError) as error:
            finish(pick_device(name, process=number))
        assert str(error.value) == (
            f"--device {name}: process {number} of this machine needs a CUDA device of its own, and there are 2; use "
            "--device cuda, and as many processes as devices."
        )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."), True),
        (MemoryError(), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("not enough memory"), False),
    ],
)
def test_errors_of_memory_are_told_from_others(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) == expected
