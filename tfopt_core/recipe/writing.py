"""Write a recipe as a TOML file, with comments that explain each part.

    text = recipe_text(
        name="train",
        description="What makes train.py faster here.",
        workload={"script": "train.py"},
        plugins=[PlannedPlugin("cache", {"storage": "disk"}, why="reading took 40% of a step")],
        measure={"budget": "10m"},
        heading=["When to use: on this machine."],
        notes={"measure.budget": "a longer one narrows the interval"},
    )

`read_recipe` reads the same values back.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import tomlkit

from tfopt_core.recipe.model import Recipe
from tfopt_core.recipe.table import to_json
from tfopt_core.recipe.tree import join_path

COLUMNS = 90


@attrs.frozen
class PlannedPlugin:
    """A plugin to write: `why` becomes a comment above it; a disabled plugin keeps its place.

    :param spare: further settings, as comments.
    :param commented: whether the whole table is a comment.
    """

    use: str
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    why: str = ""
    enabled: bool = True
    spare: Sequence[SpareKey] = ()
    commented: bool = False


@attrs.frozen
class SpareKey:
    """A key of "workload", "measure" or a plugin that is written as a comment."""

    table: str
    key: str
    value: Any
    why: str = ""


def recipe_text(
    *,
    name: str,
    workload: Mapping[str, Any],
    description: str = "",
    plugins: Sequence[PlannedPlugin] = (),
    measure: Mapping[str, Any] = {},
    heading: Sequence[str] = (),
    notes: Mapping[str, str] = {},
    spare: Sequence[SpareKey] = (),
) -> str:
    """Return the text of a recipe.

    A key whose value is None is left out.

    :param heading: paragraphs at the top of the file; an empty one for an empty line.
    :param notes: comments above a table, and above or after a key, by path: "measure",
        "measure.pairs", "plugins" (before the first plugin), "plugins.cache.storage".
    """
    blocks = [
        [
            *(line for paragraph in heading for line in _comment(paragraph) or ["#"]),
            *_pairs({"name": name, "description": description or None}, "", notes),
        ],
        [*_table("workload", workload, notes, spare)],
        _comment(notes.get("plugins", "")) if plugins else [],
        *([*_plugin(plugin, notes)] for plugin in plugins),
    ]
    if measure or any(key.table == "measure" for key in spare):
        blocks.append([*_table("measure", measure, notes, spare)])
    return "\n".join("".join(f"{line}\n" for line in block) for block in blocks if block)


def text_of(recipe: Recipe) -> str:
    """Return the text of a recipe that was read: after `extends` and `--set`, without comments."""
    return recipe_text(
        name=recipe.name, description=recipe.description, workload=recipe.workload.to_dict(),
        plugins=[PlannedPlugin(one.use, to_json(one.settings)) for one in recipe.plugins],
        measure=recipe.measure.to_dict(),
    )  # fmt: skip


def _table(
    name: str, values: Mapping[str, Any], notes: Mapping[str, str], spare: Sequence[SpareKey]
) -> Iterator[str]:
    yield from _comment(notes.get(name, ""))
    yield f"[{name}]"
    extra = [line for key in spare if key.table == name for line in _spare(key)]
    yield from _pairs(values, name, notes, extra)


def plugin_text(plugin: PlannedPlugin) -> str:
    """Return the text of one plugin's table."""
    return "".join(f"{line}\n" for line in _plugin(plugin, {}))


def _plugin(plugin: PlannedPlugin, notes: Mapping[str, str]) -> Iterator[str]:
    yield from _comment(plugin.why)
    for lines in _plugin_table(plugin, notes):
        # a long array takes several lines
        yield "# " + lines.replace("\n", "\n# ") if plugin.commented else lines


def _plugin_table(plugin: PlannedPlugin, notes: Mapping[str, str]) -> Iterator[str]:
    yield "[[plugins]]"
    yield _pair("use", plugin.use)
    if not plugin.enabled:
        yield _pair("enabled", False)
    path = join_path("plugins", (plugin.use,))
    spare = [line for key in plugin.spare for line in _spare(key)]
    yield from _pairs(plugin.settings, path, notes, spare, header="plugins")


def _pairs(
    values: Mapping[str, Any],
    path: str,
    notes: Mapping[str, str],
    extra: Sequence[str] = (),
    *,
    header: str = "",
) -> Iterator[str]:
    """Yield the keys of a table, then `extra`, then tables that are too long for one line."""
    long = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and len(_pair(key, value)) > COLUMNS:
            long[key] = value
        elif value is not None:
            yield from _noted(_pair(key, value), notes.get(join_path(path, (key,)), ""))
    yield from extra
    for key, value in long.items():
        table = join_path(header or path, (key,))
        yield from _noted(f"[{table}]", notes.get(join_path(path, (key,)), ""))
        yield from (_pair(inner, item) for inner, item in value.items() if item is not None)


def _spare(spare: SpareKey) -> Iterator[str]:
    commented = _pair(spare.key, spare.value).replace("\n", "\n# ")
    yield from _noted(f"# {commented}", spare.why)


def _noted(line: str, note: str) -> Iterator[str]:
    """Yield a line with its note after it if both fit, else with the note above it."""
    comment = _comment(note)
    beside = f"{line:<27} {comment[0]}" if len(comment) == 1 else ""
    if beside and "\n" not in line and len(beside) <= COLUMNS:
        yield beside
    else:
        yield from (*comment, line)


def _pair(key: str, value: Any) -> str:
    """Return `key = value`; a long array gets a line for each element."""
    written = f"{_key(key)} = "
    line = written + _value(value)
    if isinstance(value, list | tuple) and len(line) > COLUMNS:
        elements = "".join(f"    {_value(item)},\n" for item in value)
        line = f"{written}[\n{elements}]"
    return line


def _value(value: Any) -> str:
    """Return plain data as TOML on one line. Raises ValueError for types that TOML lacks."""
    if isinstance(value, Mapping):
        pairs = (f"{_key(k)} = {_value(item)}" for k, item in value.items() if item is not None)
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    return str(tomlkit.item(value).as_string())


def _key(key: str) -> str:
    return tomlkit.key(key).as_string()


def _comment(text: str) -> list[str]:
    """Return a text as comment lines, with spaces for characters that TOML forbids."""
    clean = "".join(char if char.isprintable() else " " for char in text)
    lines = textwrap.wrap(clean, COLUMNS - 2, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in lines]


# The recipe of a workload that has none, with comments on what else may be said in it

NOTES = {
    "measure.budget": "a longer one narrows the interval",
    "measure.pairs": "with more the interval gets narrower",
    "workload.args": "the script's own arguments",
    "workload.loop": "the script trains without fit: its runs are measured as a whole",
}
# Each with the kinds of workload that have it: a script that calls fit, one with a loop of its own,
# which is measured as a whole and reports no metric, or a factory.
_SPARE = (
    (SpareKey("workload", "args", ["--epochs", "5"], "the script's arguments"), "fit loop"),
    (SpareKey("workload", "max_epochs", 2, "cuts each call of fit short, for a quick look"), "fit"),
    (SpareKey("workload", "fit", 2, "judge this call of fit alone, counted from 1"), "fit"),
    (SpareKey("workload", "max_steps", 1000, "each measured run ends after so many updates"),
     "loop"),
    (SpareKey("workload", "isolate", False, "write into the script's folder, not into a copy"),
     "fit loop"),
    (SpareKey("workload", "epochs", 5, "the workload's own number if left out"), "factory"),
    (SpareKey("workload", "batch_size", 32, "over all replicas"), "factory"),
    (SpareKey("workload", "options", {"classes": 5}, "keyword arguments of the factory"),
     "factory"),
    (SpareKey("measure", "pairs", 12, "with more the interval gets narrower"),
     "fit loop factory"),
    (SpareKey("measure", "seconds", "whole", "whole trainings in place of a few seconds"),
     "fit factory"),
    (SpareKey("measure", "attribution", "leave-one-out",
              "measures what each plugin adds, however long it takes"),
     "fit loop factory"),
)  # fmt: skip


def spare_keys(
    workload: Mapping[str, Any], measure: Mapping[str, Any], metric: str
) -> list[SpareKey]:
    """Return further keys of these tables that a recipe may have, with what each is for.

    :param metric: that of quality, "" if the training reports none.
    """
    kind = "fit" if {"script", "module"} & set(workload) else "factory"
    kind = "loop" if workload.get("loop") == "own" else kind
    given = {"workload": workload, "measure": measure}
    spare = [
        key for key, kinds in _SPARE
        if kind in kinds.split() and given[key.table].get(key.key) is None
    ]  # fmt: skip
    if metric and kind != "loop" and measure.get("quality") is None:
        quality = {"metric": metric, "tolerance": 0.005}
        spare.append(SpareKey("measure", "quality", quality, "the metric that must not get worse"))
    return spare
