"""The seven lines of the race: what each trains, and who takes part with which options."""

from __future__ import annotations

import functools
import hashlib
import json
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import attrs

PEERS = Path(__file__).resolve().parent
SHIPPED = PEERS.parents[1] / "recipes"
# The grid is tried for so many epochs on a quarter of the examples, and on at least so many steps.
GRID_EPOCHS, GRID_STEPS, GRID_SHARE = 2, 64, 0.25
# Another precision races beside float32 if it took this much less in the grid.
WORTH_RACING = 0.95


@attrs.frozen
class Line:
    """A training of the race.

    :param what: the training in a few words.
    :param recipes: the stack in float32, and, where another is faster, in any precision.
    :param seconds: about what a contestant takes on two idle cores, and the grids of all peers.
    """

    what: str
    epochs: int
    batch_size: int
    recipes: tuple[str, ...]
    seconds: tuple[float, float]
    measure: str = ""


RESIDENT = '[[plugins]]\nuse = "resident"'
# The plugins of the recipe "lstm".
RECURRENT = (
    RESIDENT + '\nxla = false\n[[plugins]]\nuse = "fused-recurrent"\n'
    '[[plugins]]\nuse = "split-batch"\nxla = false\nown_cores = true'
)

# Those of the recipe "small-cnn", for a line on which nothing was tuned. It cannot be extended
# there, since its measure of quality is an accuracy.
CONVOLUTIONS = (
    '[[plugins]]\nuse = "mixed-precision"\n' + RESIDENT + "\nxla = false\n"
    '[[plugins]]\nuse = "fused-optimizer"\n'
    '[[plugins]]\nuse = "split-batch"\nxla = false\nown_cores = true'
)


def without(recipe: str, plugin: str) -> str:
    """Return a recipe with this plugin left out."""
    own = f'use = "{plugin}"'
    head, *entries = recipe.split("[[plugins]]\n")
    left = [entry for entry in entries if not entry.startswith(own)]
    if len(left) == len(entries):  # of the recipe that this one extends
        left.append(f"{own}\nenabled = false")
    parts = [head.strip(), *(f"[[plugins]]\n{entry.strip()}" for entry in left)]
    return "\n".join(part for part in parts if part)


SMALL_MLP, SMALL_CNN = 'extends = "small-mlp"', 'extends = "small-cnn"'
LINES = {
    "mlp": Line("dense 128-64-10 over 64 numbers", 10, 32, (SMALL_MLP,), (14, 25),
                'quality = { metric = "val_accuracy", tolerance = 0.01, direction = "max" }'),
    "cnn": Line("three convolutions over pictures of 32x32x3", 3, 32,
                (without(SMALL_CNN, "mixed-precision"), SMALL_CNN), (17, 100)),
    "lstm": Line("an LSTM of 64 units over 48 hours of weather", 3, 64,
                 ('extends = "lstm"',), (17, 65)),
    "jpeg": Line("four strided convolutions over a folder of JPEG files", 3, 32,
                 ('extends = "jpeg-folder"', 'extends = "jpeg-folder-bfloat16"'), (16, 110)),
    "transformer": Line("two Transformer blocks of width 64 over 64 tokens", 2, 32,
                        ('extends = "text-transformer"',), (24, 145)),
    "autoencoder": Line("convolutions and transposed convolutions; its stack is that of cnn", 3, 32,
                        (without(CONVOLUTIONS, "mixed-precision"), CONVOLUTIONS), (13, 60)),
    "gru": Line("a GRU of 128 units over characters; a plugin was extended for it", 2, 64,
                (RECURRENT,), (18, 110)),
}  # fmt: skip
RECIPE = """name = "race-{name}"
{extends}
[workload]
factory = "{factories}:{name}"
epochs = {epochs}
batch_size = {batch_size}
{options}
{measure}
{plugins}
"""


@attrs.frozen
class Contestant:
    """A system with its options.

    :param left_out: the plugin that tfopt's last recipe has and this one lacks.
    :param races: False where it only shows what that plugin brings.
    """

    system: str
    options: dict[str, Any]
    left_out: str = ""
    races: bool = True

    @property
    def label(self) -> str:
        """What identifies its runs among all of its line."""
        described = {k: v for k, v in self.options.items() if k != "precision" or not self.is_ours}
        return f"{self.system} " + " ".join(f"{k}={v}" for k, v in sorted(described.items()))

    @property
    def is_ours(self) -> bool:
        """Whether it is tfopt."""
        return self.system == "tfopt"

    @property
    def exact(self) -> bool:
        """Whether it computes in float32."""
        return self.options.get("precision") == "float32"

    @property
    def in_words(self) -> str:
        """Its options as the tables show them."""
        steps = self.options.get("steps_per_execution", 1)
        match self.system:
            case "PyTorch":
                how = ["compiled" if self.options["compiled"] else "eager"]
            case "tfopt":
                how = [_recipe_in_words(str(self.options["recipe"]))]
            case "stock Keras":
                how = ["as `fit` is"]
            case _:
                how = [
                    *(["XLA"] if self.options["jit_compile"] else []),
                    f"{steps} step{'s' * (steps > 1)} a call",
                    *(["cached `tf.data`"] if self.options["pipeline"] == "cached" else []),
                ]
        return ", ".join(how)


def stock() -> Contestant:
    """Return Keras on TensorFlow as `fit` is by default."""
    return Contestant("stock Keras", {
        "jit_compile": False, "steps_per_execution": 1, "precision": "float32",
        "pipeline": "arrays",
    })  # fmt: skip


def grids(smoke: bool = False) -> dict[str, list[Contestant]]:
    """Return what is tried of each peer's own options.

    One step a call is tried in float32 only, and XLA on TensorFlow with cached data and several
    steps a call only, to keep the grid short: these hardly change what XLA computes.
    """
    hand = [
        Contestant("hand-set Keras", {
            "jit_compile": jit, "steps_per_execution": steps, "precision": precision,
            "pipeline": pipeline,
        })
        for jit in (False, True)
        for steps in (32, 1)
        for precision in ("float32", "mixed_bfloat16")
        for pipeline in ("cached", "arrays")
        if (steps == 32 or (not jit and precision == "float32" and pipeline == "cached"))
        and (pipeline == "cached" or not jit)
    ]  # fmt: skip
    jax = [
        Contestant("Keras on JAX", {
            "jit_compile": True, "steps_per_execution": steps, "precision": precision,
            "pipeline": "arrays",
        })
        for steps, precision in ((32, "float32"), (32, "mixed_bfloat16"), (1, "float32"))
    ]  # fmt: skip
    torch = [
        Contestant("PyTorch", {"compiled": compiled, "precision": precision})
        for compiled in (False, True)
        for precision in ("float32", "bfloat16")
    ]
    found = {"hand-set Keras": hand, "Keras on JAX": jax, "PyTorch": torch}
    return {system: grid[:2] for system, grid in found.items()} if smoke else found


def ours(name: str) -> list[Contestant]:
    """Return tfopt's contestants on a line: its recipes, and the last of them once without each of
    its plugins.

    A recipe without its only plugin is stock Keras and not among them.
    """
    recipes = LINES[name].recipes
    plugins = [plugins_of(name, recipe) for recipe in recipes]
    lacks = {plugin: [one for one in plugins[-1] if one != plugin] for plugin in plugins[-1]}
    found = []
    for recipe, precision, has in zip(recipes, ("float32", "any"), plugins, strict=False):
        missing = next((plugin for plugin, left in lacks.items() if left == has), "")
        found.append(
            Contestant("tfopt", {"recipe": recipe, "precision": precision}, left_out=missing)
        )
    for plugin, left in lacks.items():
        if left and left not in plugins:
            recipe = without(recipes[-1], plugin)
            options = {**found[len(recipes) - 1].options, "recipe": recipe}
            found.append(Contestant("tfopt", options, left_out=plugin, races=False))
    return found


@functools.cache
def plugins_of(name: str, recipe: str) -> list[str]:
    """Return the names of a recipe's plugins, in order."""
    from tfopt_core.commands.request import make_request

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.toml"
        path.write_text(recipe_text(name, recipe, 1, None), encoding="utf-8")
        request, _ = make_request(str(path), [], compares=False, keeps=False)
    return [one.name for one in request.plugins]


def recipe_text(name: str, recipe: str, epochs: int, examples: int | None) -> str:
    """Return the whole recipe of a line: a shipped one that is extended, or plugins of its own."""
    first, _, rest = recipe.partition("\n")
    extends, plugins = (first, rest) if first.startswith("extends") else ("", recipe)
    line = LINES[name]
    return RECIPE.format(
        name=name, extends=extends, factories=PEERS / "factories.py", epochs=epochs,
        batch_size=line.batch_size, plugins=plugins,
        options="" if examples is None else f"[workload.options]\nexamples = {examples}",
        measure=f"[measure]\n{line.measure}" if line.measure else "",
    )  # fmt: skip


@functools.cache
def recipes_digest(name: str) -> str:
    """Return what identifies the recipes of a line: what they say, and the shipped ones that they
    extend."""
    recipes = LINES[name].recipes
    shipped = [
        path.read_text(encoding="utf-8") for path in sorted(SHIPPED.glob("*.toml"))
        if any(f'extends = "{path.stem}"' in recipe for recipe in recipes)
    ]  # fmt: skip
    said = json.dumps([tomllib.loads(text) for text in (*recipes, *shipped)], default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:8]


def grid_examples(name: str, examples: int) -> int:
    """Return on how many of the training examples the grid is tried; an eighth as many validate.

    They make whole batches, since a smaller one compiles again.
    """
    eight = 8 * LINES[name].batch_size
    wanted = max(GRID_SHARE * examples, GRID_STEPS * LINES[name].batch_size)
    return max(int(min(examples, wanted) / eight) * eight, min(examples, eight))


def _recipe_in_words(recipe: str) -> str:
    """Return a recipe of a line as the tables show it."""
    names = [f"`{line.split(chr(34))[1]}`" for line in recipe.splitlines() if chr(34) in line]
    if not recipe.startswith("extends"):
        return "plugins " + " + ".join(names) if len(names) > 1 else f"plugin {names[0]}"
    return "recipe " + " without ".join(names)
