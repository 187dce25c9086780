"""The kinds of phrase in the generated corpus.

A kind draws a value, then returns how to say it: a function from a language to a phrase, called once a side. Of Babel's
formats only those are here that say the same in each language; see `data/README.md` for what such a corpus is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from random import Random
from typing import Literal, TypeVar

from mt.corpora.language import Language

Say = Callable[[Language], str]
Item = TypeVar("Item")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


COUNTRIES = _words("""
    AF AL AR AT AU BD BE BG BO BR BY CA CH CL CN CO CR CU CY CZ DE DK DO DZ EC EE EG ES ET FI FR GB GE GH GR GT HN HR
    HU ID IE IL IN IQ IR IS IT JM JO JP KE KH KR KW KZ LB LK LT LU LV LY MA MD MG MM MN MT MX MY MZ NA NG NI NL NO NP
    NZ OM PA PE PH PK PL PT PY QA RO RS RU RW SA SD SE SG SI SK SN SO SV SY TH TN TR TZ UA UG US UY UZ VE VN YE ZA ZM
    ZW
""")
LANGUAGES = _words("""
    af ar az be bg bn bs ca cs cy da de el en es et eu fa fi fr ga gl gu he hi hr hu hy id is it ja ka kk km kn ko lo
    lt lv mk ml mn mr ms mt my ne nl no pa pl pt ro ru sk sl so sq sr sv sw ta te th tr uk ur uz vi zh zu
""")
CURRENCIES = _words("USD EUR GBP JPY CHF SEK NOK DKK PLN CZK HUF CAD AUD INR BRL MXN")
UNITS = _words("""
    length-kilometer length-meter length-centimeter length-millimeter length-mile length-foot length-inch
    length-light-year mass-kilogram mass-gram mass-milligram mass-tonne mass-ounce temperature-celsius
    temperature-kelvin volume-liter volume-milliliter volume-cubic-meter volume-teaspoon area-square-meter
    area-square-kilometer area-hectare area-acre speed-kilometer-per-hour speed-meter-per-second speed-mile-per-hour
    duration-hour duration-minute duration-second duration-day duration-week duration-year digital-megabyte
    digital-gigabyte energy-kilowatt-hour energy-kilocalorie power-watt power-kilowatt electric-volt electric-ampere
    frequency-megahertz pressure-hectopascal angle-degree light-lux
""")
SPANS = ("duration-day", "duration-hour", "duration-minute", "duration-second")


class Draw:
    """Values drawn from a seed. Only `Random.random` is used: it alone gives the same in every Python version."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, end: int) -> int:
        """A whole number from 0 to `end` - 1."""
        return int(self._random.random() * end)

    def between(self, first: int, last: int) -> int:
        """A whole number from `first` to `last`."""
        return first + self.below(last - first + 1)

    def pick(self, items: Sequence[Item]) -> Item:
        """One of `items`."""
        return items[self.below(len(items))]

    def several(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different `items`, in the order drawn."""
        chosen: list[Item] = []
        while len(chosen) < count:
            item = self.pick(items)
            if item not in chosen:
                chosen.append(item)
        return chosen

    def amount(self) -> float:
        """A number from 1 to 9,999, small ones as often as large ones, some with one or two decimals."""
        places = self.pick((0, 0, 1, 2))
        return round(self.between(1, 10 ** self.between(1, 4) - 1) + self.below(100) / 100, places)

    def day(self) -> date:
        """A day of the years 1950 to 2049."""
        return date(self.between(1950, 2049), self.between(1, 12), self.between(1, 28))

    def moment(self) -> datetime:
        """A second of the years 1950 to 2049."""
        return datetime.combine(self.day(), time(self.below(24), self.below(60), self.below(60)))


def a_date(draw: Draw) -> Say:
    """Friday, March 5, 2021."""
    from babel.dates import format_date

    day, style = draw.day(), draw.pick(("full", "full", "long", "medium", "short"))
    return lambda language: format_date(day, style, language.locale)


def a_part_of_a_date(draw: Draw) -> Say:
    """March 2021, 1st quarter 2021, Fri, Mar 5."""
    from babel.dates import format_skeleton

    moment, skeleton = draw.moment(), draw.pick(("MMMMd", "MMMEd", "yMMMM", "yMMMEd", "yQQQQ", "yw"))
    return lambda language: format_skeleton(skeleton, moment, fuzzy=False, locale=language.locale)


def a_time(draw: Draw) -> Say:
    """5:04 PM."""
    from babel.dates import format_datetime, format_time

    moment, style, dated = draw.moment(), draw.pick(("short", "medium")), draw.below(3) > 0
    if dated:
        return lambda language: format_datetime(moment, style, locale=language.locale)
    return lambda language: format_time(moment.time(), style, locale=language.locale)


def a_relative_time(draw: Draw) -> Say:
    """3 days ago, in 5 hours."""
    from babel.dates import format_timedelta

    size = timedelta(**{draw.pick(("seconds", "minutes", "hours", "days", "weeks")): draw.between(1, 100)})
    delta = draw.pick((-1, 1)) * size
    style: Literal["long", "short"] = draw.pick(("long", "long", "short"))
    return lambda language: format_timedelta(delta, add_direction=True, format=style, locale=language.locale)


def an_interval(draw: Draw) -> Say:
    """Mar 5 - 9, 2021."""
    from babel.dates import format_interval

    start, skeleton = draw.moment(), draw.pick(("yMMMd", "yMMMd", "MMMd", "yMMM", "yMMMM", "Hm"))
    days = {"Hm": 0, "yMMM": 31, "yMMMM": 31}.get(skeleton, 1) * draw.between(1, 12)
    end = start + timedelta(days=days) if days else start.replace(hour=draw.between(start.hour, 23), minute=59)
    return lambda language: format_interval(start, end, skeleton, fuzzy=False, locale=language.locale)


def a_measure(draw: Draw) -> Say:
    """12.5 kilometers, 12.5 km."""
    from babel.units import format_unit

    value, unit = draw.amount(), draw.pick(UNITS)
    length: Literal["long", "short"] = draw.pick(("long", "long", "short"))
    return lambda language: format_unit(value, unit, length, locale=language.locale)


def a_duration(draw: Draw) -> Say:
    """3 hours, 20 minutes."""
    from babel.lists import format_list
    from babel.units import format_unit

    first = draw.below(len(SPANS) - 1)  # two units only: CLDR in Babel has no list of three in some languages
    spans = [(unit, draw.between(2, 23)) for unit in SPANS[first : first + 2]]
    return lambda language: format_list(
        [format_unit(value, unit, "long", locale=language.locale) for unit, value in spans], "unit", language.locale
    )


def a_sum_of_money(draw: Draw) -> Say:
    """$1,234.50, 1,234.50 US dollars."""
    from babel.numbers import format_currency

    value, currency = draw.between(1, 10 ** draw.between(2, 7)) / 100, draw.pick(CURRENCIES)
    style: Literal["standard", "name"] = draw.pick(("standard", "name"))
    return lambda language: format_currency(value, currency, locale=language.locale, format_type=style)


def a_number(draw: Draw) -> Say:
    """1,234,567.25, 12.3 million, 12.5%."""
    from babel.numbers import format_compact_decimal, format_decimal, format_percent

    style, value = draw.below(3), draw.between(1, 10 ** draw.between(3, 9)) / draw.pick((1, 100))
    large = draw.between(1, 999) * 10 ** draw.pick((2, 5, 8))
    share = draw.between(1, 2000) / 1000
    if style == 0:
        return lambda language: format_percent(share, locale=language.locale, decimal_quantization=False)
    if style == 1:
        return lambda language: format_compact_decimal(
            large, format_type="long", locale=language.locale, fraction_digits=1
        )
    return lambda language: format_decimal(value, locale=language.locale)


def a_spelled_number(draw: Draw) -> Say:
    """four hundred and five, nineteen eighty-four, twenty-first, 21st."""
    style, number, year = draw.pick(("cardinal", "ordinal")), draw.between(1, 10 ** draw.between(1, 5)), draw.below(8)
    if year == 0:
        style, number = "year", draw.between(1100, 2099)
    if year == 1:
        style, number = "ordinal_num", draw.between(1, 999)
    return lambda language: language.spell(number, style)


def a_list_of_names(draw: Draw) -> Say:
    """Peru, Germany, and Japan; Danish or Welsh."""
    from babel.lists import format_list

    countries, count = draw.below(3) > 0, draw.between(2, 4)
    style: Literal["standard", "or"] = draw.pick(("standard", "standard", "or"))
    codes = draw.several(COUNTRIES if countries else LANGUAGES, count)

    def say(language: Language) -> str:
        names = language.locale.territories if countries else language.locale.languages
        return str(format_list([names[code] for code in codes], style, language.locale))

    return say


def a_list_of_phrases(draw: Draw) -> Say:
    """12.5 kilometers, 45 US dollars, and 3 days ago."""
    from babel.lists import format_list

    parts = [draw.pick((a_measure, a_sum_of_money, a_number, a_relative_time))(draw) for _ in range(draw.between(2, 3))]
    return lambda language: format_list([say(language) for say in parts], "standard", language.locale)


# kind -> the function that draws it, and how often it is drawn beside the others
KINDS: dict[str, tuple[Callable[[Draw], Say], int]] = {
    "date": (a_date, 4),
    "part of a date": (a_part_of_a_date, 3),
    "time": (a_time, 3),
    "relative time": (a_relative_time, 2),
    "interval": (an_interval, 2),
    "measure": (a_measure, 4),
    "duration": (a_duration, 2),
    "money": (a_sum_of_money, 4),
    "number": (a_number, 2),
    "spelled number": (a_spelled_number, 4),
    "list of names": (a_list_of_names, 6),
    "list of phrases": (a_list_of_phrases, 4),
}
