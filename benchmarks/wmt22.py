"""Compare `mt evaluate` with the scores that WMT22's organisers published.

    python -m benchmarks.wmt22 FOLDER

FOLDER holds sources, references and system outputs of the general task, en-de and de-en, under the names of
https://github.com/wmt-conference/wmt22-news-systems (gzipped), and `published-scores.tsv`: pair, system, id,
is_constrained, metric (bleu or chrf, -A, -B or -all for the references) and score. Prints a line a score and exits
with 1 where one differs in its first four decimals.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mt.evaluate import evaluate_files
from mt.events import finish
from mt.scoring.config import EvaluateConfig
from mt.text.files import read_lines

REFERENCES = {"A": ("A",), "B": ("B",), "all": ("A", "B")}


@dataclass(frozen=True)
class Published:
    """A line of the organisers' table."""

    pair: str
    system: str
    metric: str
    """bleu or chrf."""
    references: str
    """Key of REFERENCES."""
    score: float


@dataclass(frozen=True)
class Compared:
    """A published score and the one measured here."""

    published: Published
    measured: float
    signature: str

    @property
    def published_text(self) -> str:
        """The published score, as compared."""
        return f"{self.published.score:.4f}"

    @property
    def measured_text(self) -> str:
        """The measured score, as compared."""
        return f"{self.measured:.4f}"

    def __str__(self) -> str:
        found, verdict = self.published, "equal" if self.measured_text == self.published_text else "DIFFERENT"
        name = f"{found.pair} {found.system:16} {found.metric}-{found.references:3}"
        return f"{name}  {self.published_text}  {self.measured_text}  {verdict}  {self.signature}"


def published(folder: Path) -> Iterator[Published]:
    """The organisers' table."""
    for line in list(read_lines(folder / "published-scores.tsv"))[1:]:
        pair, system, _, _, metric, score = line.split("\t")
        name, references = metric.split("-")
        yield Published(pair, system, name, references, float(score))


def compare(folder: Path, pair: str) -> Iterator[Compared]:
    """Score all systems of a language pair and set them beside the published scores."""
    table = [score for score in published(folder) if score.pair == pair]
    target = pair.split("-")[1]
    systems = sorted({score.system for score in table})
    config = EvaluateConfig(metrics=("bleu", "chrf"), paired="none")
    for name, references in REFERENCES.items():
        evaluation = finish(
            evaluate_files(
                [folder / f"generaltest2022.{pair}.hyp.{system}.{target}.gz" for system in systems],
                [folder / f"generaltest2022.{pair}.ref.{reference}.{target}.gz" for reference in references],
                config,
                target,
            )
        )
        measured = dict(zip(systems, evaluation.tests[0].systems, strict=True))
        for wanted in (score for score in table if score.references == name):
            found = measured[wanted.system].score(wanted.metric)
            yield Compared(wanted, found.value, found.signature)


def main() -> int:
    """Print all comparisons."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    compared = [one for pair in ("en-de", "de-en") for one in compare(Path(sys.argv[1]), pair)]
    print(*compared, sep="\n")
    equal = sum(one.measured_text == one.published_text for one in compared)
    print(f"{equal} of {len(compared)} scores equal to four decimals")
    return 0 if equal == len(compared) else 1


if __name__ == "__main__":
    sys.exit(main())
