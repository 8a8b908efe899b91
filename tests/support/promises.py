"""What tfopt promises on faults and bad input, by number: the rows of docs/reliability.md.

A test that holds one is marked `@pytest.mark.promise(number, injected="the fault, in words")`. The
numbers never change their meaning.
"""

from typing import NamedTuple


class Promise(NamedTuple):
    """What is promised where something goes wrong."""

    group: str
    fault: str
    promise: str


_PROCESSES = "Processes"
_DISK = "Files and disks"
_MEASURING = "What is measured"
_PLUGINS = "Plugins"
_INPUT = "Recipes and names"
_PLACE = "The place where it runs"
_CLUSTER = "Several processes"

PROMISES = {
    1: Promise(
        _PROCESSES,
        "kill -9 of tfopt",
        "its processes are gone within 2 s; `tfopt apply "
        "--resume` repeats only what was under way, and ends with the same verdict",
    ),
    2: Promise(_PROCESSES, "kill -9 of a run", '"killed by SIGKILL", and no timing is kept'),
    3: Promise(
        _PROCESSES,
        "the kernel ends a run for want of memory",
        '"out of memory" where the '
        "control group's counter says so, else \"killed by SIGKILL (possibly out of memory, "
        'peak memory ...)"',
    ),
    4: Promise(_PROCESSES, "a device's memory runs out", "that variant fails, the others go on"),
    5: Promise(_PROCESSES, "a crash in native code", "the signal is named, with the stack"),
    6: Promise(
        _PROCESSES,
        "a run hangs",
        "it is ended at its time limit, SIGKILL after SIGTERM, with the stacks of its threads",
    ),
    7: Promise(
        _PROCESSES,
        "Ctrl-C, once and twice",
        "once: what is done is kept and printed, status 130; twice: at once; no process is left",
    ),
    8: Promise(
        _PROCESSES,
        "the workload starts processes",
        "none of them is left, not even one with a session of its own",
    ),
    9: Promise(
        _DISK,
        "the disk is full where results or files go",
        "an error of one line that "
        "names the file; earlier results can be read; no torn file is left",
    ),
    10: Promise(
        _DISK,
        "the disk is full where a cache goes",
        "the run fails and says so, what was "
        "written of the cache is removed; its size is estimated before",
    ),
    11: Promise(_DISK, "kill -9 while a cache fills", "the next run is not affected"),
    12: Promise(
        _DISK,
        "a crash while a file is written",
        "the file is the old or the new one, never a torn one",
    ),
    13: Promise(
        _DISK,
        "the results' file is damaged",
        "an error that names the file or the "
        "measurement; nothing is overwritten, other measurements can be read",
    ),
    14: Promise(_DISK, "two tfopt in one project", "both work, or the second says who holds it"),
    15: Promise(
        _DISK, "resuming after an edit", "refused, naming what differs: recipe, code or environment"
    ),
    16: Promise(
        _MEASURING,
        "a loss of nan, a metric that is missing",
        "the run is invalid and names metric and epoch; nan is never taken for a figure",
    ),
    17: Promise(
        _MEASURING,
        "the workload prints junk, or a forged result",
        "results travel on a channel of their own and have a schema",
    ),
    18: Promise(_MEASURING, "the system's clock jumps", "durations are not affected"),
    19: Promise(_MEASURING, "identical timings", "refused as suspicious"),
    20: Promise(
        _MEASURING,
        "a plugin that does nothing",
        "is called faster or slower no more often than the level says",
    ),
    21: Promise(
        _PLUGINS,
        "a plugin fails on import, or exits",
        "one line: plugin, distribution, "
        "version, cause; it ends a command only if the recipe names it",
    ),
    22: Promise(_PLUGINS, "a plugin aborts on import", "the command survives, and names it"),
    23: Promise(
        _PLUGINS,
        "a plugin is installed and not named",
        "commands on a recipe never import it; those that list plugins do so in a guarded process",
    ),
    24: Promise(_PLUGINS, "two plugins of one name", "an error that names both distributions"),
    25: Promise(
        _PLUGINS,
        "a hook returns nothing or something else, is misspelt, raises",
        "an error that names plugin, hook and mend",
    ),
    26: Promise(_INPUT, "bad TOML", "file, line and column; status 2"),
    27: Promise(
        _INPUT,
        "unknown keys and plugins, wrong types, nan, values out of range",
        'all problems at once, with "did you mean"',
    ),
    28: Promise(
        _INPUT,
        "a recipe that leads outside of the project",
        "no key of a recipe says where tfopt writes; names and links lead nowhere else",
    ),
    29: Promise(_INPUT, "a folder that is not tfopt's", "is never written to and never deleted"),
    30: Promise(
        _INPUT,
        "pickled or Lambda-bearing files",
        "tfopt unpickles no file, and never turns off the safe mode of Keras",
    ),
    31: Promise(_INPUT, "`<script>` in names and metrics", "inert in the HTML report"),
    32: Promise(_INPUT, "markup and terminal codes in names", "printed as they are"),
    33: Promise(_INPUT, "secrets in the environment", "only an allow-list is recorded"),
    34: Promise(
        _DISK,
        "a cache larger than memory",
        "refused, or moved to the disk, before the run, with the sizes",
    ),
    35: Promise(
        _MEASURING,
        "a random operation before a cache",
        "the cache goes before it; a forced one is refused with the operation's name",
    ),
    36: Promise(
        _PLACE,
        "KERAS_BACKEND=jax, TF_USE_LEGACY_KERAS=1",
        "refused with the reason before TensorFlow starts",
    ),
    37: Promise(
        _MEASURING,
        "data without validation, empty, ragged, of one batch, with weights",
        "it trains, or says what is missing",
    ),
    38: Promise(
        _CLUSTER,
        "a worker of several dies",
        "the others end within the time limit, and the cause is named",
    ),
    39: Promise(
        _CLUSTER, "a port is taken, a worker never comes", "an error within the time limit"
    ),
    40: Promise(
        _MEASURING,
        "memory runs out inside the search of `fit-batch`",
        "a bound of the search, not an error",
    ),
    41: Promise(
        _DISK,
        "a damaged or foreign file where something is kept between runs",
        "it is noticed and made anew, or named; what a run cached no other run reads",
    ),
    42: Promise(
        _PLACE,
        "a TensorFlow outside of the supported range",
        "an older one is refused before "
        "it is imported, with what installs the right one; `tfopt doctor` names a newer one",
    ),
    43: Promise(
        _MEASURING,
        "the script or factory is edited while it is measured",
        "the measurement ends and names the file; runs from before are kept",
    ),
    44: Promise(
        _INPUT, "a recipe that is read from a pipe", "works as a file in the working directory"
    ),
    45: Promise(
        _PLACE,
        "a home or a project that cannot be written",
        "a home is not needed; for a project an error of one line before anything runs",
    ),
    46: Promise(
        _PLACE,
        "a locale that is not UTF-8",
        "the same commands work; signs that it lacks are printed as escapes",
    ),
    47: Promise(_PLACE, "a machine with one CPU", "every command works"),
    48: Promise(
        _DISK,
        "several `tfopt apply` in one project at once",
        "one measures, the others wait and name it; with `--no-wait` they end with status 2",
    ),
    49: Promise(
        _DISK,
        "any operation on the results' file fails, tears or is the last",
        "every run that was stored before can be read, the one under way is whole or not there",
    ),
    50: Promise(
        _MEASURING,
        "a measured run of a script works with the files of its folder",
        "it finds and changes them as it would unmeasured; the folder itself is left as it was, "
        "and what the run wrote is told",
    ),
    51: Promise(
        _DISK,
        "kill -9 of `tfopt tune`, a disk that is full under its log",
        "its processes are gone; `tfopt tune --resume` makes the trial that was under way, and "
        "keeps the others",
    ),
    52: Promise(
        _MEASURING,
        "memory runs out in a trial of `tfopt tune`",
        "that plugin is left out with the reason, and the search goes on",
    ),
    53: Promise(
        _CLUSTER,
        "kill -9 of one of two `tfopt tune` on one storage",
        "the other one goes on, and tries its values again; the killed one resumes with all trials",
    ),
}
