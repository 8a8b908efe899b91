"""Results whose every name and text comes from somebody who means harm."""

import math

from support.report_results import (
    make_attribution,
    make_comparison,
    make_fit,
    make_results,
    make_run,
)
from tfopt_core.hooks.values import Effect, FoundTable
from tfopt_core.statistics.results import Results
from tfopt_core.training.messages import Block


def hostile_results(text: str) -> Results:
    """A measurement in which this text stands wherever a plugin, a workload, a script or the
    machine may put one."""
    history = {text: (0.1, math.nan, 0.3), "val_accuracy": (0.5, 0.7, 0.8)}
    blocks = tuple(Block(10, 0.1 if n else 2.0, n // 15, "" if n else "trace") for n in range(45))
    fit = make_fit(history=history, metrics={text: 0.3}, blocks=blocks)
    runs = [
        make_run(number, variant, fits=(fit,), effects={text: Effect(number != 3, text)})
        for number, variant in enumerate(["baseline", "full", f"without {text}", "full"] * 2)
    ]
    failed = make_run(8, "full", status="failed", error=text, output_tail=text, fits=())
    table = FoundTable(title=text, columns=(text, "b"), rows=((text, text),))
    return make_results(
        id=text, recipe=text, workload=text, baseline=text, target=text, created_at=text,
        resolved={text: {text: [text, {text: text}]}}, machine={"cpu_model": text, text: text},
        environment={text: text, "tensorflow": text}, runs=(*runs, failed),
        comparison=make_comparison(statement=text),
        attribution=(make_attribution(text, 1.2, text),), warnings=(text,),
        next_steps=(text,), observed={text: Effect(True, text, (table,))}, saved_model=text,
        recipe_toml=text,
    )  # fmt: skip
