"""A recipe: one YAML file that says all of a translation experiment.

Relative paths start from the folder of the file that they are written in. Two exceptions: in the recipes shipped with
the toolkit, by name or by path, and on the command line they start from the current directory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mt.config import dump, internal, leaves, option, to_mapping
from mt.config_reader import Origin, build
from mt.data.config import DataConfig
from mt.errors import ConfigError, RunError, meant
from mt.models.config import ModelConfig
from mt.models.presets import PRESETS
from mt.scoring.config import EvaluateConfig
from mt.search.config import DecodeConfig
from mt.synonyms import SYNONYMS
from mt.text.config import TokenizerConfig
from mt.training.config import TrainConfig
from mt.yaml_tree import Block, Items, Place, Scalar, Tree, merge, override, plant, read_yaml

_SUFFIXES = (".yaml", ".yml")
RECIPE_FILE = "recipe.yaml"  # in a run folder


@dataclass(frozen=True)
class Recipe:
    """Three scalars and six blocks. Prepare reads `data` and `tokenizer`, other commands the block of their name.

    Each command checks the whole recipe before it begins.
    """

    name: str = option(help="name of the experiment")
    model_dir: Path = option(help="the run folder: all that training makes and translation needs")
    seed: int = option(1, help="of initialisation, data order and dropout", ge=0, le=2**32 - 1)
    data: DataConfig = option(factory=DataConfig, help="prepare: which text is read")
    tokenizer: TokenizerConfig = option(factory=TokenizerConfig, help="prepare: how text becomes pieces")
    model: ModelConfig = option(factory=ModelConfig, help="train: what is trained")
    train: TrainConfig = option(factory=TrainConfig, help="train: how it is trained")
    decode: DecodeConfig = option(factory=DecodeConfig, help="translate: how a translation is searched for")
    evaluate: EvaluateConfig = option(factory=EvaluateConfig, help="evaluate: how translations are scored")
    origin: Origin = internal(Origin)
    """What was written for each key, and where; `origin.cite("train.lr")` opens a sentence about it."""

    @property
    def data_dir(self) -> Path:
        """The folder of the prepared corpus."""
        return self.data.dir or self.model_dir / "data"


def shipped_folder() -> Path:
    """The folder of the recipes that come with the toolkit: in the installed package, or beside it in a checkout."""
    package = Path(__file__).parent
    inside = package / "recipes"
    return inside if inside.is_dir() else package.parent / "recipes"


def shipped_recipes() -> dict[str, Path]:
    """Name -> file of each shipped recipe."""
    return {path.stem: path for path in sorted(shipped_folder().glob("*.yaml"))}


def load_recipe(path_or_name: str | Path, overrides: Sequence[str] = (), flag: str = "-o") -> Recipe:
    """Read a recipe file or a shipped recipe, lay `KEY=VALUE` overrides over it, and check each key.

    Raises ConfigError: one sentence with file, line (or `-o ...`: the override after `flag`), key path, and what is
    allowed.
    """
    return _built(_read(_find(str(path_or_name), Path()), ()), overrides, flag)


def _built(written: Block, overrides: Sequence[str] = (), flag: str = "-o") -> Recipe:
    """The recipe of what was written, with overrides laid over it."""
    tree: Tree = written
    for text in overrides:
        tree = override(tree, text, Path.cwd(), flag)
    assert isinstance(tree, Block)
    recipe, origin = build(Recipe, _lay_preset(tree), SYNONYMS)
    return replace(recipe, origin=origin)


def _find(name: str, folder: Path) -> Path:
    """A shipped recipe's name, or a path."""
    path = folder / Path(name).expanduser()
    if Path(name).suffix in _SUFFIXES or len(Path(name).parts) > 1:
        if path.is_dir():
            raise ConfigError(
                f"'{name}' is a folder; a recipe is a YAML file. Of a run folder it is {path / RECIPE_FILE}."
            )
        return path
    shipped = shipped_recipes()
    if name in shipped:
        return shipped[name]
    if path.is_file():
        return path
    known = meant(name, shipped) or f"; shipped are: {', '.join(shipped) or 'none'}."
    raise ConfigError(f"'{name}' is neither a recipe file nor a shipped recipe{known}")


def _read(path: Path, chain: tuple[Path, ...]) -> Block:
    """The tree of a file, laid over those that it extends."""
    real = path.resolve()
    if real in chain:
        names = " -> ".join(file.name for file in (*chain, real))
        raise ConfigError(f"{path}: recipes extend each other in a circle: {names}.")
    base = Path.cwd() if real.parent == shipped_folder().resolve() else Path.cwd() / path.parent
    _check_name(base)
    tree = read_yaml(path, base)
    entries = dict(tree.entries)
    under: Tree | None = None
    for name in _extended(entries.pop("extends", None)):
        under = merge(under, _read(_below(name, path.parent), (*chain, real)))
    merged = merge(_without_model(under, entries), Block(entries, tree.place))
    assert isinstance(merged, Block)
    return merged


def _check_name(folder: Path) -> None:
    """Paths are absolute in what is written, which is UTF-8; Python has other bytes of a name as surrogates."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        name = os.fsencode(folder).decode(errors="backslashreplace")
        raise ConfigError(f"'{name}' is not UTF-8, so that no recipe can be used there: rename that folder.") from None


def _without_model(under: Tree | None, entries: Mapping[str, Tree]) -> Tree | None:
    """A preset that a recipe names begins the model block anew: keys for one model would seldom fit another."""
    model = entries.get("model")
    if not isinstance(under, Block) or not isinstance(model, Block) or "preset" not in model.entries:
        return under
    return Block({key: entry for key, entry in under.entries.items() if key != "model"}, under.place)


def _extended(tree: Tree | None) -> list[Scalar]:
    names = tree.values if isinstance(tree, Items) else () if tree is None else (tree,)
    for name in names:
        if not isinstance(name, Scalar) or not name.text or name.is_null:
            raise ConfigError(
                f"{name.place}: extends must be a recipe file, a shipped recipe's name, or a list of them."
            )
    return [name for name in names if isinstance(name, Scalar)]


def _below(name: Scalar, folder: Path) -> Path:
    try:
        path = _find(name.text, folder)
    except ConfigError as error:
        raise ConfigError(f"{name.place}: extends: {error}") from None
    if not path.is_file():
        raise ConfigError(f"{name.place}: extends: there is no file '{name.text}' ({path.resolve()}).")
    return path


def _lay_preset(tree: Block) -> Block:
    """The preset's values under the model block's own keys. An unknown preset is refused later, by its choices."""
    model = tree.entries.get("model")
    preset = model.entries.get("preset") if isinstance(model, Block) else None
    if not isinstance(preset, Scalar) or preset.text not in PRESETS:
        return tree
    assert model is not None
    return Block({**tree.entries, "model": merge(plant(PRESETS[preset.text], preset.place), model)}, tree.place)


def effective(recipe: Recipe, folder: Path | None = None) -> str:
    """The recipe with all defaults filled in, as YAML; paths inside `folder` relative to it, others absolute."""
    return dump(to_mapping(recipe, folder))


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write the effective recipe; what lies in the folder of `path` is named relative to it, so the folder can move."""
    from mt.text.files import write_text

    write_text(path, effective(recipe, Path.cwd() / path.parent))


_FREE_OF_A_RUN = ("data", "decode", "evaluate")


def load_run_recipe(run: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The effective recipe of a run folder, wherever that was moved; its corpora need not exist any more.

    Overrides may change what translation and evaluation take from it; ConfigError where they change something else.
    """
    file = Path(run).expanduser() / RECIPE_FILE
    if not file.is_file():
        hint = "; the run folder of a recipe is its model_dir" if Path(run).suffix in _SUFFIXES else ""
        missing = f"no {RECIPE_FILE} in it" if file.parent.exists() else "nothing of that name"
        raise RunError(f"'{run}' is not a run folder: there is {missing} ({file.resolve()}){hint}.")
    written = _read(file, ())
    trained = _built(written)
    recipe = _built(written, overrides, "--set") if overrides else trained
    before = dict(leaves(to_mapping(trained)))
    for key, value in leaves(to_mapping(recipe)):
        if key.partition(".")[0] not in _FREE_OF_A_RUN and value != before.get(key):
            raise ConfigError(
                f"{recipe.origin.cite(key)}of a trained run only {', '.join(_FREE_OF_A_RUN)} can be set, not {key}."
            )
    return recipe


@dataclass(frozen=True)
class _Scoring:
    """The part of a recipe that scoring files takes."""

    evaluate: EvaluateConfig = option(factory=EvaluateConfig, help="evaluate: how translations are scored")


def load_evaluate_config(overrides: Sequence[str]) -> EvaluateConfig:
    """The `evaluate` block without a recipe: defaults under `evaluate.KEY=VALUE` overrides.

    Raises ConfigError where they promise scores: promises are of a recipe's test sets.
    """
    tree: Tree = Block({}, Place("-o", Path.cwd()))
    for text in overrides:
        tree = override(tree, text, Path.cwd())
    assert isinstance(tree, Block)
    scoring, origin = build(_Scoring, tree, SYNONYMS)
    if scoring.evaluate.expect:
        raise ConfigError(
            f"{origin.cite('evaluate.expect')}evaluate.expect is of the test sets of a run: give the run folder, with "
            "--check-expect, in place of files."
        )
    return scoring.evaluate
