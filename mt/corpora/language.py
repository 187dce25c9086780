"""A language as the generated corpus needs it: its CLDR locale (Babel) and its speller of numbers (num2words)."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mt.errors import ConfigError, DataError, MissingExtraError

if TYPE_CHECKING:
    from babel import Locale

SOME_KNOWN = "cs, da, de, en, es, fi, fr, hu, it, ja, ko, nl, pl, pt, ro, ru, sv, tr, uk"

_SPELLERS = {"nb": "no"}  # Babel's name -> num2words' name, where they differ

_MARKS = dict.fromkeys(map(ord, "\u200e\u200f\u061c\u2066\u2067\u2068\u2069"))


class UnsayableError(DataError):
    """A language has no words for something."""


@dataclass(frozen=True)
class Language:
    """One side of the corpus."""

    code: str
    locale: Locale
    speller: str
    """num2words' name of the language."""

    def spell(self, number: int, to: str) -> str:
        """Write `number` in words; `to` is num2words' cardinal, ordinal, ordinal_num or year.

        Raises UnsayableError where num2words has no such words for the language.
        """
        from num2words import num2words

        try:
            return str(num2words(number, to=to, lang=self.speller))
        except Exception as error:  # each language of num2words fails in its own way: AttributeError, IndexError, ...
            raise UnsayableError(f"num2words has no {to} of {number} in {self.code}.") from error


def find_language(code: str, key: str) -> Language:
    """The language named `code` by the recipe's `key`; ConfigError where Babel and num2words do not both know it."""
    try:
        from babel import Locale, UnknownLocaleError
        from num2words import CONVERTER_CLASSES
    except ImportError as error:
        raise MissingExtraError("data.generate", "demo") from error
    underscored = code.replace("-", "_")
    names = (underscored, underscored.split("_")[0], _SPELLERS.get(underscored))
    speller = next((name for name in names if name in CONVERTER_CLASSES), None)
    try:
        locale = Locale.parse(underscored)
    except (UnknownLocaleError, ValueError):
        locale = None
    if locale is None or speller is None:
        raise ConfigError(
            f"{key} is '{code}', which Babel and num2words do not both know, so data.generate cannot write phrases in "
            f"it; some that they know: {SOME_KNOWN}."
        )
    return Language(code, locale, speller)


def tidy(text: str) -> str:
    """NFC; each run of white space (CLDR has no-break and thin ones) is one space; marks of direction are left out."""
    return " ".join(unicodedata.normalize("NFC", text.translate(_MARKS)).split())
