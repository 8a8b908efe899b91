"""What `tfopt train --adapt` prints of the loops."""

from __future__ import annotations

import io

from rich.console import Console

from tfopt_core.records.in_run import Adapted, InRun, InRunVerdict
from tfopt_core.report.training import render_adapted


def printed(adapted):
    console = Console(file=io.StringIO(), width=60)
    console.print(render_adapted(adapted))
    return console.file.getvalue()


def test_every_contrast_what_was_left_out_and_what_is_kept():
    contrast = InRun(
        alternative="4 steps a call", reference="1 step a call", verdict=InRunVerdict.FASTER,
        speedup=3.1, statement="in-run: 4 steps a call is 3.10x faster a step than 1 step a call",
    )  # fmt: skip
    adapted = Adapted(
        reference="1 step a call", kept="4 steps a call", reason="the largest gain that is sure",
        contrasts=(contrast,), left_out=("XLA not tried: why",), seconds=3.2, steps=1_204,
        total_steps=20_000,
    )  # fmt: skip
    text = printed(adapted)
    said = " ".join(text.split())
    assert said.startswith("loop in-run: 4 steps a call is 3.10x faster a step than 1 step a call")
    assert "XLA not tried: why" in said
    assert "kept: 4 steps a call (the largest gain that is sure)" in said
    assert "comparing took 3.20 s of training and 1,204 of 20,000 steps" in said
    assert text.count("loop") == 1


def test_nothing_to_adapt_is_said_once():
    reason = "nothing to adapt: the model runs eagerly"
    adapted = Adapted(
        reference="1 step a call", kept="1 step a call", reason=reason, left_out=(reason,)
    )
    assert " ".join(printed(adapted).split()) == f"loop {reason}"
