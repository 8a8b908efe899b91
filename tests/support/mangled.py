"""Strategies of hypothesis: data and recipes of which parts are replaced, removed or repeated."""

import copy
import math
from typing import Any

from hypothesis import strategies as st

# What may stand in the place of any value.
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2**63, 10**40, -0.0, 1e308, 5e-324, math.inf, -math.inf, math.nan]),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["faster", "ok", "baseline", "full", "[/red]", "\x1b[2J", "<script>"]),
    st.lists(st.integers(-2, 2), max_size=3),
    st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
)


@st.composite
def mangled(draw: Any, data: Any) -> Any:
    """The data with one to four changes: a value is replaced, removed, or takes another's place."""
    changed = {"": copy.deepcopy(data)}
    for _ in range(draw(st.integers(1, 4))):
        holder, key = draw(st.sampled_from(_places(changed)))
        kind = draw(st.sampled_from(["replace", "replace", "remove", "swap", "repeat"]))
        if kind == "remove" and key != "":
            del holder[key]
        elif kind == "swap":
            other, name = draw(st.sampled_from(_places(changed)))
            holder[key] = copy.deepcopy(other[name])
        elif kind == "repeat" and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[key] = draw(ODD)
    return changed[""]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in the data that holds a value: a table with a key, or a list with an index."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        pairs: Any = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    else:
        return found
    for key, item in pairs:
        found += [(value, key), *_places(item)]
    return found


# What may stand behind a "=" of a recipe, or in the place of a line.
TOKENS = (
    "", "=", "0", "-1", "4", "nan", "-inf", "1e400", "true", '"x"', "'auto'", "[]", "[[]]", "{}",
    "{ a = 1, a = 2 }", "{ metric = 'm' }", '"""', "2020-01-01", "0x" + "f" * 20, "\\", "# x",
    "[workload]", "[[plugins]]", "[plugins]", "[measure.quality]", "[tune]", "extends = 'no.toml'",
    "use = 'cache'", "enabled = false", "a.b.c = 1", "\t", "\ufeff", "\x00", "é = 1",
)  # fmt: skip


@st.composite
def mangled_recipes(draw: Any, text: str) -> str:
    """A recipe of which lines are removed, repeated or changed behind their "="."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        kind = draw(st.sampled_from(["remove", "repeat", "insert", "value", "value", "cut"]))
        if kind == "insert" or not lines:
            lines.insert(at, draw(st.sampled_from(TOKENS)))
        elif kind == "remove":
            del lines[at]
        elif kind == "repeat":
            lines.insert(draw(st.integers(0, len(lines))), lines[at])
        elif kind == "cut":
            lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
        else:
            key = lines[at].partition("=")[0]
            lines[at] = f"{key}= {draw(st.sampled_from(TOKENS) | st.text(max_size=8))}"
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines)
