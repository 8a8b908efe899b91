"""Results made by hand, as a measurement would leave them, and pages as text."""

import io
from typing import Any

import attrs
from rich.console import RenderableType

from tfopt_core.hooks.values import Effect
from tfopt_core.report.style.console import make_console
from tfopt_core.statistics.results import (
    Attribution,
    Comparison,
    ComparisonKind,
    MemoryContrast,
    MemoryVerdict,
    Quality,
    QualityVerdict,
    Results,
    Verdict,
)
from tfopt_core.statistics.runs import FitResult, RunResult
from tfopt_core.training.messages import Block
from tfopt_core.trials.request import HookChange, PluginPlan, Prepared


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def show(page: RenderableType, width: int = 80) -> str:
    """The page as it is printed where there is no terminal."""
    stream = io.StringIO()
    make_console(width=width, file=stream, environ={}).print(page)
    return stream.getvalue()


def make_fit(seconds: float = 0.0123, **changes: Any) -> FitResult:
    """A fit of five epochs at so many seconds a step."""
    metrics = {"accuracy": 0.9132, "loss": 0.2381,
               "val_accuracy": 0.9012, "val_loss": 0.2804, "val_data_loss": 0.2804}  # fmt: skip
    fit = FitResult(
        one_time_seconds=1.84, blocks=(Block(10, 10 * seconds),),
        step_seconds=seconds, examples_per_second=32 / seconds, trainable_parameters=421_642,
        epochs=5, steps=9375, epochs_to_target=None, seconds_to_target=None, jit_compile=False,
        metrics=metrics, history={name: (value,) for name, value in metrics.items()},
    )  # fmt: skip
    return attrs.evolve(fit, **changes)


def make_run(number: int, variant: str = "baseline", **changes: Any) -> RunResult:
    """A run that ended well; those with the stack take four fifths of the time."""
    stacked = variant != "baseline"
    run = RunResult(
        id=f"r{number}", variant=variant, round=number // 2, position=number % 2, seed=number // 2,
        status="ok", wall_seconds=(98.4 if stacked else 123.0) + number / 10,
        process_seconds=130.0, peak_rss_bytes=(1340 if stacked else 1198) * 2**20,
        effects={
            "mixed-precision": Effect(True, "12 of 13 layers compute in bfloat16"),
            "cache": Effect(True, "60,000 examples kept in memory after 2 stages"),
        } if stacked else {},
        fits=(make_fit(0.00984 if stacked else 0.0123),),
    )  # fmt: skip
    return attrs.evolve(run, **changes)


def make_quality(**changes: Any) -> Quality:
    """A quality that is not worse."""
    quality = Quality(
        metric="val_accuracy", direction="max", baseline=0.9012, optimized=0.9015,
        difference=0.0003, low=-0.0011, high=0.0017, tolerance=0.005, resolution=0.003,
        certificate=None, verdict=QualityVerdict.NOT_WORSE,
        statement="quality not worse: val_accuracy 0.9012 -> 0.9015 (change -0.0011 to +0.0017, "
        "tolerance 0.005); sampling error of 10,000 examples: 0.0030",
    )  # fmt: skip
    return attrs.evolve(quality, **changes)


def make_comparison(**changes: Any) -> Comparison:
    """A gain of a quarter."""
    comparison = Comparison(
        kind=ComparisonKind.END_TO_END, verdict=Verdict.FASTER, speedup=1.25, low=1.24, high=1.26,
        confidence=0.98, pairs=4, run_ids=tuple(f"r{n}" for n in range(8)), quality=make_quality(),
        statement="faster: 1.25x (98% interval 1.24 to 1.26, 4 pairs)",
    )  # fmt: skip
    return attrs.evolve(comparison, **changes)


def make_memory(**changes: Any) -> MemoryContrast:
    """A third less memory."""
    memory = MemoryContrast(
        figure="peak_rss_bytes", verdict=MemoryVerdict.LIGHTER, ratio=0.61, low=0.58, high=0.64,
        confidence=0.98, pairs=4,
        statement="peak memory lower: 0.61x (98% interval 0.58 to 0.64, 4 pairs)",
    )  # fmt: skip
    return attrs.evolve(memory, **changes)


def make_attribution(plugin: str, figure: float | None, statement: str) -> Attribution:
    """What a plugin contributes, with an interval of two per cent around it."""
    low, high = (None, None) if figure is None else (figure * 0.99, figure * 1.01)
    return Attribution(
        plugin=plugin, left_out=figure, low=low, high=high, run_ids=("r0",),
        statement=f"{plugin}: {statement}",
    )  # fmt: skip


def make_results(**changes: Any) -> Results:
    """Four pairs of a small CNN, a stack of two plugins, all well."""
    results = Results(
        id="m-20260301-7f3a", recipe="fashion-fast", recipe_sha256="ab" * 32,
        resolved={"mixed-precision": {"policy": "mixed_bfloat16", "keep": []},
                  "cache": {"storage": "memory"}},
        machine={"cpu_model": "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "cpu_count": 2,
                 "memory_bytes": 8 * 2**30, "gpus": []},
        environment={"tensorflow": "2.21.0", "keras": "3.12.0", "python": "3.12.9"},
        runs=tuple(make_run(n, "full" if n % 4 in (1, 2) else "baseline") for n in range(8)),
        comparison=make_comparison(), workload="fashion-mnist",
        baseline="stock fit on arrays in memory, shuffled each epoch, batches of 32",
        setup_seconds=14.2, seconds=931.0,
    )  # fmt: skip
    return attrs.evolve(results, **changes)


def make_plan(name: str, **changes: Any) -> PluginPlan:
    """A plugin of a dry build that was asked for nothing and changes nothing."""
    plan = {"settings": {}, "asked": {}, "equivalence": "exact", "summary": "", "changes": ()}
    return PluginPlan(name=name, **{**plan, **changes})


def make_prepared(**changes: Any) -> Prepared:
    """The dry build of the same stack."""
    before = ("source: arrays, 60,000 examples", "map_examples: normalize (deterministic)",
              "shuffle: 60,000, anew each epoch", "batch: 32", "prefetch: 1")  # fmt: skip
    after = (*before[:2], "cache: in memory", *before[2:4], "prefetch: auto")
    prepared = Prepared(
        plugins=(
            PluginPlan(
                name="mixed-precision", asked={"policy": "auto", "keep": []},
                settings={"policy": "mixed_bfloat16", "keep": []}, equivalence="rounding",
                summary="Computes in 16 bits, keeps the weights in 32.",
                changes=(HookChange("configure_precision", None,
                                    ("policy: float32 -> mixed_bfloat16",)),),
            ),
            PluginPlan(
                name="cache", asked={"storage": "memory"}, settings={"storage": "memory"},
                equivalence="exact",
                summary="Keeps what the input pipeline computes alike each epoch.",
                changes=(HookChange("build_dataset", "train", (
                    "cache: in memory, after map_examples", "prefetch: 1 -> prefetch: auto")),
                    HookChange("build_dataset", "validation", ())),
            ),
        ),
        data_before={"train": before, "validation": before[:1]},
        data_after={"train": after, "validation": before[:1]},
        metrics=("accuracy", "val_accuracy"), quality_metric="val_accuracy",
        quality_direction="max", epochs=5, steps_per_epoch=1875, batch_size=32,
        validation_examples=10_000, trainable_parameters=421_642, jit_compile=False,
        policy="mixed_bfloat16",
        baseline="stock fit on arrays in memory, shuffled each epoch, batches of 32",
        versions={"tensorflow": "2.21.0", "keras": "3.12.0"}, seconds=4.21,
    )  # fmt: skip
    return attrs.evolve(prepared, **changes)
