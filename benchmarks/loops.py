"""Measure how much faster small models train with the shipped recipes than with stock `fit`.

    .venv/bin/python benchmarks/loops.py [--pairs 4] [--only mlp,lstm] [--smoke]

Each row is one `tfopt apply`. "steps" compares the mean step from the second epoch on; "whole" the
whole training with tracing and compilation. Bars: MLP 8x, CNN 2x, LSTM 1.7x, Transformer 1.3x
faster steps.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

from measured import applied, pairs_of, speedup, warm_step_seconds
from options import make_parser, positive

HERE = Path(__file__).resolve().parent

# name: (shipped recipe, workload, epochs, batch size, bar)
LINES = {
    "mlp": ("small-mlp", f'factory = "{HERE}/networks.py:mlp"', 24, 32, 8.0),
    "cnn": ("small-cnn", f'factory = "{HERE}/networks.py:cnn"', 6, 32, 2.0),
    "lstm": ("lstm", 'use = "weather"', 6, 64, 1.7),
    "transformer": ("text-transformer", 'use = "stdlib-text"', 3, 32, 1.3),
}
RECIPE = """
    name = "{name}"
    extends = "{base}"
    [workload]
    {workload}
    epochs = {epochs}
    batch_size = {batch_size}
    {options}
    [measure]
    pairs = {pairs}
    seconds = "whole"
    attribution = "off"
    {quality}
"""
# To check that it runs; warm steps come after the first epoch.
SMOKE_EPOCHS, SMOKE_OPTIONS = 2, "[workload.options]\n    examples = 640"
ACCURACY = 'quality = { metric = "val_accuracy", tolerance = 0.02, direction = "max" }'


def recipe_text(name: str, pairs: int, smoke: bool = False) -> str:
    """Return the recipe that measures this model."""
    base, workload, epochs, batch_size, _ = LINES[name]
    return RECIPE.format(
        name=name, base=base, workload=workload, batch_size=batch_size, pairs=pairs,
        epochs=SMOKE_EPOCHS if smoke else epochs, options=SMOKE_OPTIONS if smoke else "",
        quality="" if "use" in workload else ACCURACY,
    )  # fmt: skip


def line(name: str, pairs: int, smoke: bool = False) -> str:
    """Return one row of the table."""
    base, bar = LINES[name][0], LINES[name][-1]
    results = applied(recipe_text(name, pairs, smoke))
    both = pairs_of(results)
    stock = [warm_step_seconds(stock) for stock, _ in both]
    stack = [warm_step_seconds(full) for _, full in both]
    whole = speedup([b["wall_seconds"] for b, _ in both], [f["wall_seconds"] for _, f in both])
    quality = results["comparison"]["quality"] or {}
    return (
        f"{name:<13}{base:<18}{mean(stock) * 1e3:9.3f}{mean(stack) * 1e3:9.3f}  "
        f"{speedup(stock, stack):<21}{bar:>4}x  {whole:<20}  {quality.get('statement', '')}"
    )


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--pairs", type=positive, default=4)
    parser.add_argument("--only", default=",".join(LINES))
    options = parser.parse_args()
    if options.smoke:
        options.only = "mlp"
    print(f"{'model':<13}{'recipe':<18}{'stock ms':>9}{'stack ms':>9}  {'steps (95%)':<21}"
          f"{'bar':>5}  {'whole (95%)':<20}  quality")  # fmt: skip
    for name in options.only.split(","):
        print(line(name, options.pairs, options.smoke), flush=True)


if __name__ == "__main__":
    main()
