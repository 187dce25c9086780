"""The strict way from YAML to frozen dataclasses: `mt.yaml_tree`, `mt.config_reader` and `mt.config`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mt.config import as_yaml, dump, key_paths, leaves, option, to_mapping
from mt.config_reader import build
from mt.errors import ConfigError
from mt.training.units import Period
from mt.yaml_tree import Block, merge, override, parse_yaml, read_yaml

HERE = Path("/texts")


@dataclass(frozen=True)
class Inner:
    """A block."""

    size: int = option(4, help="how big", ge=1, le=100)
    rate: float = option(0.5, help="how fast", gt=0, lt=1000)

    def __post_init__(self) -> None:
        if self.size == 13:
            raise ConfigError(f"inner.size ({self.size}) does not go with inner.rate ({self.rate}).")


@dataclass(frozen=True)
class Text:
    """An item of a list."""

    src: Path = option(help="source text")


@dataclass(frozen=True)
class Outer:
    """A recipe of all types."""

    name: str = option(help="what it is called")
    inner: Inner = field(default_factory=Inner)
    maybe: Inner | None = option(None, help="a block or nothing")
    limit: int | None = option(None, help="a number or nothing", ge=1)
    flag: bool = option(False, help="yes or no")
    kind: str = option("a", help="one of two", choices=("a", "b"))
    kinds: tuple[str, ...] = option(("a",), help="some of two", choices=("a", "b"))
    pair: tuple[int, int] = option((1, 2), help="two numbers")
    paths: tuple[Path, ...] = option((), help="files")
    texts: tuple[Text, ...] = option((), help="texts")
    table: dict[str, dict[str, Inner]] = option(factory=dict, help="blocks by name")
    every: Period = option(Period.parse("1e"), help="how often")
    word: str = option("beam", help="one of two", choices=("beam", "greedy"))


def read(text: str) -> Outer:
    tree = parse_yaml(f"name: x\n{text}" if "name:" not in text else text, "r.yaml", HERE)
    return build(Outer, tree, {"max_tokens": "inner.size"})[0]


@pytest.mark.parametrize(
    ("written", "value"),
    [("5e-4", 0.0005), ("1e-3", 0.001), ("5.0e-4", 0.0005), ("3", 3.0), (".5", 0.5), ("+1", 1.0), ("2.", 2.0)],
)
def test_numbers_in_every_spelling(written: str, value: float) -> None:
    """Fault 115: PyYAML takes 5e-4 for text."""
    assert read(f"inner: {{rate: {written}}}").inner.rate == value


@pytest.mark.parametrize(
    "text", ["no", "12:30", "0123", "1e3", "true", "2026-01-01", "0x1F", "1_000", "=", "<<", ".inf"]
)
def test_text_stays_as_written(text: str) -> None:
    """Fault 115: no is no bool, 12:30 is not 750, 0123 is not 83."""
    assert read(f"name: {text}").name == text


def test_keys_stay_as_written() -> None:
    assert list(read("table: {no: {on: {size: 1}}}").table) == ["no"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("limit: 0123", "limit must be a whole number, but is 0123; write 123."),
        ("limit: 1_000", "limit must be a whole number, but is 1_000; write 1000."),
        ("limit: 12:30", "limit must be a whole number, but is 12:30."),
        ("limit: 1e3", "limit must be a whole number, but is 1e3; write 1000."),
        ("limit: 1.5", "limit must be a whole number, but is 1.5."),
        ('limit: "512"', 'limit must be a whole number, but is the quoted text "512"; remove the quotes.'),
        ("limit: 0x10", "limit must be a whole number, but is 0x10."),
        ("limit: ٣", "limit must be a whole number, but is ٣."),
        ("limit: 9223372036854775808",
         "limit must be at least 1 and at most 9223372036854775807, but is 9223372036854775808."),
        ("pair: [-9223372036854775808, 1]", "pair.0 must be at least -9223372036854775807 and at most "
         "9223372036854775807, but is -9223372036854775808."),
        (f"limit: {'9' * 1001}", f"limit must be a whole number, but is {'9' * 1001}."),
        ("limit: true", "limit must be a whole number, but is true."),
        ("limit: [1]", "limit must be a whole number, but is a list."),
        ("limit: 0", "limit must be at least 1, but is 0."),
        ("inner: {rate: abc}", "inner.rate must be a number, but is abc."),
        ("inner: {rate: .nan}", "inner.rate must be a number, but is .nan."),
        ("inner: {rate: .inf}", "inner.rate must be a number, but is .inf."),
        ("inner: {rate: 1e999}", "inner.rate must be a number, but is 1e999."),
        ("inner: {rate: 1000}", "inner.rate must be above 0 and below 1000, but is 1000."),
        ("inner: {size: 101}", "inner.size must be at least 1 and at most 100, but is 101."),
        ("inner: {size: null}", "inner.size must be a whole number, but is null."),
        ("inner: 3", "inner must be a mapping of keys, but is 3."),
        ("inner: [size]", "inner must be a mapping of keys, but is a list."),
        ("inner: null", "inner must be a mapping of keys, but is null."),
        ("flag: yes", "flag must be true or false, but is yes."),
        ("flag: 'true'", 'flag must be true or false, but is the quoted text "true"; remove the quotes.'),
        ("kind: c", "kind must be one of a or b, but is c."),
        ("word: greedi", "word must be one of beam or greedy, but is greedi; did you mean greedy?"),
        ("kinds: [a, c]", "kinds.1 must be one of a or b, but is c."),
        ("kinds: {a: b}", "kinds must be a list, but is a mapping."),
        ("pair: [1]", "pair must be a list of 2, but is a list of 1."),
        ("kind: ''", 'kind must be one of a or b, but is the quoted text "".'),
        ("paths: ['']", 'paths.0 must be a path, but is the quoted text "".'),
        ("paths: null", "paths must be a list, but is null."),
        ("texts: {src: a}", "texts must be a list, but is a mapping."),
        ("texts: [{}]", "the required key is missing: texts.0.src (source text)."),
        ("table: [a]", "table must be a mapping of names, but is a list."),
        ("kind:", "kind has no value; write one, or leave the key out."),
        ("every: 3x", "every: '3x' is not a period; write a number above 0 and a unit: 500 (updates), 2e (epochs), "
         "10Mt (target tokens), 90s, 30m or 4h."),
        ("inner: {siez: 3}", "unknown key inner.siez; did you mean inner.size?"),
        ("max_tokens: 3", "unknown key max_tokens; did you mean inner.size?"),
        ("Max_Tokens: 3", "unknown key Max_Tokens; did you mean inner.size?"),
        ("size: 3", "unknown key size; did you mean inner.size?"),
        ("qqq: 3", "unknown key qqq; known here: name, inner, maybe, limit, flag, kind, kinds, pair, paths, texts, "
         "table, every, word."),
        ("inner: {size: 13}", "inner.size (13) does not go with inner.rate (0.5)."),
        ("kind: a\nkind: b", "the key kind is given twice (first: r.yaml, line 2)."),
        ("inner:\n\tsize: 3", "there is a tab; indent with spaces."),
        ("kind: &here a", "anchors and aliases are not used in recipes."),
        ("kind: !!str a", "the tag !!str is not used in recipes."),
        ("kind: !!python/object/apply:os.system [a]",
         "the tag !!python/object/apply:os.system is not used in recipes."),
        ("? [a]\n: b", "a key must be a word, but is a list or a mapping."),
        ("kind: " + "[" * 50, "it is nested too deeply."),
        ("kind: a: b", "not valid YAML: mapping values are not allowed here."),
        ("---\nkind: a", "a second document begins here (---); a recipe is one document."),
    ],
)  # fmt: skip
def test_one_sentence_with_file_line_key_value_and_what_is_allowed(text: str, sentence: str) -> None:
    """Faults 115 and 116."""
    with pytest.raises(ConfigError) as error:
        read(text)
    line = 3 if "\n" in text and "---" not in text and "? [" not in text else 2
    assert str(error.value) == f"r.yaml, line {line}: {sentence}"


@pytest.mark.parametrize("text", ["", " ", "\t\u2003"])
def test_a_name_is_not_blank(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(f"name: '{text}'")
    assert (
        str(error.value) == f'r.yaml, line 1: name must be a text that is not blank, but is the quoted text "{text}".'
    )


def test_a_bomb_of_aliases_is_refused() -> None:
    lines = ["a: &a [x, x]", *(f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]" for i in range(20))]
    with pytest.raises(ConfigError, match=r"^r.yaml, line 2: anchors and aliases are not used in recipes\.$"):
        read("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "r.yaml: it is empty; a recipe has at least the keys name, model_dir and data."),
        ("# nothing\n", "r.yaml: it is empty; a recipe has at least the keys name, model_dir and data."),
        ("- a\n", "r.yaml, line 1: a recipe is a mapping of keys (name: ..., data: ...), but this is a list."),
        (
            "\nhello\n",
            "r.yaml, line 2: a recipe is a mapping of keys (name: ..., data: ...), but this is a single value.",
        ),
        ("a: 1\nb: \x00", "r.yaml, line 2: the character U+0000 is not allowed."),
        ("kind: a\n", "r.yaml: the required key is missing: name (what it is called)."),
    ],
)
def test_files_that_are_no_recipe(text: str, sentence: str) -> None:
    """Fault 115: empty file, top-level list."""
    with pytest.raises(ConfigError) as error:
        build(Outer, parse_yaml(text, "r.yaml", HERE))
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"name: x\nkind: caf\xe9\n", "{file}, line 2: byte 17 is not UTF-8; save the file as UTF-8."),
        ("name: x\n".encode("utf-16"), "{file}, line 1: byte 0 is not UTF-8; save the file as UTF-8."),
        (b"x" * 1_000_001, "{file}: it is larger than 1000000 bytes; a recipe is a short YAML file."),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, sentence: str) -> None:
    file = tmp_path / "r.yaml"
    file.write_bytes(data)
    with pytest.raises(ConfigError) as error:
        read_yaml(file, tmp_path)
    assert str(error.value) == sentence.format(file=file)


def test_files_from_windows(tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_bytes(b"\xef\xbb\xbfname: x\r\nlimit: 3\r\n")
    assert build(Outer, read_yaml(file, tmp_path))[0] == Outer("x", limit=3)


def test_values_of_every_type() -> None:
    recipe = read(
        "inner: {size: 7}\nmaybe: {}\nlimit: null\nflag: true\nkind: b\nkinds: b\npair: [3, 4]\npaths: a/b.txt\n"
        "texts:\n  - src: c\ntable: {x: {y: {rate: 1e-3}}}\nevery: 10Mt\n"
    )
    assert recipe == Outer(
        "x", Inner(7), Inner(), None, True, "b", ("b",), (3, 4), (HERE / "a/b.txt",), (Text(HERE / "c"),),
        {"x": {"y": Inner(rate=0.001)}}, Period.parse("10Mt"),
    )  # fmt: skip


def test_paths_start_from_their_file_and_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    paths = read("paths: [a, /b, ~/c, ../d, './~e', 'f g']").paths
    assert [str(path) for path in paths] == [
        "/texts/a", "/b", "/home/somebody/c", "/texts/../d", "/texts/~e", "/texts/f g",
    ]  # fmt: skip


def test_the_origin_says_what_was_written_and_where() -> None:
    _, origin = build(Outer, parse_yaml("name: x\ninner:\n  size: 3\npaths: a\n", "r.yaml", HERE))
    assert origin["inner.size"].text == "3"
    assert origin.cite("inner.rate", "inner.size") == "r.yaml, line 3: "
    assert origin.cite("flag") == ""


def overridden(text: str, *overrides: str) -> Outer:
    tree = parse_yaml(text, "r.yaml", HERE)
    for entry in overrides:
        changed = override(tree, entry, Path("/current"))
        assert isinstance(changed, Block)
        tree = changed
    return build(Outer, tree)[0]


def test_overrides_win_over_the_file() -> None:
    """Fault 116: the command line wins over the recipe."""
    text = "name: x\ninner: {size: 3, rate: 0.1}\ntexts: [{src: a}, {src: b}]\nlimit: 3\n"
    recipe = overridden(
        text,
        "inner.size=5",
        "texts.1.src=c",
        "kinds=[a, b]",
        "name=a: b # c",
        "inner.size=6",
        "limit=null",
        "maybe={size: 2}",
    )
    assert recipe == Outer(
        "a: b # c", Inner(6, 0.1), Inner(2), kinds=("a", "b"), texts=(Text(HERE / "a"), Text(Path("/current/c")))
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("inner.size", "write KEY=VALUE, such as train.lr=3e-4 or data.train.0.src=corpus.en."),
        ("=3", "write KEY=VALUE, such as train.lr=3e-4 or data.train.0.src=corpus.en."),
        ("inner..size=3", "write KEY=VALUE, such as train.lr=3e-4 or data.train.0.src=corpus.en."),
        ("inner.siez=3", "unknown key inner.siez; did you mean inner.size?"),
        ("inner.size=x", "inner.size must be a whole number, but is x."),
        ("inner.size=", "inner.size has no value; write one, or leave the key out."),
        ("inner.size.x=3", "inner.size must be a whole number, but is a mapping."),
        ("texts.2.src=c", "'2' is no number of an item: this list has 1 item, counted from 0."),
        ("texts.src=c", "'src' is no number of an item: this list has 1 item, counted from 0."),
        ("kinds=[a", "value, line 1: not valid YAML: expected ',' or ']', but got '<stream end>'."),
        ("inner.size=13", "inner.size (13) does not go with inner.rate (0.5)."),
        ("inner.rate=0.25", "inner.size (13) does not go with inner.rate (0.25)."),
    ],
)
def test_a_wrong_override_is_cited(text: str, sentence: str) -> None:
    size = 13 if "rate" in text else 3
    with pytest.raises(ConfigError) as error:
        overridden(f"name: x\ninner: {{size: {size}}}\ntexts: [src: a]\n", text)
    assert str(error.value) == f"-o {text}: {sentence}"


def test_merging_is_deep_for_mappings_only() -> None:
    under = parse_yaml("name: x\ninner: {size: 3, rate: 0.1}\nkinds: [a, b]\n", "under.yaml", HERE)
    over = parse_yaml("inner: {size: 4}\nkinds: [b]\n", "over.yaml", HERE)
    merged = merge(under, over)
    assert isinstance(merged, Block)
    assert build(Outer, merged)[0] == Outer("x", Inner(4, 0.1), kinds=("b",))


def test_an_empty_mapping_clears() -> None:
    assert overridden("name: x\ntable: {a: {b: {}}}\ninner: {size: 3}\n", "table={}", "inner={}") == Outer("x")


def test_a_long_override_is_cited_by_its_beginning() -> None:
    with pytest.raises(ConfigError) as error:
        overridden("name: x\n", f"kind={'c' * 300}")
    assert str(error.value).startswith(f"-o kind={'c' * 192}...: kind must be one of a or b")


def test_key_paths_name_all_keys() -> None:
    paths = list(key_paths(Outer))
    assert paths[:2] == ["name", "inner"]
    assert {"inner.size", "maybe.rate"} <= set(paths)


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
paths = names.map(lambda name: Path("/") / name.replace("/", "_"))
inners = st.builds(
    Inner,
    size=st.integers(1, 100).filter(lambda size: size != 13),
    rate=st.floats(0, 1000, exclude_min=True, exclude_max=True),
)
periods = st.sampled_from(["1e", "500", "0.5e", "10Mt", "30m", "007", "1.5h"]).map(Period.parse)
outers = st.builds(
    Outer,
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(str.strip),
    inner=inners,
    maybe=st.none() | inners,
    limit=st.none() | st.integers(1, 2**63 - 1),
    flag=st.booleans(),
    kinds=st.lists(st.sampled_from("ab"), max_size=6).map(tuple),
    pair=st.tuples(st.integers(-5, 5), st.integers(-5, 5)),
    paths=st.lists(paths, max_size=3).map(tuple),
    texts=st.lists(paths.map(Text), max_size=3).map(tuple),
    table=st.dictionaries(names, st.dictionaries(names, inners, max_size=2), max_size=3),
    every=periods,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(outers)
def test_reading_what_was_dumped_gives_it_back(recipe: Outer) -> None:
    """The law load(save(r)) == r; and other YAML readers see the same values."""
    text = dump(to_mapping(recipe))
    assert build(Outer, parse_yaml(text, "r.yaml", HERE))[0] == recipe
    assert yaml.safe_load(text) == to_mapping(recipe)


def test_paths_inside_the_folder_are_dumped_relative_to_it() -> None:
    recipe = Outer("x", paths=(HERE / "a", HERE / "~b", HERE, Path("/else/c")))
    assert to_mapping(recipe, HERE)["paths"] == ["a", "./~b", ".", "/else/c"]


@pytest.mark.parametrize("value", [None, True, False, 3, 1e-07, 0.0, "word", [1, 2], [], [True, None]])
def test_single_values_are_said_as_yaml_says_them(value: Any) -> None:
    read = yaml.safe_load(as_yaml(value))
    assert (float(read) if isinstance(value, float) else read) == value


def test_leaves_have_dotted_keys() -> None:
    tree = {"a": 1, "b": {"c": [1, 2], "d": {}}, "e": [{"f": 2}, {"f": 3}], "g": []}
    assert list(leaves(tree)) == [("a", 1), ("b.c", [1, 2]), ("e[0].f", 2), ("e[1].f", 3), ("g", [])]


def test_every_number_survives() -> None:
    for rate in (1e-7, 5e-324, 1 / 3, math.nextafter(1000, 0)):
        text = dump(to_mapping(Outer("x", Inner(rate=rate))))
        assert build(Outer, parse_yaml(text, "r.yaml", HERE))[0].inner.rate == rate
