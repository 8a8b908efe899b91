"""Keep each trial of a search on disk when it ends, and find those of earlier searches.

A journal is a file of JSON lines, each written whole and flushed to the disk before the next trial
begins, so a kill loses the trial under way alone. A last line that a kill has torn is left out. So
is a line that does not match its digest; such lines are counted for a warning, and what they held
is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from cattrs import Converter

from tfopt_core.errors import StoreError
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.records.settings_search import EarnedValue, SettingsOutcome, SettingsTrial
from tfopt_core.records.tuning import StackTrial, TrialOutcome, TunedPlugin

JOURNAL_FILE = "journal.jsonl"
VERSION = 2
# The key of a line's digest, which is over its other keys.
DIGEST = "sha256"
# What another search may take over: a failure may have been the machine's, so it is tried again.
LASTING = frozenset(TrialOutcome) - {TrialOutcome.FAILED, TrialOutcome.OUT_OF_MEMORY}
LASTING_SETTINGS = frozenset(SettingsOutcome) - {
    SettingsOutcome.FAILED, SettingsOutcome.OUT_OF_MEMORY,
}  # fmt: skip

_converter = Converter()


@attrs.frozen(kw_only=True)
class SearchRecord:
    """A search as its journal has it.

    :param target: what was searched for, by which a resume finds it.
    :param facts: what the trials depend on: machine, versions, code, workload, objective.
    :param seconds: what its diagnoses and trials took.
    :param proof: the measurement of its winner, "" if there was none.
    :param damaged: how many lines of its journal are left out, since they are not as they were
        written. Without the first line, target and facts are empty.
    """

    id: str
    target: str
    facts: Mapping[str, str]
    trials: Mapping[str, StackTrial]
    looks: Mapping[str, Diagnosed]
    settings: tuple[SettingsTrial, ...] = ()
    earned: Mapping[str, EarnedValue] = attrs.field(factory=dict)
    seconds: float = 0.0
    resumed: int = 0
    ended: bool = False
    proof: str = ""
    damaged: int = 0


@attrs.define(eq=False)
class Journal:
    """The journal of one search, with what earlier searches of the same facts have left.

    :param own: what this search has done before it was resumed.
    :param earlier: other searches with the same facts, the newest first.
    """

    path: Path
    own: SearchRecord
    earlier: tuple[SearchRecord, ...] = ()
    begun_from: dict[str, None] = attrs.field(factory=dict)
    _added: set[str] = attrs.field(factory=set)

    @classmethod
    def begin(
        cls, folder: Path, target: str, facts: Mapping[str, str],
        earlier: tuple[SearchRecord, ...] = (),
    ) -> Journal:  # fmt: skip
        """Begin the journal of a new search, which is named as its folder.

        :raises StoreError: if it cannot be written.
        """
        own = SearchRecord(id=folder.name, target=target, facts=facts, trials={}, looks={})
        journal = cls(folder / JOURNAL_FILE, own, earlier)
        journal.write_entry({"begin": {"version": VERSION, "target": target, "facts": dict(facts)}})
        return journal

    @classmethod
    def resume(
        cls, folder: Path, own: SearchRecord, earlier: tuple[SearchRecord, ...] = ()
    ) -> Journal:
        """Go on with the journal of a search that was stopped."""
        journal = cls(folder / JOURNAL_FILE, own, earlier, added=set(own.trials))
        journal.write_entry({"resumed": True})
        return journal

    @staticmethod
    def key_of(
        action: str, plugin: str, with_: tuple[TunedPlugin, ...], rest: tuple[TunedPlugin, ...]
    ) -> str:
        """Return the key of a trial: equal keys mean the same two stacks."""
        return _digest([action, plugin, _plain(with_), _plain(rest)])

    def kept(self, key: str) -> StackTrial | None:
        """Return a trial that was made before, None if there is none."""
        if key in self.own.trials:
            return self.own.trials[key]
        for record in self.earlier:
            trial = record.trials.get(key)
            if trial is not None and trial.outcome in LASTING:
                self.begun_from[record.id] = None
                return attrs.evolve(trial, kept_from=trial.kept_from or record.id)
        return None

    def add(self, key: str, trial: StackTrial) -> None:
        """Write a trial, unless this search has it already.

        :raises StoreError: if it cannot be written.
        """
        if key not in self._added:
            self._added.add(key)
            self.write_entry({"trial": {"key": key, **_converter.unstructure(trial)}})

    def looked(self, stack: tuple[TunedPlugin, ...]) -> Diagnosed | None:
        """Return the diagnosis of a stack that was made before, None if there is none."""
        key = _digest(_plain(stack))
        for record in (self.own, *self.earlier):
            if key in record.looks:
                if record is not self.own:
                    self.begun_from[record.id] = None
                return record.looks[key]
        return None

    def add_look(self, stack: tuple[TunedPlugin, ...], diagnosed: Diagnosed) -> None:
        """Write the diagnosis of a stack.

        :raises StoreError: if it cannot be written.
        """
        look = {"key": _digest(_plain(stack)), "diagnosed": _converter.unstructure(diagnosed)}
        self.write_entry({"look": look})

    def settings(self, place: str) -> Iterator[SettingsTrial]:
        """Yield the trials of settings that were made at a place: this search's, then others'."""
        yield from (one for one in self.own.settings if one.place == place)
        for record in self.earlier:
            for trial in record.settings:
                if trial.place == place and trial.outcome in LASTING_SETTINGS:
                    self.begun_from[record.id] = None
                    yield attrs.evolve(trial, kept_from=trial.kept_from or record.id)

    def add_settings(self, trial: SettingsTrial) -> None:
        """Write a trial of settings.

        :raises StoreError: if it cannot be written.
        """
        self.write_entry({"settings": _converter.unstructure(trial)})

    def earned(self, key: str) -> EarnedValue | None:
        """Return what a value earned in this search before it was stopped, None if unknown."""
        return self.own.earned.get(key)

    def add_earned(self, key: str, earned: EarnedValue) -> None:
        """Write what a value earned, unless this search had it before it was stopped.

        :raises StoreError: if it cannot be written.
        """
        if key not in self.own.earned:
            self.write_entry({"earned": {"of": key, "value": _converter.unstructure(earned)}})

    def end(self, proof: str) -> None:
        """Note that the search is over.

        :param proof: the id of the measurement of its winner, "" for none.
        """
        self.write_entry({"end": {"proof": proof}})

    def write_entry(self, entry: Mapping[str, Any]) -> None:
        """Write one line, after a torn one was cut off, and wait until it is on the disk.

        :raises StoreError: if it cannot be written.
        """
        plain = json.loads(json.dumps(entry))  # as it will be read
        line = json.dumps({**plain, DIGEST: _digest(plain)}).encode() + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                os.ftruncate(descriptor, _end_of_whole_lines(descriptor))
                os.lseek(descriptor, 0, os.SEEK_END)
                while line:
                    line = line[os.write(descriptor, line) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            cause = error.strerror or error
            raise StoreError(f'"{self.path}" cannot be written: {cause}') from error


def read_searches(folder: Path) -> tuple[SearchRecord, ...]:
    """Return the searches below a folder, the newest first; those of another version of the
    journal are left out, since each can be made again."""
    found = []
    for path in sorted(folder.glob(f"*/{JOURNAL_FILE}"), reverse=True):
        record = _read(path)
        if record is not None:
            found.append(record)
    return tuple(found)


def damage_in_words(searches: Iterable[SearchRecord]) -> tuple[str, ...]:
    """Return a sentence on each search of which lines are damaged."""
    return tuple(
        f'{one.damaged} line{"s" * (one.damaged > 1)} in the journal of the search "{one.id}" '
        f"{'are' if one.damaged > 1 else 'is'} damaged and left out; those trials are made again"
        for one in searches
        if one.damaged
    )


def _read(path: Path) -> SearchRecord | None:
    """Return the search of a journal; None if it holds no line, or is of another version."""
    trials, looks, seconds, resumed, proof, ended = {}, {}, 0.0, 0, "", False
    settings: list[SettingsTrial] = []
    earned: dict[str, EarnedValue] = {}
    target, facts = "", dict[str, str]()
    lines, damaged = _lines(path), 0
    if not lines:
        return None
    for line in lines:
        try:
            match _entry(line):
                case {"begin": dict(begin)}:
                    if begin["version"] != VERSION:
                        return None
                    target, facts = str(begin["target"]), dict(begin["facts"])
                case {"trial": dict(data)}:
                    key = data.pop("key")
                    trial = _converter.structure(data, StackTrial)
                    trials[key] = trial
                    seconds += 0.0 if trial.kept_from else trial.seconds
                case {"look": {"key": key, "diagnosed": data}}:
                    looks[key] = _converter.structure(data, Diagnosed)
                    seconds += looks[key].seconds
                case {"settings": dict(data)}:
                    settings.append(_converter.structure(data, SettingsTrial))
                    seconds += settings[-1].seconds
                case {"earned": {"of": str(key), "value": data}}:
                    earned[key] = _converter.structure(data, EarnedValue)
                    seconds += earned[key].seconds
                case {"resumed": _}:
                    resumed += 1
                case {"end": {"proof": str(proof)}}:
                    ended = True
        except Exception:  # a line may hold anything in place of a number or a table
            damaged += 1
    return SearchRecord(
        id=path.parent.name, target=target, facts=facts, trials=trials, looks=looks,
        settings=tuple(settings), earned=earned, seconds=seconds, resumed=resumed, ended=ended,
        proof=proof, damaged=damaged,
    )  # fmt: skip


def _lines(path: Path) -> list[bytes]:
    """Return the lines of a journal without a torn last one; none if it cannot be read."""
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except OSError:
        return []


def _entry(line: bytes) -> dict[str, Any]:
    """Return what was written as this line.

    :raises ValueError: if it is not as it was written.
    """
    entry = json.loads(line)
    if not isinstance(entry, dict):
        raise ValueError("it is no table")
    begin = entry.get("begin")
    if isinstance(begin, dict) and begin.get("version", VERSION) != VERSION:
        return entry  # another version may have no digest, or another one
    if entry.pop(DIGEST, None) != _digest(entry):
        raise ValueError("it is not what was written")
    return entry


def _end_of_whole_lines(descriptor: int) -> int:
    """Return the size of a file without a last line that a kill has torn."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    while size:
        start = max(0, size - 65_536)
        tail = os.pread(descriptor, size - start, start)
        newline = tail.rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        size = start
    return 0


def place_of(stack: tuple[TunedPlugin, ...], *more: Any) -> str:
    """Return the key of what settings are searched on: equal keys mean the same training."""
    return _digest([_plain(stack), *more])


def _plain(stack: tuple[TunedPlugin, ...]) -> list[Any]:
    return [[one.name, dict(one.settings)] for one in stack]


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
