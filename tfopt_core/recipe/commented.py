"""The recipe that tfopt writes for a workload, with comments on what else may be said in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfopt_core.recipe.writing import PlannedPlugin, SpareKey, recipe_text

_NOTES = {
    "measure.budget": "longer is surer",
    "measure.pairs": "more are surer",
    "workload.args": "the script's own arguments",
    "workload.loop": "the script trains without fit: its runs are measured as a whole",
}
_SPARE = {
    "script": [
        SpareKey("workload", "args", ["--epochs", "5"], "the script's arguments"),
        SpareKey("workload", "max_epochs", 2, "cuts each call of fit short, for a quick look"),
        SpareKey("workload", "fit", 2, "judge this call of fit alone, counted from 1"),
        SpareKey("workload", "isolate", False, "write into the folder itself"),
    ],
    "own loop": [
        SpareKey("workload", "args", ["--epochs", "5"], "the script's arguments"),
        SpareKey("workload", "max_steps", 1000, "each measured run ends after so many updates"),
        SpareKey("workload", "isolate", False, "write into the folder itself"),
    ],
    "factory": [
        SpareKey("workload", "epochs", 5, "the workload's own number if left out"),
        SpareKey("workload", "batch_size", 32, "over all replicas"),
        SpareKey("workload", "options", {"classes": 5}, "keyword arguments of the factory"),
    ],
    "measure": [
        SpareKey("measure", "pairs", 12, "more than the usual 6 are surer"),
        SpareKey("measure", "seconds", "whole", "whole trainings in place of 5 s of each"),
        SpareKey("measure", "attribution", "leave-one-out", "what each plugin adds, however long"),
        SpareKey("measure", "quality", {"metric": "val_accuracy", "tolerance": 0.005},
                 "what must not get worse; if left out, what the training reports"),
    ],
}  # fmt: skip


def commented_recipe(
    *,
    name: str,
    description: str,
    workload: Mapping[str, Any],
    plugins: Sequence[PlannedPlugin],
    measure: Mapping[str, Any],
    heading: Sequence[str],
) -> str:
    """Return the text of a recipe as `recipe_text` does, with further keys as comments."""
    kind = "script" if {"script", "module"} & set(workload) else "factory"
    own_loop = workload.get("loop") == "own"
    spare = [*_SPARE["own loop" if own_loop else kind], *_SPARE["measure"]]
    given = {"workload": workload, "measure": measure}
    return recipe_text(
        name=name, description=description, workload=workload, plugins=plugins, measure=measure,
        heading=heading, notes=_NOTES,
        spare=[
            key for key in spare
            if given[key.table].get(key.key) is None
            # such a loop is measured as a whole, and reports no metric
            and not (own_loop and key.key in ("seconds", "quality"))
        ],
    )  # fmt: skip
