"""Finished measurements made by hand, for tests of what is concluded from two of them."""

import attrs
import tomlkit

from support.measure_runs import make_judgement, make_pairs
from tfopt_core.statistics.results import Results
from tfopt_core.statistics.verdict import compare

BASE = (10.0, 10.1, 9.9, 10.05)
WORKLOAD = {"use": "w", "epochs": 2, "options": {"classes": 5}}
MACHINE = {"cpu_model": "cpu", "cpu_count": 2, "memory_bytes": 8 * 2**30, "gpus": []}
ENVIRONMENT = {"python": "3.12.9", "tensorflow": "2.21.0", "keras": "3.15.0", "numpy": "2.0",
               "OMP_NUM_THREADS": "2"}  # fmt: skip


def make_measured(
    id_, optimized, baseline=BASE, *, runs=None, judgement=None, workload=None, comparison=None,
    fit=None, **changes,
):  # fmt: skip
    """A measurement with these wall times, judged as it would have been.

    :param workload: changes to the recipe's workload.
    :param fit: changes to the fits of the optimized runs.
    :param comparison: changes to what was concluded.
    """
    made = make_pairs(baseline, optimized, **(fit or {})) if runs is None else runs
    concluded = compare(made, judgement or make_judgement())
    results = Results(
        id=id_, recipe="r", recipe_sha256=id_, resolved={"p": {}}, machine=MACHINE,
        environment=ENVIRONMENT, runs=tuple(made), workload="w", baseline="stock fit",
        comparison=attrs.evolve(concluded, **(comparison or {})),
        recipe_toml=tomlkit.dumps({"workload": {**WORKLOAD, **(workload or {})}}),
    )  # fmt: skip
    return attrs.evolve(results, **changes)
