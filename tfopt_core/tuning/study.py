"""Draw values for trials by Optuna, and have it say which training to end. Imported lazily."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import attrs

from tfopt_core.errors import StoreError
from tfopt_core.extras import check_installed
from tfopt_core.recipe.model import DEFAULT_TRIALS
from tfopt_core.recipe.ranges import Between, SearchRange
from tfopt_core.records.settings_search import SettingsOutcome, SettingsTrial, SharedSearch, Values
from tfopt_core.tuning.tunables import Tunable


def check_optuna() -> None:
    """Check that the library of the search is installed, before minutes of it.

    :raises InputError: with what to do, if it is not.
    """
    check_installed(
        "optuna", "Optuna", extra="tune", needed_by="the search of settings and options"
    )


@attrs.define(eq=False)
class ProposedTrial:
    """A trial that the study asks for: the values to try, then the metric of each epoch.

    `report` returns whether the training should end; larger metrics are better.

    :param under_way: whether another process tries the same values now.
    """

    values: dict[str, Any]
    trial: Any
    under_way: bool = False
    guarded: Callable[[], AbstractContextManager[None]] = nullcontext

    def report(self, metric: float, epoch: int) -> bool:
        """Note the metric after an epoch. Return whether others were better by then.

        A storage that fails ends no training, since the end of the trial says what is wrong with
        it; nor does a trial that was freed, since this machine was silent for long: it counts.
        """
        try:
            with self.guarded():
                self.trial.report(metric, epoch)
                return bool(self.trial.should_prune())
        except StoreError:
            return False


class Study:
    """Optuna's study over some tunables; its figure and its metric are both better high.

    :param seed: of the sampler.
    :param planned: how many trials to make at most.
    :param name: it chooses the brackets of a pruner; "" for one of the seed.
    :param storage: Optuna's storage; None for this process' memory.
    """

    def __init__(
        self, space: Sequence[Tunable], *, sampler: str, pruner: str, seed: int,
        planned: int = DEFAULT_TRIALS, sign: float = 1.0, name: str = "", storage: Any = None,
    ) -> None:  # fmt: skip
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = space
        self._sign = sign
        self.planned = planned
        # sentences on what others have left, each once
        self.warnings: dict[str, None] = {}
        self._distributions = {one.key: _distribution(one.range) for one in space}
        with warnings.catch_warnings():
            # some samplers warn that their place in Optuna may change
            warnings.simplefilter("ignore")
            self._study = optuna.create_study(
                study_name=name or f"tfopt-{seed}",
                storage=storage,
                load_if_exists=True,
                direction="maximize",
                sampler=_sampler(sampler, seed),
                pruner=_pruner(pruner),
            )

    def begin_with(self, values: Values) -> None:
        """Have the first trial try these values, where the ranges hold them all."""
        if self._holds(values):
            self._study.enqueue_trial(dict(values))

    def add(self, trial: SettingsTrial, *, untuned: bool = False) -> bool:
        """Add a trial that was made before. Return whether it is one of these ranges.

        :param untuned: whether it is the training without any changed value, which is not planned.
        """
        if not self._holds(trial.values):
            return False
        self._study.add_trial(self._ended(trial))
        return True

    def has_room(self, made: int) -> bool:
        """Return whether to make a further trial after this process has made so many."""
        return made < self.planned

    def count(self, made: int) -> int:
        """Return how many trials there are where this process has made so many."""
        return made

    def ask(self) -> ProposedTrial | None:
        """Return the next trial to make; None if there is none any more."""
        trial = self._study.ask()
        values = {one.key: _short(_suggested(trial, one), one.range) for one in self._space}
        return ProposedTrial(values, trial)

    def tell(self, asked: ProposedTrial, trial: SettingsTrial) -> None:
        """Say what became of it."""
        if trial.outcome is SettingsOutcome.MEASURED:
            self._study.tell(asked.trial, trial.figure)
        else:
            self._study.tell(asked.trial, state=_state(trial.outcome))

    def repeat(self, asked: ProposedTrial, before: SettingsTrial | None) -> None:
        """Say that these values were tried before, or that another process tries them now."""
        assert before is not None  # a study of this process alone has no other one
        self.tell(asked, before)

    def news(self) -> tuple[SettingsTrial, ...]:
        """Return the trials that other processes have ended since the last call."""
        return ()

    def close(self) -> None:
        """Leave no trial under way."""

    def shared(self) -> SharedSearch | None:
        """Return what several machines have done together; None for a study of this process."""
        return None

    def _holds(self, values: Values) -> bool:
        """Return whether these are values of the whole space, each in its range."""
        return set(values) == {one.key for one in self._space} and all(
            one.range.holds(values[one.key]) for one in self._space
        )

    def _ended(self, trial: SettingsTrial, notes: Mapping[str, Any] | None = None) -> Any:
        """Return a trial that has ended as Optuna has it."""
        import optuna

        state = _state(trial.outcome)
        return optuna.trial.create_trial(
            state=state, params=dict(trial.values),
            distributions={key: self._distributions[key] for key in trial.values},
            value=trial.figure if state == optuna.trial.TrialState.COMPLETE else None,
            intermediate_values={
                epoch: self._sign * metric for epoch, metric in enumerate(trial.epochs)
            },
            user_attrs=dict(notes or {}),
        )  # fmt: skip

    def _values(self, trial: Any) -> dict[str, Any]:
        ranges = {one.key: one.range for one in self._space}
        return {key: _short(value, ranges[key]) for key, value in trial.params.items()}


def _short(value: Any, range_: SearchRange) -> Any:
    """Return a number of a range with four digits, which is as good and fits into a recipe; one
    of a stepped range without the error of its sum."""
    if not isinstance(value, float) or not isinstance(range_, Between):
        return value
    if range_.step is not None:
        return round(value, 12)
    return min(max(float(f"{value:.4g}"), float(range_.low)), float(range_.high))


def _state(outcome: SettingsOutcome) -> Any:
    from optuna.trial import TrialState

    if outcome is SettingsOutcome.MEASURED:
        return TrialState.COMPLETE
    # what trained and was not good enough teaches the sampler, what failed does not
    trained = outcome in (SettingsOutcome.PRUNED, SettingsOutcome.MISSED)
    return TrialState.PRUNED if trained else TrialState.FAIL


def _suggested(trial: Any, one: Tunable) -> Any:
    range_ = one.range
    if not isinstance(range_, Between):
        return trial.suggest_categorical(one.key, range_.values)
    suggest = trial.suggest_int if range_.whole else trial.suggest_float
    step = range_.step or (1 if range_.whole else None)
    return suggest(one.key, range_.low, range_.high, step=step, log=range_.log)


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
