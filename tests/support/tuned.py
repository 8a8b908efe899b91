"""Results of searches, made by hand."""

from support.report_results import make_results
from support.simulated_search import plugin
from tfopt_core.tuning.results import BoundStep, NotTried, StackTrial, TrialOutcome, TuneResult


def make_trial(name: str, outcome: TrialOutcome, *, on=(), action="add", **changes) -> StackTrial:
    """A trial of a plugin on top of others."""
    rest = tuple(plugin(one) for one in on)
    given = {
        "action": action, "plugin": name, "stack": (*rest, plugin(name)), "without": rest,
        "outcome": outcome, "reason": "1.30x with it", "seconds": 12.0,
    }  # fmt: skip
    if outcome.measured:
        given |= {"ratio": 1.3, "low": 1.2, "high": 1.41, "confidence": 0.8, "pairs": 2}
    return StackTrial(**{**given, **changes})


def make_tuned(**changes) -> TuneResult:
    """A search that found two plugins, dropped one, and failed with another."""
    given = {
        "id": "20261123-070000-abcd", "recipe": "mine", "workload": "mine.py:build",
        "baseline": "stock fit", "budget_seconds": 900.0,
        "machine": {"cpu_model": "A CPU", "cpu_count": 2},
        "bounds": (BoundStep(stack=(), sentence="60% of a step is compute", shares={}),),
        "trials": (
            make_trial("xla", TrialOutcome.IN),
            make_trial("cache", TrialOutcome.NO_GAIN, on=("xla",), reason="1.01x with it"),
            make_trial("remat", TrialOutcome.OUT_OF_MEMORY, on=("xla",), reason="it ran out"),
            make_trial("prefetch", TrialOutcome.IN, on=("xla",)),
            make_trial("prefetch", TrialOutcome.STAYS, on=("xla",), action="drop"),
        ),
        "not_tried": (NotTried(plugin="tpu", reason="no TPU"),),
        "stack": (plugin("xla", jit=True), plugin("prefetch")),
        "proof": make_results(), "search_seconds": 300.0, "proof_seconds": 100.0,
        "statement": "the search took 300 s",
    }  # fmt: skip
    return TuneResult(**{**given, **changes})
