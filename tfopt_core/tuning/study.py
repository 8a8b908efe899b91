"""Draw values for trials by Optuna, and have it say which training to end. Imported lazily."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import attrs

from tfopt_core.errors import InputError
from tfopt_core.recipe.ranges import Between, SearchRange
from tfopt_core.records.settings_search import SettingsOutcome, SettingsTrial, Values
from tfopt_core.tuning.tunables import Tunable


def check_optuna() -> None:
    """Check that the library of the search is installed, before minutes of it.

    :raises InputError: with what to do, if it is not.
    """
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise InputError(
            "the search of settings and options needs Optuna, which is not installed; run: "
            "pip install 'tfopt[tune]' (or: pip install optuna)"
        ) from None


@attrs.define(eq=False)
class Asked:
    """A trial that the study asks for: the values to try, then the metric of each epoch.

    `report` returns whether the training should end; larger metrics are better.
    """

    values: dict[str, Any]
    trial: Any

    def report(self, metric: float, epoch: int) -> bool:
        """Note the metric after an epoch. Return whether others were better by then."""
        self.trial.report(metric, epoch)
        return bool(self.trial.should_prune())


class Study:
    """Optuna's study over some tunables; its figure and its metric are both better high.

    :param seed: of the sampler.
    """

    def __init__(
        self, space: Sequence[Tunable], *, sampler: str, pruner: str, seed: int, sign: float = 1.0
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = space
        self._sign = sign
        self._distributions = {one.key: _distribution(one.range) for one in space}
        with warnings.catch_warnings():
            # some samplers warn that their place in Optuna may change
            warnings.simplefilter("ignore")
            self._study = optuna.create_study(
                # the name chooses the brackets of a pruner
                study_name=f"tfopt-{seed}",
                direction="maximize",
                sampler=_sampler(sampler, seed),
                pruner=_pruner(pruner),
            )

    def begin_with(self, values: Values) -> None:
        """Have the next trial try these values, where the ranges hold them all."""
        if all(one.key in values and one.range.holds(values[one.key]) for one in self._space):
            self._study.enqueue_trial(dict(values))

    def add(self, trial: SettingsTrial) -> bool:
        """Add a trial that was made before. Return whether it is one of these ranges."""
        import optuna

        values = trial.values
        if set(values) != set(self._distributions) or not all(
            one.range.holds(values[one.key]) for one in self._space
        ):
            return False
        state = _state(trial.outcome)
        self._study.add_trial(
            optuna.trial.create_trial(
                state=state, params=dict(values), distributions=self._distributions,
                value=trial.figure if state == optuna.trial.TrialState.COMPLETE else None,
                intermediate_values={
                    epoch: self._sign * metric for epoch, metric in enumerate(trial.epochs)
                },
            )
        )  # fmt: skip
        return True

    def ask(self) -> Asked:
        """Return the next trial to make."""
        trial = self._study.ask(self._distributions)
        ranges = {one.key: one.range for one in self._space}
        return Asked(
            {key: _short(value, ranges[key]) for key, value in trial.params.items()}, trial
        )

    def tell(self, asked: Asked, trial: SettingsTrial) -> None:
        """Say what became of it."""
        if trial.outcome is SettingsOutcome.MEASURED:
            self._study.tell(asked.trial, trial.figure)
        else:
            self._study.tell(asked.trial, state=_state(trial.outcome))


def _short(value: Any, range_: SearchRange) -> Any:
    """Return a number of a range with four digits, which is as good and fits into a recipe."""
    if not isinstance(value, float) or not isinstance(range_, Between) or range_.step is not None:
        return value
    return min(max(float(f"{value:.4g}"), float(range_.low)), float(range_.high))


def _state(outcome: SettingsOutcome) -> Any:
    from optuna.trial import TrialState

    if outcome is SettingsOutcome.MEASURED:
        return TrialState.COMPLETE
    # what trained and was not good enough teaches the sampler, what failed does not
    trained = outcome in (SettingsOutcome.PRUNED, SettingsOutcome.MISSED)
    return TrialState.PRUNED if trained else TrialState.FAIL


def _distribution(range_: SearchRange) -> Any:
    from optuna import distributions

    if not isinstance(range_, Between):
        return distributions.CategoricalDistribution(range_.values)
    if range_.whole:
        return distributions.IntDistribution(
            int(range_.low), int(range_.high), log=range_.log, step=int(range_.step or 1)
        )
    return distributions.FloatDistribution(
        float(range_.low), float(range_.high), log=range_.log,
        step=None if range_.step is None else float(range_.step),
    )  # fmt: skip


def _sampler(name: str, seed: int) -> Any:
    from optuna import samplers

    match name:
        case "tpe":
            return samplers.TPESampler(seed=seed, n_startup_trials=6)
        case "random":
            return samplers.RandomSampler(seed=seed)
        case "qmc":
            return samplers.QMCSampler(seed=seed, scramble=True)
    raise ValueError(f'no sampler is named "{name}"')


def _pruner(name: str) -> Any:
    from optuna import pruners

    match name:
        case "median":
            return pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=1)
        case "successive-halving":
            return pruners.SuccessiveHalvingPruner()
        case "hyperband":
            return pruners.HyperbandPruner()
        case "none":
            return pruners.NopPruner()
    raise ValueError(f'no pruner is named "{name}"')
