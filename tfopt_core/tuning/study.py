"""Draw values for trials by Optuna, keep the trials in its storage, and have it say which training
to end."""

from __future__ import annotations

import math
import platform
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import attrs
from cattrs import Converter

from tfopt_core.measurement.fingerprint import portable_facts
from tfopt_core.recipe.formats import Between
from tfopt_core.recipe.model import DEFAULT_TRIALS
from tfopt_core.tuning.candidates import Tunable
from tfopt_core.tuning.results import SettingsTrial, SharedSearch, TrialOutcome, Values
from tfopt_core.tuning.search_log import digest
from tfopt_core.tuning.storage import StudyStorage

# The attributes of a trial in the storage: who makes it, and what became of it.
MACHINE, SEARCH, ENDED = "tfopt:machine", "tfopt:search", "tfopt:trial"
# A sampler that proposes what was tried so many times in a row has nothing new.
MOST_REPEATS = 20
TAUGHT = (TrialOutcome.PRUNED, TrialOutcome.MISSED)
_converter = Converter()


@attrs.frozen(eq=False)
class ProposedTrial:
    """A trial that the study asks for, with the values to try."""

    values: dict[str, Any]
    trial: Any

    def report(self, metric: float, epoch: int) -> bool:
        """Note the metric after an epoch, larger is better. Return whether others were better."""
        from optuna.exceptions import UpdateFinishedTrialError

        try:
            self.trial.report(metric, epoch)
            return bool(self.trial.should_prune())
        except UpdateFinishedTrialError:
            return True  # this process was silent for so long that another one makes the trial


class Study:
    """Optuna's study over some tunables, with the trials of all searches of the same name.

    :param seed: of the sampler.
    :param planned: how many trials to make at most: of this search, and of all that share it.
    :param name: what all trials have in common.
    :param search: the id of this search.
    :param storage: where it is kept.
    :param shared: whether other processes make trials of it at the same time.
    :param fresh: whether to drop the trials of earlier searches.
    """

    def __init__(
        self, space: Sequence[Tunable], *, sampler: str, pruner: str, seed: int,
        storage: StudyStorage, planned: int = DEFAULT_TRIALS, name: str = "tfopt",
        search: str = "", shared: bool = False, fresh: bool = False,
    ) -> None:  # fmt: skip
        import optuna

        optuna.logging.set_verbosity(optuna.logging.CRITICAL)
        self._space, self._search, self._shared = space, search, shared
        self.planned, self.name, self._storage = planned, name, storage
        self._known: dict[str, SettingsTrial] = {}
        with storage.guarded(), warnings.catch_warnings():
            # some samplers warn that their place in Optuna may change
            warnings.simplefilter("ignore")
            where = storage.optuna
            if fresh and name in optuna.get_all_study_names(where):
                optuna.delete_study(study_name=name, storage=where)
            self._study = optuna.create_study(
                study_name=name, storage=where, load_if_exists=True, direction="maximize",
                pruner=_pruner(pruner),
            )  # fmt: skip
            # a sequence is common to all processes; what is drawn by chance must not be the same
            seed = int(digest(name), 16) % 2**31 if sampler == "qmc" else seed + len(self._trials())
            self._study.sampler = _sampler(sampler, seed)
            if not shared:
                self._retry_killed()

    def begin_with(self, values: Values) -> None:
        """Have the sampler know the figure of these values, 1 of the untuned ones, where the ranges
        hold them all."""
        if set(values) != {one.key for one in self._space} or not all(
            one.range.holds(values[one.key]) for one in self._space
        ):
            return
        self._known[digest(values)] = SettingsTrial(
            values=values, outcome=TrialOutcome.MEASURED, figure=1.0
        )
        if not self._trials():
            with self._storage.guarded():
                self._study.enqueue_trial(dict(values))

    def has_room(self) -> bool:
        """Return whether to make a further trial."""
        import optuna

        with self._storage.guarded(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is marked as experimental
            optuna.storages.fail_stale_trials(self._study)
            return self.count() < self.planned

    def count(self) -> int:
        """Return how many trials were made or are under way."""
        return sum(map(self._counts, self._trials()))

    def make(self, attempt: Callable[[ProposedTrial], SettingsTrial]) -> SettingsTrial | None:
        """Make the next trial and return it; None if nothing new is proposed any more.

        :param attempt: makes a trial.
        :raises StoreError: if the storage fails.
        """
        from optuna.exceptions import TrialPruned

        made: SettingsTrial | None = None
        lost = False

        def objective(trial: Any) -> float:
            nonlocal made, lost
            values = {one.key: _drawn(trial, one) for one in self._space}
            ended = self._known.get(digest(values))
            trial.set_user_attr(MACHINE, platform.node())
            trial.set_user_attr(SEARCH, self._search)
            if ended is None:
                ended = attempt(ProposedTrial(values, trial))
                lost = True
                trial.set_user_attr(ENDED, _converter.unstructure(ended))
                made, lost = ended, False
            if ended.outcome is TrialOutcome.MEASURED:
                assert ended.figure is not None
                return ended.figure
            # what trained and was not good enough teaches the sampler, what failed does not
            if ended.outcome in TAUGHT:
                raise TrialPruned
            return math.nan

        for _ in range(MOST_REPEATS):
            try:
                with self._storage.guarded():
                    self._study.optimize(objective, n_trials=1)
            except ValueError:
                # a process that was silent for long has lost its trial: another one makes it
                if not lost:
                    raise
                lost = False
            if made is not None:
                self._known[digest(made.values)] = made
                return made
        return None

    def news(self) -> tuple[SettingsTrial, ...]:
        """Return the trials of other searches, and of this one before it was resumed, that were
        not returned before."""
        found = []
        for one in self._trials():
            if not one.state.is_finished() or ENDED not in one.user_attrs:
                continue
            trial = self._with_origin(one)
            is_own = not trial.kept_from
            if digest(trial.values) in self._known or not (is_own or trial.outcome.is_lasting):
                continue
            self._known[digest(trial.values)] = trial
            found.append(trial)
        return tuple(found)

    def shared(self) -> SharedSearch | None:
        """Return what several machines have done together; None for a study of this one alone."""
        if not self._shared:
            return None
        trials = [one for one in self._trials() if self._counts(one)]
        made = [self._with_origin(one).machine for one in trials if one.state.is_finished()]
        return SharedSearch(
            storage=self._storage.shown, study=self.name, made=dict(Counter(made)),
            under_way=len(trials) - len(made),
        )  # fmt: skip

    def _trials(self) -> list[Any]:
        with self._storage.guarded():
            trials: list[Any] = self._study.get_trials(deepcopy=False)
            return trials

    def _counts(self, one: Any) -> bool:
        """Return whether a trial is one of those that are planned: ended, or under way; one with
        values that were tried before is not."""
        ended = one.state.is_finished() and ENDED in one.user_attrs
        own = self._shared or one.user_attrs.get(SEARCH) == self._search
        return bool(own and (ended or one.state.name == "RUNNING"))

    def _retry_killed(self) -> None:
        """Have the trials that were under way when a search was killed tried again."""
        from optuna.trial import TrialState

        for one in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            self._study.tell(one.number, state=TrialState.FAIL)
            if one.params:
                self._study.enqueue_trial(one.params)

    def _with_origin(self, one: Any) -> SettingsTrial:
        """Return the trial that Optuna has, with the search and the machine that made it."""
        search, machine = one.user_attrs.get(SEARCH, ""), one.user_attrs.get(MACHINE, "")
        return attrs.evolve(
            _converter.structure(one.user_attrs[ENDED], SettingsTrial),
            kept_from="" if search == self._search else search,
            machine="" if machine == platform.node() else machine,
        )


def study_facts(facts: Mapping[str, str], root: str, plugins: Set[str]) -> dict[str, str]:
    """Return what machines must have in common to share a search.

    :param facts: what the trials of this machine depend on.
    :param root: the folder of the recipe, whose path may differ on another machine.
    :param plugins: those whose code counts: they are searched, or the recipe names them.
    """
    code = 'code of plugin "'
    return {
        name: value
        for name, value in portable_facts(facts, root).items()
        if not name.startswith(code) or name.split('"')[1] in plugins
    }


def _drawn(trial: Any, one: Tunable) -> Any:
    """Return a value of a range. A number has four digits, which is as good and fits into a recipe;
    one of a stepped range is without the error of its sum."""
    range_ = one.range
    if not isinstance(range_, Between):
        return trial.suggest_categorical(one.key, range_.values)
    if range_.whole:
        step = range_.step or 1
        return trial.suggest_int(one.key, range_.low, range_.high, step=step, log=range_.log)
    value = trial.suggest_float(one.key, range_.low, range_.high, step=range_.step, log=range_.log)
    if range_.step is not None:
        return round(value, 12)
    return min(max(float(f"{value:.4g}"), float(range_.low)), float(range_.high))


def _sampler(name: str, seed: int) -> Any:
    from optuna import samplers

    match name:
        case "tpe":
            return samplers.TPESampler(seed=seed, n_startup_trials=6)
        case "qmc":
            return samplers.QMCSampler(seed=seed, scramble=True)
    return samplers.RandomSampler(seed=seed)


def _pruner(name: str) -> Any:
    from optuna import pruners

    match name:
        case "median":
            return pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=1)
        case "successive-halving":
            return pruners.SuccessiveHalvingPruner()
        case "hyperband":
            return pruners.HyperbandPruner()
    return pruners.NopPruner()
