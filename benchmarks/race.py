"""Race tfopt's recipes against stock and hand-set Keras, Keras on JAX, and PyTorch.

    make bench-peers
    .venv/bin/python benchmarks/race.py [--rounds 4] [--only mlp,lstm] [--out docs/peers.md]

Seven trainings: five with recipes that ship, and two ("autoencoder", "gru") on which nothing was
tuned. Every contestant trains the same data, model, optimizer and number of epochs, in a process
of its own, from the same initial weights (tfopt's from its run's seed, as its users' do). First
each peer's own options are tried once and the fastest taken, in float32 and in any precision; then
the chosen ones run in rounds, in an order that is drawn. A row whose loss after the last epoch is
further than 5% from that of stock Keras is void.

The winner's rule, stated beforehand: tfopt is "ahead" of a peer if the 95% interval of the paired
ratios of seconds an epoch (medians from the second epoch on) lies above 1.02, "level" if the
interval holds 1.02 and does not lie below 0.98, else "behind".

Runs are kept in the folder `--store` as they end; the same command goes on where it was.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from options import make_parser
from peers import standings

from tfopt_core.hooks import read_machine

HERE = Path(__file__).resolve().parent
PEERS = HERE / "peers"
GRID_EPOCHS = 3


@attrs.frozen
class Line:
    """A training of the race.

    :param recipes: the stack in float32, and, where another is faster, in any precision.
    """

    epochs: int
    batch_size: int
    recipes: tuple[str, ...]
    smoke: int = 256


RESIDENT = '[[plugins]]\nuse = "resident"\n'
LINES = {
    "mlp": Line(16, 32, ('extends = "small-mlp"',)),
    "cnn": Line(6, 32, ('extends = "small-cnn"\n[[plugins]]\nuse = "mixed-precision"\n'
                        "enabled = false", 'extends = "small-cnn"')),
    "lstm": Line(5, 64, ('extends = "lstm"',)),
    "jpeg": Line(8, 32, ('extends = "jpeg-folder"', 'extends = "jpeg-folder-bfloat16"')),
    "transformer": Line(5, 32, ('extends = "text-transformer"',)),
    "autoencoder": Line(5, 32, (RESIDENT, RESIDENT + '[[plugins]]\nuse = "mixed-precision"\n')),
    "gru": Line(4, 64, (RESIDENT,)),
}  # fmt: skip
RECIPE = """name = "race-{name}"
{extends}
[workload]
factory = "{factories}:{name}"
epochs = {epochs}
batch_size = {batch_size}
{options}
{plugins}
"""


@attrs.frozen
class Contestant:
    """A system with its options; `label` says which in the table."""

    system: str
    options: dict[str, Any]

    @property
    def label(self) -> str:
        """What identifies it among all."""
        return f"{self.system} " + " ".join(f"{k}={v}" for k, v in sorted(self.options.items()))

    @property
    def exact(self) -> bool:
        """Whether it computes in float32."""
        return self.options.get("precision") == "float32"


def stock() -> Contestant:
    """Return Keras on TensorFlow as `fit` is by default."""
    return Contestant("stock Keras", {
        "jit_compile": False, "steps_per_execution": 1, "precision": "float32",
        "pipeline": "arrays",
    })  # fmt: skip


def grids(smoke: bool = False) -> dict[str, list[Contestant]]:
    """Return what is tried of each peer's own options."""
    hand = [
        Contestant("hand-set Keras", {
            "jit_compile": jit, "steps_per_execution": steps, "precision": precision,
            "pipeline": pipeline,
        })
        for jit in (False, True)
        for steps in (1, 32)
        for precision in ("float32", "mixed_bfloat16")
        for pipeline in ("arrays", "cached")
        if steps == 32 or pipeline == "cached"
    ]  # fmt: skip
    jax = [
        Contestant("Keras on JAX", {
            "jit_compile": True, "steps_per_execution": steps, "precision": precision,
            "pipeline": "arrays",
        })
        for steps in (1, 32)
        for precision in ("float32", "mixed_bfloat16")
    ]  # fmt: skip
    torch = [
        Contestant("PyTorch", {"compiled": compiled, "precision": precision})
        for compiled in (False, True)
        for precision in ("float32", "bfloat16")
    ]
    found = {"hand-set Keras": hand, "Keras on JAX": jax, "PyTorch": torch}
    return {system: grid[:1] for system, grid in found.items()} if smoke else found


def ours(name: str) -> list[Contestant]:
    """Return tfopt's contestants on a line."""
    precisions = ("float32", "any")
    return [
        Contestant("tfopt", {"recipe": recipe, "precision": precision})
        for recipe, precision in zip(LINES[name].recipes, precisions, strict=False)
    ]


def recipe_text(name: str, stack: str, epochs: int, examples: int | None) -> str:
    """Return the recipe of a line: a shipped one that is extended, or plugins of its own."""
    extends, plugins = stack.split("\n", 1) if "\n" in stack else (stack, "")
    if not extends.startswith("extends"):
        extends, plugins = "", stack
    return RECIPE.format(
        name=name, extends=extends, factories=PEERS / "factories.py", epochs=epochs,
        batch_size=LINES[name].batch_size, plugins=plugins,
        options="" if examples is None else f"[workload.options]\nexamples = {examples}",
    )  # fmt: skip


@attrs.frozen
class Course:
    """A line made ready: its files, and where its runs are kept.

    :param examples: fewer training examples, None for all.
    """

    name: str
    folder: Path
    peers: Path
    epochs: int
    seed: int
    examples: int | None

    def prepared(self) -> None:
        """Write the arrays and the initial model, unless they are there.

        :raises SystemExit: with what was written to standard error, if that fails.
        """
        if (self.folder / "compiled.json").exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        failed = self._run(sys.executable, "prepare", self._task({"examples": self.examples}, 0))
        if failed:
            sys.exit(f"{self.name} could not be prepared:\n{failed['failed']}")

    def run(self, contestant: Contestant, epochs: int | None = None) -> dict[str, Any]:
        """Return the report of one training; {"failed": why} if it ended without one."""
        options, epochs = contestant.options, epochs or self.epochs
        if contestant.system == "tfopt":
            return self._tfopt(str(options["recipe"]), epochs)
        task = self._task(options, epochs)
        if contestant.system == "PyTorch":
            return self._run(str(self.peers), "with_torch", task)
        backend = "jax" if contestant.system == "Keras on JAX" else "tensorflow"
        python = str(self.peers) if backend == "jax" else sys.executable
        return self._run(python, "with_keras", task, KERAS_BACKEND=backend)

    def _task(self, options: dict[str, Any], epochs: int) -> Path:
        path = self.folder / "task.json"
        path.write_text(json.dumps({
            "line": self.name, "folder": str(self.folder), "epochs": epochs, "seed": self.seed,
            "batch_size": LINES[self.name].batch_size, "started": time.monotonic(),
            "options": options, "out": str(self.folder / "out.json"),
        }), encoding="utf-8")  # fmt: skip
        return path

    def _tfopt(self, stack: str, epochs: int) -> dict[str, Any]:
        recipe = self.folder / "recipe.toml"
        recipe.write_text(recipe_text(self.name, stack, epochs, self.examples), encoding="utf-8")
        (self.folder / "pyproject.toml").touch()
        return self._ended(
            [sys.executable, "-m", "tfopt_core", "train", str(recipe), "--seed", str(self.seed)],
            {"PEERS_STARTED": str(time.monotonic()), "PEERS_REPORT": str(self.folder / "out.json")},
        )

    def _run(self, python: str, module: str, task: Path, **environment: str) -> dict[str, Any]:
        return self._ended([python, "-m", f"peers.{module}", str(task)], environment)

    def _ended(self, command: list[str], environment: dict[str, str]) -> dict[str, Any]:
        out = self.folder / "out.json"
        out.unlink(missing_ok=True)
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self.folder,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(HERE), **environment},
        )  # fmt: skip
        if done.returncode:
            return {"failed": (done.stderr or done.stdout).strip()[-2000:]}
        return dict(json.loads(out.read_text(encoding="utf-8"))) if out.exists() else {}


class Store:
    """What has been run, as one JSON line each, so that a race can go on."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._runs: dict[str, dict[str, Any]] = {}
        for line in lines:
            self._runs.update(json.loads(line))

    def get(self, key: str, run: Any) -> dict[str, Any]:
        """Return the report of this key; run it if there is none."""
        if key not in self._runs:
            self._runs[key] = run()
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({key: self._runs[key]}) + "\n")
        return self._runs[key]


def chosen(course: Course, store: Store) -> list[Contestant]:
    """Return who races: stock, the fastest of each peer's grid in both classes, and tfopt."""
    found = [stock()]
    for system, grid in grids(course.examples is not None).items():
        if system != "hand-set Keras" and not course.peers.exists():
            print(f"  {system}: not raced, there is no {course.peers}", flush=True)
            continue
        tried: dict[str, float] = {}
        for contestant in grid:
            report = store.get(
                f"{course.name} grid {contestant.label}",
                partial(course.run, contestant, GRID_EPOCHS),
            )
            if "epoch_seconds" in report:
                tried[contestant.label] = min(report["epoch_seconds"][1:])
            else:
                print(f"  failed: {contestant.label}: {report.get('failed', '')[-300:]}")
        for exact in (True, False):
            ranked = sorted(
                (c for c in grid if c.label in tried and (c.exact or not exact)),
                key=lambda c: tried[c.label],
            )
            if ranked and ranked[0] not in found:
                found.append(ranked[0])
    return [*found, *ours(course.name)]


def raced(course: Course, rounds: int, store: Store) -> list[standings.Row]:
    """Return the reports of each contestant, one a round, run in an order that is drawn."""
    contestants = chosen(course, store)
    reports: dict[str, list[dict[str, Any]]] = {c.label: [] for c in contestants}
    for number in range(rounds):
        order = random.Random(f"{course.name} {number}").sample(contestants, len(contestants))
        for contestant in order:
            key = f"{course.name} {number} {contestant.label}"
            reports[contestant.label].append(store.get(key, partial(course.run, contestant)))
    return [standings.Row(c.system, c.label, c.exact, tuple(reports[c.label])) for c in contestants]


def main() -> None:
    """Race, and print the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", default=",".join(LINES))
    parser.add_argument("--store", type=Path, default=Path(".tfopt/race"))
    parser.add_argument("--peers", type=Path, default=HERE.parent / ".venv-peers/bin/python")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.smoke:
        options.only, options.rounds = "mlp", 2
    lines, tables = {}, []
    for name in options.only.split(","):
        line = LINES[name]
        course = Course(
            name, (options.store / name).resolve(), options.peers.absolute(),
            2 if options.smoke else line.epochs, 1, line.smoke if options.smoke else None,
        )  # fmt: skip
        course.prepared()
        lines[name] = raced(course, options.rounds, Store(options.store / f"{name}.jsonl"))
        tables.append(standings.table(name, lines[name]))
        print(tables[-1], flush=True)
    text = standings.summary(lines)
    print(text)
    if options.out is not None:
        machine = read_machine()
        where = f"{machine.cpu_model}, {machine.cpu_count} CPUs"
        options.out.write_text(standings.page(tables, text, where), encoding="utf-8")


if __name__ == "__main__":
    main()
