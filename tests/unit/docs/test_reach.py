"""The table of which optimization reaches which training says what the plugins do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.plugin_drive import machine_with
from tfopt_data.service_local import LocalService

from tfopt_core.data import DataPlan
from tfopt_core.errors import TfoptError
from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.own_loop import why_not_reached
from tfopt_core.plugins import PluginRefused, TrainingOptions
from tfopt_core.testing import make_run, stack_of

PAGE = Path(__file__, "../../../../docs/guide/scripts.md").resolve()
OURS = {n: f[0].load() for n, f in registrations().items() if f[0].distribution == "tfopt"}
NEEDED: dict[str, dict[str, Any]] = {
    "augment": {"layers": ({"layer": "RandomFlip"},)},
    "grappler": {"remapping": False},
    "target-stop": {"metric": "val_loss", "at_most": 0.1},
}


def rows() -> dict[str, list[str]]:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Which optimization")[2]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    return {name.strip("`"): rest for name, *rest in cells}


def test_every_plugin_that_ships_has_a_row() -> None:
    assert sorted(rows()) == sorted(OURS)


@pytest.mark.parametrize("name", OURS)
def test_a_loop_of_the_scripts_own_is_reached_by_what_acts_without_compile_and_fit(name):
    reached = not why_not_reached(OURS[name])
    assert rows()[name][2] == ("yes" if reached else "no")


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", [name for name, row in rows().items() if row[3] in ("yes", "no")])
def test_what_several_replicas_refuse_is_in_the_table(name, monkeypatch):
    """What a plugin refuses because of replicas, it keeps as its reason for `report_effect`."""
    import numpy as np

    def start(*_: Any) -> Any:
        raise PluginRefused("the processes of a service would be started")

    monkeypatch.setattr(LocalService, "start", start)
    plugin = OURS[name](**NEEDED.get(name, {}))
    run = make_run(replicas=2, machine=machine_with((8, 0)), batch_size=4)
    hooks = set(implementations(type(plugin)))
    plan = DataPlan.from_arrays(np.zeros((8, 3), "float32"), np.zeros((8, 1), "float32")).batch(4)
    options = TrainingOptions(optimizer="sgd", loss="mse")
    arguments = {"build_dataset": "train", "configure_training": None}
    for hook, value in (("build_dataset", plan), ("configure_training", options)):
        if hook in hooks and not (name == "resident" and hook == "configure_training"):
            try:
                getattr(stack_of(plugin, **{hook: value}), hook)(run, arguments[hook])
            except TfoptError as refusal:
                run.state_of("refusals")[hook] = str(refusal)
    refused = any(why in repr(run.states) for why in ("replicas", "devices itself"))
    assert refused is (rows()[name][3] == "no")
