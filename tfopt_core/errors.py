"""The errors of tfopt.

    TfoptError                    every expected error; `exit_code` is what the command ends with
    ├── InputError                2: something that the user wrote is wrong
    │   ├── RecipeError           a recipe's problems, all at once
    │   ├── PluginLoadError       a named plugin cannot be found or imported
    │   ├── PluginDefinitionError a plugin class breaks the contract of docs/guide/plugins.md
    │   ├── PluginRefused         a plugin says that its settings make no sense here
    │   └── WorkloadError         a factory is missing, raises or returns something else
    ├── PluginError               3: a plugin's hook failed while a run was under way
    ├── PreparationFailed         3: the dry build failed, so no run would have succeeded
    ├── ClusterError              3: the processes of a training did not come together, or apart
    ├── CannotShare               3: a process cannot go on with a task; a new one can carry it out
    └── StoreError                3: the results cannot be kept or read
        └── DamagedMeasurement    what is kept of one measurement is damaged

Whatever is not a `TfoptError` is a bug in tfopt: it shows its traceback and ends with 70. Each
class composes its own message; its attributes hold the facts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import attrs

MESSAGE_LENGTH, MOST_NOTES = 300, 6

# Keras prints parts of its messages in bold.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Where TensorFlow and Keras say in which node of which graph it was, before and after the cause.
_BOILERPLATE = re.compile(
    r"^Graph execution error:$|^Detected at node .*$|^ +File \".*$|^Stack trace for op.*$"
    r"|^\s*\[\[\{\{node .*$|\{\{function_node [^}]*\}\}|\[Op:\w+\](?: name: *)?$",
    re.MULTILINE,
)

# A problem is one line, whatever the names in it: these are where `str.splitlines` ends one.
_LINE_BREAK = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

# What else TensorFlow calls an exhausted resource: these errors of the system, and gRPC's limit.
_OTHER_RESOURCES = (
    *map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOBUFS)),
    "message larger than max",
)

WITH_CUDA = "pip install 'tfopt[and-cuda]'"
# What a message of TensorFlow holds, and what is wrong there and helps; the first that matches
# counts.
_CURES = (
    (
        "Autotuner could not find any supported configs",
        "XLA finds no algorithm in a cuDNN older than 9.24: upgrade it (pip install --upgrade "
        "'nvidia-cudnn-cu12>=9.24,<10'), or train without XLA, for both sides alike, by "
        "compile(jit_compile=False) in your own code",
    ),
    (
        r"Loaded runtime CuDNN library",
        "the cuDNN that was loaded is older than the one TensorFlow was built with: pip install "
        "--upgrade 'nvidia-cudnn-cu12>=9.24,<10', and look for another in LD_LIBRARY_PATH",
    ),
    (
        r"INVALID_PTX|NO_BINARY_FOR_GPU|no kernel image|invalid PTX|option 'gpu-name'",
        "TensorFlow's libraries have no code for this GPU: use one that was built for it",
    ),
    (
        r"libdevice not found|ptxas|PTX compilation provider",
        f"XLA does not find CUDA's compiler: {WITH_CUDA}",
    ),
    (r"DNN library|CUDNN_STATUS", f"cuDNN cannot be used: {WITH_CUDA}"),
    (r"Length for attr 'output_", "a function of the data returns nothing: return the example"),
    (
        r"'OptionalFromValue' Op passed list of length 0",
        "a wrapped train_step returns nothing: return what the step returned",
    ),
)


def cure_of(text: str) -> str | None:
    """Return what is wrong and what helps, for a message of TensorFlow that does not say it."""
    return next((cure for pattern, cure in _CURES if re.search(pattern, text)), None)


def first_line(error: TfoptError | str) -> str:
    """Return the first line of what an error of a trial says, without a place in its recipe, or of
    why a process failed."""
    if isinstance(error, RecipeError):
        return error.problems[0].message
    text = error.cause if isinstance(error, PreparationFailed) else str(error)
    without = "no cause is known" if isinstance(error, str) else type(error).__name__
    return next((line for line in text.splitlines() if line.strip()), without)


def describe(error: BaseException) -> str:
    """An exception in one phrase: its class, the start of its message, its notes, and what helps
    if known.

    TensorFlow's messages hold graphs of dozens of lines; `--debug` shows them whole.
    """
    cure, text = cure_of(str(error)), str(error)
    if len(error.args) > 1 and isinstance(error.args[1], attrs.Attribute):
        text = error.args[0]  # a validator's own words stand first
    message = _in_one_line(_BOILERPLATE.sub("", _COLOUR.sub("", text)))
    notes = getattr(error, "__notes__", None)
    more = [_in_one_line(str(note)) for note in (notes if isinstance(notes, list) else ())]
    # tfopt's own come last
    more = [note[:MESSAGE_LENGTH] for note in more[-MOST_NOTES:]] + ([cure] if cure else [])
    if len(message) > MESSAGE_LENGTH:
        message = f"{message[:MESSAGE_LENGTH]} ..."
    elif more:
        message = message.removesuffix(".")
    phrase = f"raised {type(error).__name__}" + (f": {message}" if message else "")
    return "; ".join((phrase, *more))


def _in_one_line(text: str) -> str:
    return " ".join(_COLOUR.sub("", text).split())


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error; not to one that nothing can be set on, as of a frozen class."""
    with contextlib.suppress(Exception):
        error.add_note(note)


def message_of(error: BaseException) -> str:
    """Return what is printed of an exception: an expected error explains itself."""
    return str(error) if isinstance(error, TfoptError) else describe(error)


def ran_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, on the machine or a device: in the error or in its cause.

    TensorFlow's ResourceExhaustedError also says that a disk is full or that files are too many.
    """
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:  # causes may form a cycle
        seen.add(id(cause))
        if isinstance(cause, MemoryError):
            return True
        if isinstance(cause, TfoptError) and cause.out_of_memory:
            return True
        if any(kind.__name__ == "ResourceExhaustedError" for kind in type(cause).__mro__):
            return not any(words in str(cause) for words in _OTHER_RESOURCES)
        cause = cause.__cause__
    return False


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean "..."?` with the closest of the known words, or an empty string."""
    close = get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f'did you mean "{close[0]}"?' if close else ""


class TfoptError(Exception):
    """An expected error: one or a few lines, no traceback without `--debug`.

    `out_of_memory` says that it was raised because memory ran out, on the machine or a device.
    """

    exit_code = 3
    out_of_memory = False


class InputError(TfoptError):
    """Something that the user wrote is wrong; the message says what to do."""

    exit_code = 2


@attrs.frozen
class Problem:
    """One thing that is wrong in a recipe, with its place and its mend.

    `file` is a path as the user wrote it, or the option's text for a value set by `--set`;
    `line` counts from 1, 0 where there is no line; `path` is the key ("plugins[2].size").
    """

    file: str
    line: int
    path: str
    message: str
    mend: str = ""
    column: int = 0

    def __str__(self) -> str:
        place = self.file
        if self.line:
            place += f":{self.line}"
        if self.column:
            place += f":{self.column}"
        text = f"{place}: "
        if self.path:
            text += f"{self.path}: "
        text += self.message
        if self.mend:
            text += f"; {self.mend}"
        return _LINE_BREAK.sub(lambda sign: ascii(sign[0])[1:-1], text)


class RecipeError(InputError):
    """Every problem of a recipe at once, one a line, as `file:line: path: what; mend`."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class PluginLoadError(InputError):
    """A plugin that was named cannot be found or imported."""

    def __init__(self, plugin: str, cause: str, distribution: str = "", version: str = "") -> None:
        self.plugin, self.cause = plugin, cause
        self.distribution, self.version = distribution, version
        origin = f" (from {distribution} {version})" if distribution else ""
        super().__init__(f'plugin "{plugin}"{origin} cannot be loaded: {cause}')


class PluginDefinitionError(InputError):
    """A plugin class or instance breaks the contract; names plugin, hook and reason."""

    def __init__(self, plugin: str, reason: str, hook: str = "") -> None:
        self.plugin, self.hook, self.reason = plugin, hook, reason
        place = f', hook "{hook}"' if hook else ""
        super().__init__(f'plugin "{plugin}"{place}: {reason}')


class PluginRefused(InputError):
    """Raised by a plugin that will not do what its settings ask for; core adds its name."""

    def __init__(self, reason: str, plugin: str = "") -> None:
        self.plugin, self.reason = plugin, reason
        super().__init__(f'plugin "{plugin}": {reason}' if plugin else reason)

    def named(self, plugin: str) -> PluginRefused:
        """The same refusal under the plugin's name."""
        return self if self.plugin else PluginRefused(self.reason, plugin)


class PluginError(TfoptError):
    """A plugin's hook raised, returned nothing, or returned something of another type.

    :param out_of_memory: whether it raised because memory ran out. Keras removes the cause of what
        is raised within `fit`.
    """

    def __init__(self, plugin: str, hook: str, reason: str, *, out_of_memory: bool = False) -> None:
        self.plugin, self.hook, self.reason = plugin, hook, reason
        self.out_of_memory = out_of_memory
        super().__init__(f'plugin "{plugin}", hook "{hook}": {reason}')


class StageError(TfoptError):
    """A stage of a data plan cannot be built.

    :param stage: the `Stage`, by which the plugin is found that put it there.
    :param place: where its function was written, `file:line`; "" if it has none.
    """

    def __init__(self, stage: Any, reason: str, place: str = "") -> None:
        self.stage = stage
        place = f", {place}," if place else ""
        super().__init__(f"the data stage {stage.describe()}{place} {reason}")


class WorkloadError(InputError):
    """A workload cannot be found, raises while it is built, or is incomplete.

    :param option: the option of the recipe that is wrong, "" if it is none of them.
    """

    def __init__(self, message: str, *, option: str = "") -> None:
        self.option = option
        super().__init__(message)


class PreparationFailed(TfoptError):
    """The dry build failed for a reason that is no bad input: a hook raised, or it was killed.

    :param last_words: the last lines of what the process printed, where they may say more.
    """

    def __init__(self, cause: str, last_words: Sequence[str] = ()) -> None:
        self.cause = cause
        self.last_words = tuple(last_words) if any(map(str.strip, last_words)) else ()
        heading = f"{cause}; its last words:" if self.last_words else cause
        super().__init__("\n".join((heading, *self.last_words)))


class ClusterError(TfoptError):
    """The processes of one training could not join, differ from each other, or lost one another."""


class CannotShare(TfoptError):
    """A process that has carried out a task cannot go on with this one; a new process can."""


class StoreError(TfoptError):
    """The results cannot be kept or read; nothing was overwritten."""


class DamagedMeasurement(StoreError):
    """What is kept of one measurement is damaged; the others of the file can be read.

    `path` is the results file, `cause` says which part is damaged and how.
    """

    def __init__(self, measurement: str, path: str, cause: str) -> None:
        self.measurement, self.path, self.cause = measurement, path, cause
        super().__init__(
            f'measurement "{measurement}" in "{path}" is damaged: {cause}; the other measurements '
            "can be read and nothing was overwritten; measure this one again"
        )
