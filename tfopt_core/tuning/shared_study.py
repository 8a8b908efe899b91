"""Share a study with other machines: claim trials, take theirs, free those of dead processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

import attrs
from cattrs import Converter

from tfopt_core.errors import StoreError
from tfopt_core.measurement.fingerprint import differences, portable_facts
from tfopt_core.records.settings_search import SettingsTrial, SharedSearch, Values
from tfopt_core.tuning.claimant import Claimant
from tfopt_core.tuning.heartbeat import BEAT_SECONDS, BeatsSeen, Heartbeat
from tfopt_core.tuning.shared_storage import SharedStorage
from tfopt_core.tuning.study import ProposedTrial, Study
from tfopt_core.tuning.tunables import Tunable

# The attributes of a trial in the storage: who makes it, that it is alive, what became of it.
CLAIM, BEAT, ENDED = "tfopt:claim", "tfopt:beat", "tfopt:trial"
# The attribute of a study: what all of its trials depend on.
FACTS = "tfopt:facts"
# What a trial in the storage is. Those that are made count as planned, the others do not.
MADE, KEPT, UNTUNED, REPEAT, FREED = "made", "kept", "untuned", "repeat", "freed"

_converter = Converter()


class SharedStudy(Study):
    """A study in a storage, which all processes with the same facts have in common.

    :param facts: what a trial depends on, and no machine; the study is named by them.
    :param label: the workload in words, to find other searches of it.
    :param claimant: this process.
    :param beats: what was seen of the trials of others.
    """

    def __init__(
        self, space: Sequence[Tunable], *, sampler: str, pruner: str, seed: int, planned: int,
        sign: float = 1.0, storage: SharedStorage, facts: Mapping[str, str], label: str,
        claimant: Claimant, beats: BeatsSeen | None = None, beat_seconds: float = BEAT_SECONDS,
    ) -> None:  # fmt: skip
        self.name = study_name(facts)
        self._storage, self._claimant = storage, claimant
        self._beats, self._beat_seconds = beats or BeatsSeen(), beat_seconds
        self._seen: set[int] = set()
        self._freed = 0
        self._asked: ProposedTrial | None = None
        self._heart: Heartbeat | None = None
        with storage.guarded():
            # a sequence is common to all machines; what is drawn by chance must not be the same
            super().__init__(
                space, sampler=sampler, pruner=pruner, planned=planned, sign=sign, name=self.name,
                seed=_number(self.name) if sampler == "qmc" else seed, storage=storage.optuna,
            )  # fmt: skip
            if FACTS not in self._study.user_attrs:
                self._study.set_user_attr(FACTS, {"label": label, "facts": dict(facts)})
            if not self._trials():
                self._warn_of_others(label, facts)

    def begin_with(self, values: Values) -> None:
        """Have the first trial of all machines try these values, where the ranges hold them."""
        with self._storage.guarded():
            if not self._trials():
                super().begin_with(values)

    def add(self, trial: SettingsTrial, *, untuned: bool = False) -> bool:
        """Add a trial that was made before, unless the storage has it."""
        if not self._holds(trial.values):
            return False
        search = trial.kept_from or self._claimant.search
        kind = UNTUNED if untuned else KEPT if trial.kept_from else MADE
        with self._storage.guarded():
            for one in self._trials():
                values = _noted(one, ENDED).get("values")
                same = one.state.is_finished() and values == dict(trial.values)
                claim = _claim(one)
                # what was freed after its end was noted counts for nobody
                if same and claim.get("search") == search and claim.get("kind") != FREED:
                    self._seen.add(one.number)
                    return True
            self._add_ended(trial, kind, search)
        return True

    def has_room(self, made: int) -> bool:
        """Return whether the machines together have begun fewer trials than are planned."""
        with self._storage.guarded():
            self._free_dead()
            return sum(map(_counts, self._trials())) < self.planned

    def count(self, made: int) -> int:
        """Return how many trials the machines together have ended."""
        with self._storage.guarded():
            return sum(one.state.is_finished() and _counts(one) for one in self._trials())

    def ask(self) -> ProposedTrial | None:
        """Claim the next trial; None if other machines have meanwhile begun the last ones."""
        with self._storage.guarded():
            asked = super().ask()
            assert asked is not None
            self._asked = asked
            number = asked.trial.number
            self._seen.add(number)
            asked.guarded = self._storage.guarded
            asked.trial.set_user_attr(CLAIM, self._claimant.claim(MADE))
            others = [one for one in self._trials() if one.number < number and _counts(one)]
            if len(others) >= self.planned:
                self._end_as(REPEAT)
                return None
            asked.under_way = any(
                not one.state.is_finished() and self._values(one) == asked.values for one in others
            )
        self._heart = Heartbeat(
            lambda beat: asked.trial.set_user_attr(BEAT, beat), self._beat_seconds
        )
        return asked

    def tell(self, asked: ProposedTrial, trial: SettingsTrial) -> None:
        """Store what became of a trial, for all machines."""
        from optuna.exceptions import UpdateFinishedTrialError

        self._stop_heart()
        with self._storage.guarded():
            try:
                asked.trial.set_user_attr(ENDED, _plain(trial))
                super().tell(asked, trial)
            except (UpdateFinishedTrialError, ValueError):
                # this machine was silent for so long that its trial was freed
                self._add_ended(trial, MADE, self._claimant.search)
        self._asked = None

    def repeat(self, asked: ProposedTrial, before: SettingsTrial | None) -> None:
        """Store that these values were tried before, or are being tried by another process."""
        self._stop_heart()
        with self._storage.guarded():
            if before is None:
                self._end_as(REPEAT)
                return
            asked.trial.set_user_attr(CLAIM, self._claimant.claim(REPEAT))
            super().tell(asked, before)
            self._asked = None

    def news(self) -> tuple[SettingsTrial, ...]:
        """Return the trials that other processes have ended since the last call."""
        found = []
        with self._storage.guarded():
            trials = self._trials()
        for one in trials:
            kind = _claim(one).get("kind")
            if one.number in self._seen or not one.state.is_finished():
                continue
            self._seen.add(one.number)
            if kind not in (MADE, KEPT):
                continue
            try:
                trial = _converter.structure(one.user_attrs.get(ENDED), SettingsTrial)
            except Exception:  # what a storage holds may be anything
                self.warnings[f"trial {one.number} of the storage is damaged and left out"] = None
                continue
            if self._holds(trial.values):
                found.append(attrs.evolve(trial, machine=self._machine_of(one)))
        return tuple(found)

    def close(self) -> None:
        """Free the trial that is under way, if there is one, so that another machine makes it."""
        self._stop_heart()
        if self._asked is not None:
            # the storage may be what has failed; then others free it once it is silent
            with contextlib.suppress(StoreError), self._storage.guarded():
                self._free(self._asked.trial)
            self._asked = None

    def shared(self) -> SharedSearch:
        """Return what each machine has done so far."""
        with self._storage.guarded():
            self._free_dead()
            trials = [one for one in self._trials() if _counts(one)]
        made = Counter(self._machine_of(one) for one in trials if one.state.is_finished())
        under_way = Counter(self._machine_of(one) for one in trials if not one.state.is_finished())
        del under_way[""]  # this search's own, which a lost storage may have left there
        return SharedSearch(
            storage=self._storage.shown, study=self.name, made=dict(made),
            under_way=dict(under_way), freed=self._freed,
        )  # fmt: skip

    def _trials(self) -> list[Any]:
        found: list[Any] = self._study.get_trials(deepcopy=False)
        return found

    def _machine_of(self, trial: Any) -> str:
        """Return the machine of a trial in words, "" for this search."""
        return self._claimant.name_of(_claim(trial))

    def _add_ended(self, trial: SettingsTrial, kind: str, search: str) -> None:
        claim = {**self._claimant.claim(kind), "search": search}
        before = len(self._trials())
        self._study.add_trial(self._ended(trial, {CLAIM: claim, ENDED: _plain(trial)}))
        self._seen |= {
            one.number for one in self._trials()[before:] if _claim(one) == claim
        }  # fmt: skip

    def _end_as(self, kind: str) -> None:
        """End the trial that was asked for without a figure."""
        from optuna.trial import TrialState

        assert self._asked is not None
        self._asked.trial.set_user_attr(CLAIM, self._claimant.claim(kind))
        self._study.tell(self._asked.trial, state=TrialState.FAIL)
        self._asked = None

    def _stop_heart(self) -> None:
        if self._heart is not None:
            self._heart.stop()
            self._heart = None

    # Trials of processes that are gone

    def _free_dead(self) -> None:
        for one in self._trials():
            if one.state.name != "RUNNING" or self._is_own(one):
                continue
            claim, beat = _claim(one), one.user_attrs.get(BEAT)
            if self._claimant.is_gone(claim) or self._beats.is_dead(one.number, beat):
                self._freed += 1
                self._free(one)
            elif self._claimant.shares_machine(claim) and claim.get("pid") != self._claimant.pid:
                self.warnings[
                    f"process {claim.get('pid')} of the same search trains on this machine; their "
                    "runs disturb each other"
                ] = None

    def _is_own(self, one: Any) -> bool:
        return self._asked is not None and bool(one.number == self._asked.trial.number)

    def _free(self, one: Any) -> None:
        """End a trial without a figure, and have its values tried again.

        Two processes that free the same one enqueue its values twice; the second is a repeat.
        """
        from optuna.trial import TrialState

        with contextlib.suppress(RuntimeError):  # another process was faster
            storage = self._storage.optuna
            study_id = storage.get_study_id_from_name(self.name)
            trial_id = storage.get_trial_id_from_study_id_trial_number(study_id, one.number)
            storage.set_trial_user_attr(trial_id, CLAIM, {**_claim(one), "kind": FREED})
            self._study.tell(one.number, state=TrialState.FAIL, skip_if_finished=True)
            if one.params:
                self._study.enqueue_trial(dict(one.params))

    # Other searches

    def _warn_of_others(self, label: str, facts: Mapping[str, str]) -> None:
        """Warn of the largest other search of this workload, whose trials do not compare."""
        import optuna

        others = []
        for one in optuna.get_all_study_summaries(self._storage.optuna):
            about = one.user_attrs.get(FACTS, {})
            if one.study_name != self.name and about.get("label") == label and one.n_trials:
                others.append((one.n_trials, one.study_name, about.get("facts", {})))
        if others:
            trials, name, known = max(others, key=lambda other: other[:2])
            why = "; ".join(differences(known, facts))
            self.warnings[
                f'the storage holds {trials} trials of another search of "{label}" ({name}), which '
                f"are not used, since they would not compare: {why}"
            ] = None


def search_facts(
    facts: Mapping[str, str], root: str, plugins: Set[str], *, ranges: Mapping[str, Any],
    metric: str, sign: float,
) -> dict[str, str]:  # fmt: skip
    """Return what machines must have in common to share a search.

    Their stacks may differ: each trial compares with the same stack on the same machine.

    :param facts: what the trials of this machine depend on.
    :param root: the folder of the recipe, whose path may differ on another machine.
    :param plugins: those whose code counts: they are searched, or the recipe names them.
    :param sign: 1 where the metric is better high, -1 where it is better low.
    """
    other_plugins = {
        name
        for name in facts
        if name.startswith('code of plugin "') and name.split('"')[1] not in plugins
    }
    shared = {name: value for name, value in facts.items() if name not in other_plugins}
    return {
        **portable_facts(shared, root),
        "search space": json.dumps(dict(ranges), sort_keys=True),
        "metric": metric,
        "better": "high" if sign > 0 else "low",
    }


def study_name(facts: Mapping[str, str]) -> str:
    """Return the name of the study of some facts: equal names mean equal facts."""
    text = json.dumps(dict(facts), sort_keys=True)
    return f"tfopt-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _number(name: str) -> int:
    return int(name.rpartition("-")[2], 16) % 2**31


def _claim(trial: Any) -> dict[str, Any]:
    return _noted(trial, CLAIM)


def _noted(trial: Any, key: str) -> dict[str, Any]:
    """Return a table that a trial has in the storage, which may hold anything; {} for none."""
    table = trial.user_attrs.get(key)
    return table if isinstance(table, dict) else {}


def _counts(trial: Any) -> bool:
    """Return whether a trial is one of those that are planned: ended, or under way."""
    kind = _claim(trial).get("kind")
    # one that was begun a moment ago has no claim yet
    return kind == MADE or (kind is None and trial.state.name == "RUNNING")


def _plain(trial: SettingsTrial) -> Any:
    return json.loads(json.dumps(_converter.unstructure(attrs.evolve(trial, kept_from=""))))
