"""The command `mt`: a table of commands, and the one place where errors become a sentence and an exit code."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import NoReturn

import click

from cli.codes import BROKEN_PIPE, INTERRUPTED
from mt import __version__
from mt.errors import EchoError, MtError, meant
from mt.place import Place

# A command is the function of its own name in cli/NAME.py; adding one is that file and a line here.
COMMANDS = {
    "run": "All of the following in a row, what is up to date skipped; then scores and samples.",
    "fetch": "Download or generate the text that a recipe names.",
    "prepare": "Turn raw text into a subword model and a binarised corpus.",
    "train": "Train a model, or go on with a training that was stopped.",
    "translate": "Translate lines of text, from standard input to standard output.",
    "score": "Tell how probable a model finds given translations.",
    "evaluate": "Score a run's test sets, or files of translations.",
    "plot": "Draw the curves of trainings, to be compared.",
    "inspect": "Look into a trained model: its modules, and where it looks.",
    "export": "Convert a trained model for another engine.",
}


_STAYS = {
    "run": "Finished stages and saved checkpoints stay; the same command goes on from there.",
    "fetch": "What was downloaded stays; the same command goes on from there.",
    "prepare": "Nothing half-made is left; the same command begins anew.",
    "train": "Saved checkpoints stay; the same command goes on from the last.",
    "translate": "With --output the same command goes on from what is done, else it begins anew.",
    "score": "The same command begins anew.",
    "evaluate": "Test sets that were translated whole stay so; the same command does the rest.",
    "plot": "Nothing half-made is left; the same command begins anew.",
    "inspect": "Nothing half-made is left; the same command begins anew.",
    "export": "Nothing half-made is left; the same command begins anew.",
}
"""What is true after an interrupt."""

_TOGETHER = ("run", "train", "translate")
"""Commands that several processes can share."""


class _Terminated(SystemExit):
    """SIGTERM or SIGHUP; like Ctrl-C it unwinds, so that nothing half-written is left, and then ends the process."""


class _Commands(click.Group):
    """Imports a command's file only when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"cli.{name}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but say what may have been meant."""
        if args[0] in COMMANDS or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"No such command '{args[0]}'{meant(args[0], COMMANDS)}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mt-toolkit")
@click.pass_context
def mt(ctx: click.Context) -> None:
    """Machine translation from raw text to an evaluated model.

    A recipe, one YAML file, says all of an experiment: text, subwords, model, training, decoding and scores. Begin with

    \b
        mt run quickstart

    Results go to standard output, all else to standard error. Exit codes: 0 done, 1 a promised score was missed or
    nobody reads on (a pipe), 2 something to mend (one sentence says what), 130 interrupted, 143 terminated.
    """
    place = Place.of()
    if place.size > 1 and ctx.invoked_subcommand not in _TOGETHER:
        if not place.leads:
            raise EchoError
        raise click.UsageError(f"{ctx.invoked_subcommand} is work for one process: call it without torchrun", ctx)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `mt` and exit."""
    if arguments is None:
        _name_files_in_utf8()
    if sys.stdout is None:  # the first file to be opened would take its place
        _say("Error: standard output is closed; send it to a file, or to /dev/null to do without.")
        sys.exit(2)
    _speak_utf8()
    with _terminable():
        code = _guarded(list(sys.argv[1:] if arguments is None else arguments))
    sys.exit(code)


@contextmanager
def _terminable() -> Iterator[None]:
    """Have signals that would end the process at once unwind it instead, save those that are ignored (nohup)."""

    def end(number: int, _: object) -> NoReturn:
        raise _Terminated(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    mine = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in mine:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


def _name_files_in_utf8() -> None:
    """Begin again in Python's UTF-8 mode where the locale would have file names in another encoding than recipes."""
    if sys.getfilesystemencoding() != "utf-8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _speak_utf8() -> None:
    """Standard streams are UTF-8 with LF in every locale; what cannot be shown on stderr is spelled out."""
    for stream, mistakes in ((sys.stdin, "strict"), (sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors=mistakes, newline="\n")


def _guarded(arguments: list[str]) -> int:
    """The exit code of one call; whatever a person can mend or ask for ends without a traceback."""
    try:
        _refuse_bytes(arguments)
        result = mt.main(arguments or ["--help"], prog_name="mt", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        hint = f" ({error.ctx.command_path} --help shows the options)" if error.ctx else ""
        sentence = re.sub(r"\s*\n\s*", " ", error.format_message())  # click gives choices lines of their own
        return _fail([f"{sentence.rstrip('.')}{hint}."])
    except click.ClickException as error:
        return _fail([error.format_message()])
    except EchoError as error:
        return _fail([], error.exit_code)
    except MtError as error:
        return _fail([str(error)], error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _say_of_all(f"Interrupted. {_stays(arguments)}".strip())
        return INTERRUPTED
    except _Terminated as error:
        _say_of_all(f"Terminated. {_stays(arguments)}".strip())
        return int(error.code or 0)
    except BrokenPipeError:
        _close_stdout()
        return BROKEN_PIPE
    except OSError as error:
        return _fail([_sentence(error)])


def _refuse_bytes(arguments: list[str]) -> None:
    """Texts and names are UTF-8, as in recipes and in all that is written; Python has other bytes as surrogates."""
    for argument in arguments:
        if not argument.isascii() and (shown := os.fsencode(argument).decode(errors="backslashreplace")) != argument:
            raise click.UsageError(f"'{shown}' is not UTF-8: convert the text, or rename the file")


def _stays(arguments: list[str]) -> str:
    return next((_STAYS[name] for name in arguments if name in COMMANDS), "")


def _fail(sentences: Iterable[str], code: int = 2) -> int:
    _close_stdout()
    for sentence in sentences:
        _say(f"Error: {sentence}")
    return code


def _say(text: str) -> None:
    if sys.stderr is not None:
        print(text, file=sys.stderr)


def _say_of_all(text: str) -> None:
    """Say once what happens to each of the processes that torchrun started."""
    if Place.of().leads:
        _say(text)


def _sentence(error: OSError) -> str:
    """An error of the operating system, with the file where it names one."""
    reason = error.strerror or str(error)
    remedy = "; make room and run the command again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return f"{error.filename}: {reason}{remedy}." if error.filename else f"{reason}{remedy}."


def _close_stdout() -> None:
    """Write what standard output still holds, or drop it where nobody can take it: no second error at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
