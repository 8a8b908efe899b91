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


_BY_GROUP = {
    "Processes": {
        1: ("kill -9 of tfopt",
            "its processes are gone within 2 s; `tfopt apply --resume` repeats only what was "
            "under way, and ends with the same verdict"),
        2: ("kill -9 of a run", '"killed by SIGKILL", and no timing is kept'),
        3: ("the kernel ends a run for want of memory",
            "\"out of memory\" where the control group's counter says so, else \"killed by "
            'SIGKILL (possibly out of memory, peak memory ...)"'),
        4: ("a device's memory runs out", "that variant fails, the others go on"),
        5: ("a crash in native code", "the signal is named, with the stack"),
        6: ("a run hangs",
            "it is ended at its time limit, SIGKILL after SIGTERM, with the stacks of its "
            "threads"),
        7: ("Ctrl-C, once and twice",
            "once: what is done is kept and printed, status 130; twice: at once; no process is "
            "left"),
        8: ("the workload starts processes",
            "none of them is left, not even one with a session of its own"),
    },
    "Files and disks": {
        9: ("the disk is full where results or files go",
            "an error of one line that names the file; earlier results can be read; no torn "
            "file is left"),
        10: ("the disk is full where a cache goes",
             "the run fails and says so, what was written of the cache is removed; its size is "
             "estimated before"),
        11: ("kill -9 while a cache fills", "the next run is not affected"),
        12: ("a crash while a file is written",
             "the file is the old or the new one, never a torn one"),
        13: ("the results' file is damaged",
             "an error that names the file or the measurement; nothing is overwritten, other "
             "measurements can be read"),
        14: ("two tfopt in one project", "both work, or the second says who holds it"),
        15: ("resuming after an edit", "refused, naming what differs: recipe, code or environment"),
        34: ("a cache larger than memory",
             "refused, or moved to the disk, before the run, with the sizes"),
        41: ("a damaged or foreign file where something is kept between runs",
             "it is noticed and made anew, or named; what a run cached no other run reads"),
        48: ("several `tfopt apply` in one project at once",
             "one measures, the others wait and name it; with `--no-wait` they end with status 2"),
        49: ("any operation on the results' file fails, tears or is the last",
             "every run that was stored before can be read, the one under way is whole or not "
             "there"),
        51: ("kill -9 of `tfopt tune`, a disk that is full under its log",
             "its processes are gone; `tfopt tune --resume` makes the trial that was under way, "
             "and keeps the others"),
    },
    "What is measured": {
        16: ("a loss of nan, a metric that is missing",
             "the run is invalid and names metric and epoch; nan is never taken for a figure"),
        17: ("the workload prints junk, or a forged result",
             "results travel on a channel of their own and have a schema"),
        18: ("the system's clock jumps", "durations are not affected"),
        19: ("identical timings", "refused as suspicious"),
        20: ("a plugin that does nothing",
             "is called faster or slower no more often than the level says"),
        35: ("a random operation before a cache",
             "the cache goes before it; a forced one is refused with the operation's name"),
        37: ("data without validation, empty, ragged, of one batch, with weights",
             "it trains, or says what is missing"),
        40: ("memory runs out inside the search of `fit-batch`",
             "a bound of the search, not an error"),
        43: ("the script or factory is edited while it is measured",
             "the measurement ends and names the file; runs from before are kept"),
        50: ("a measured run of a script works with the files of its folder",
             "it finds and changes them as it would unmeasured; the folder itself is left as it "
             "was, and what the run wrote is told"),
        52: ("memory runs out in a trial of `tfopt tune`",
             "that plugin is left out with the reason, and the search goes on"),
    },
    "Plugins": {
        21: ("a plugin fails on import, or exits",
             "one line: plugin, distribution, version, cause; it ends a command only if the "
             "recipe names it"),
        22: ("a plugin aborts on import", "the command survives, and names it"),
        23: ("a plugin is installed and not named",
             "commands on a recipe never import it; those that list plugins do so in a guarded "
             "process"),
        24: ("two plugins of one name", "an error that names both distributions"),
        25: ("a hook returns nothing or something else, is misspelt, raises",
             "an error that names plugin, hook and mend"),
    },
    "Recipes and names": {
        26: ("bad TOML", "file, line and column; status 2"),
        27: ("unknown keys and plugins, wrong types, nan, values out of range",
             'all problems at once, with "did you mean"'),
        28: ("a recipe that leads outside of the project",
             "no key of a recipe says where tfopt writes; names and links lead nowhere else"),
        29: ("a folder that is not tfopt's", "is never written to and never deleted"),
        30: ("pickled or Lambda-bearing files",
             "tfopt unpickles no file, and never turns off the safe mode of Keras"),
        31: ("`<script>` in names and metrics", "inert in the HTML report"),
        32: ("markup and terminal codes in names", "printed as they are"),
        33: ("secrets in the environment", "only an allow-list is recorded"),
        44: ("a recipe that is read from a pipe", "works as a file in the working directory"),
    },
    "The place where it runs": {
        36: ("KERAS_BACKEND=jax, TF_USE_LEGACY_KERAS=1",
             "refused with the reason before TensorFlow starts"),
        42: ("a TensorFlow outside of the supported range",
             "an older one is refused before it is imported, with what installs the right one; "
             "`tfopt doctor` names a newer one"),
        45: ("a home or a project that cannot be written",
             "a home is not needed; for a project an error of one line before anything runs"),
        46: ("a locale that is not UTF-8",
             "the same commands work; signs that it lacks are printed as escapes"),
        47: ("a machine with one CPU", "every command works"),
    },
    "Several processes": {
        38: ("a worker of several dies",
             "the others end within the time limit, and the cause is named"),
        39: ("a port is taken, a worker never comes", "an error within the time limit"),
        53: ("kill -9 of one of two `tfopt tune` on one storage",
             "the other one goes on, and tries its values again; the killed one resumes with all "
             "trials"),
    },
}  # fmt: skip

PROMISES = {
    number: Promise(group, *texts)
    for group, rows in _BY_GROUP.items()
    for number, texts in rows.items()
}
