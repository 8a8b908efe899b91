"""Draw the training data and the validation data of a case."""

import re

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from support.drawn_fits.model_strategies import OFTEN, SELDOM, rare

# What a map makes of an input `x`, of an example or a batch.
FUNCTIONS = (
    "x * 2", "tf.tanh(x) + tf.reduce_mean(x)", "rescaling(x)", "x * scale",
    "x + table.lookup(tf.cast(x, tf.int32))", "in_python(np.negative, x)",
    # and what draws
    "x + tf.random.normal(tf.shape(x), stddev=0.1)", "x + tf.random.uniform((), seed=4)",
    "tf.sort(x, axis=0) * tf.random.uniform((), 1, 2)", "noise(x, training=True)",
    "tf.cond(tf.random.uniform(()) < 0.5, lambda: x, lambda: -x)", "x + generator.normal(())",
    "in_python(lambda one: one + np.float32(drawer.normal()), x)", "x + scale.assign_add(0.01)",
)  # fmt: skip
# What the functions use and go on with in the next reading.
SHARED = {
    "scale": "tf.Variable(0.5, trainable=False)",
    "noise": "keras.layers.GaussianNoise(0.3, seed=3)",
    "generator": "tf.random.Generator.from_seed(3)",
    "drawer": "np.random.default_rng(5)",
    "rescaling": "keras.layers.Rescaling(0.5, offset=0.1)",
    "table": "tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer("
    "tf.range(-9, 9), tf.range(-9.0, 9.0)), 0.0)",
}
STAGES = (
    ".cache()", ".cache()", '.cache("cached")', ".prefetch(1)", ".skip(1)", ".take(30)",
    ".repeat(2)", ".shuffle(5)", ".shuffle(60)", ".shuffle(60, seed=7)",
    ".shuffle(60, reshuffle_each_iteration=False)",
    ".shuffle(60, seed=7, reshuffle_each_iteration=False)",
    ".map(lambda *parts: parts)", ".map(lambda *parts: parts, num_parallel_calls=2)",
    ".enumerate().map(lambda index, parts: parts)",
    ".filter(lambda *parts: tf.random.uniform(()) < 0.8)",
    ".filter(lambda x, *y: tf.reduce_sum(tf.cast(tf.nest.flatten(x)[0], tf.float32)) > -2)",
    ".enumerate().filter(lambda index, parts: index % 3 != 0).map(lambda index, parts: parts)",
    ".apply(lambda data: data.take(9).concatenate(data.skip(5).take(20)))", ".shard(2, 0)",
    ".apply(lambda data: tf.data.Dataset.sample_from_datasets([data, data.skip(4)], seed=4))",
    ".scan(tf.constant(0.0), lambda seen, x, *y: (seen + 1, (x, *y)))", ".apply(with_noise)",
)  # fmt: skip
OF_EXAMPLES = (
    ".interleave(lambda *parts: tf.data.Dataset.from_tensors(parts), cycle_length=3)",
    ".flat_map(lambda *parts: tf.data.Dataset.from_tensors(parts).repeat(2))",
    ".map(on_inputs(lambda x: x + 0 * tf.debugging.assert_less(x, 9.0)))", ".batch(3).unbatch()",
)  # fmt: skip
OF_BATCHES = (
    ".unbatch().batch(6)", ".rebatch(3)", ".map(on_inputs(lambda x: x - tf.reduce_mean(x, 0)))",
    ".map(on_inputs(lambda x: 0.6 * x + 0.4 * tf.reverse(x, [0])))",
    ".filter(lambda x, *y: tf.shape(tf.nest.flatten(x)[0])[0] > 2)",
)  # fmt: skip
# What most pipelines have, or have not, in this order.
USUAL = (
    ("", ".map(lambda x, *y: (x, *y))", ".map(on_inputs(lambda x: x * 2))"), ("", ".cache()"),
    ("", ".shuffle(60)", ".shuffle(60, seed=7)"),
    ("", ".map(on_inputs(lambda x: x + tf.random.normal(tf.shape(x), stddev=0.1)))"),
)  # fmt: skip
FORMS = ("dataset",) * 5 + ("arrays",) * 3 + ("pydataset", "generator")
ENDINGS = ("", "", "", ".repeat()", ".repeat(2)", ".prefetch(2)", ".prefetch(tf.data.AUTOTUNE)")
# expressions of validation data that can be read again and again
VALIDATION = (
    "(vx, vy)", "slices(vx, vy).batch(6)", "(vx, vy, vw)", "slices(vx, vy, vw).batch(8)",
    "slices(vx, vy).shuffle(20).batch(6)", "slices(vx, vy).batch(6).repeat()",
    "generated(vx, vy).batch(6)", "Batches(vx, vy, size=6)", "slices(vx, vy).cache().batch(4)",
    "batches(vx, vy, size=6, endless=True)", "as_tensors((vx, vy))", "train",
    "slices(vx, vy).map(on_inputs(lambda x: x + tf.random.uniform(()))).batch(5)",
)  # fmt: skip


@attrs.frozen
class Data:
    """What the other pieces of a case must fit.

    :param kind: of the rows.
    :param form: "arrays", "dataset", "pydataset" or "generator".
    :param parts: the names of the arrays.
    """

    kind: str
    form: str
    parts: str
    count: int
    size: int
    train: str = ""
    validation: str = ""

    @property
    def endless(self) -> bool:
        """Whether the training data never end."""
        return self.train.endswith(".repeat()") or "endless=True" in self.train


@st.composite
def data_of(draw: DrawFn, kind: str, usual: bool) -> Data:
    """Draw training data and validation data of a kind of rows.

    :param usual: whether they come as most scripts have them.
    """
    forms = ("dataset", "dataset", "arrays") if usual else FORMS
    data = Data(
        kind=kind,
        form=draw(st.sampled_from(forms)),
        parts="x, y, w" if rare(draw, OFTEN) else "x, y",
        count=draw(st.sampled_from((40, 37, 24, 16))),
        size=draw(st.sampled_from((8, 5, 4))),
    )
    data = attrs.evolve(data, train=draw(_train(data, usual)))
    whole = data.form in ("dataset", "pydataset") and not data.endless
    chosen = [one for one in VALIDATION if whole or one != "train"]
    validation = draw(st.sampled_from(chosen)) if draw(st.booleans()) else ""
    return attrs.evolve(data, validation=validation)


@st.composite
def _train(draw: DrawFn, data: Data, usual: bool) -> str:
    given = f"{data.parts}, size={data.size}"
    options = ["", "", "", ", fresh=True"] if data.kind == "plain" else [""]
    if data.form == "dataset" and usual:
        of_examples = "".join(draw(st.sampled_from(pair)) for pair in USUAL)
        return f"slices({data.parts}){of_examples}.batch({data.size})"
    if data.form == "dataset":
        return draw(_pipeline(data))
    if data.form == "pydataset":
        return f"Batches({given}{draw(st.sampled_from([*options, ', mixed=True']))})"
    if data.form == "generator":
        options += [", failing=24"] if rare(draw, OFTEN) else []
        return f"batches({given}, endless={draw(st.booleans())}{draw(st.sampled_from(options))})"
    return ""


@st.composite
def _pipeline(draw: DrawFn, data: Data) -> str:
    """Draw a tf.data pipeline."""
    sources = ["slices({})"] * 5 + ["generated({})", "gathered({})", "zipped({})"]
    sources += ["records({})"] if data.kind in ("plain", "images", "classes") else []
    sources += ["generated({}, failing=20)"] if rare(draw, OFTEN) else []
    examples = draw(st.lists(_stage(data.kind, OF_EXAMPLES), max_size=3))
    batches = draw(st.lists(_stage(data.kind, OF_BATCHES), max_size=2))
    rest = ", drop_remainder=True" if rare(draw, OFTEN) else ""
    ending = draw(st.sampled_from(ENDINGS))
    stages = "".join((*examples, f".batch({data.size}{rest})", *batches, ending))
    if ending == ".repeat()":  # what reads ahead begins the next round of a shuffle, or not yet
        stages = re.sub(r"\.prefetch\([^)]*\)|, num_parallel_calls=2", "", stages)
    if stages.count(".cache(") > 1:
        stages = stages.replace('.cache("cached")', ".cache()")
    return draw(st.sampled_from(sources)).format(data.parts) + stages


def _stage(kind: str, more: tuple[str, ...]) -> SearchStrategy[str]:
    """Return the stages of a pipeline before or behind its batches."""
    if kind == "tokens":  # numbers that no map may make others
        whole = [one for one in STAGES if "with_noise" not in one]
        return st.sampled_from([*whole, *(one for one in more if "on_inputs" not in one)])
    maps = st.sampled_from(FUNCTIONS).map(lambda one: f".map(on_inputs(lambda x: {one}))")
    return st.one_of(maps, st.sampled_from((*STAGES, *more)))


@st.composite
def data_of_fit(draw: DrawFn, data: Data, number: int) -> str:
    """Draw the positional arguments of a fit."""
    if data.form == "arrays":
        return draw(_arrays(data))
    ends = data.form == "generator" and not data.endless
    train = "make_train()" if number and (ends or rare(draw, OFTEN)) else "train"
    if data.form != "dataset" or not rare(draw, OFTEN):
        return train
    derived = [".take(3)", ".map(lambda *parts: parts)", ".unbatch().batch(7)", ".shuffle(4)"]
    # what reads ahead begins the next round of a shuffle, or not yet
    ahead = data.endless or ".prefetch(" in data.train or "num_parallel_calls" in data.train
    return train + draw(st.sampled_from(derived if ahead else [*derived, ".repeat()"]))


@st.composite
def _arrays(draw: DrawFn, data: Data) -> str:
    if data.kind == "plain" and rare(draw, OFTEN):
        return draw(st.sampled_from(("as_frame(x), as_frame(y)", "as_sparse(x), y")))
    given = data.parts.split(", ")
    if rare(draw, SELDOM):
        given = [f"first({data.count - 9}, {name})" for name in given]
    return ", ".join((*given[:2], *(f"sample_weight={weights}" for weights in given[2:])))


def data_lines(data: Data, dtype: str, convert: str) -> list[str]:
    """Return the lines that make the data: to train on, to validate on, and a few other rows."""
    lines = []
    for names, count in (("x, y, w", data.count), ("vx, vy, vw", 20), ("sx, sy, _", 12)):
        lines.append(f'{names} = rows({count}, "{data.kind}", "{dtype}", seed={count})')
    if convert:
        lines += [f"{name} = {convert}({name})" for name in ("x", "y", "vx", "vy")]
    used = [f"{name} = {value}" for name, value in SHARED.items() if name in data.train]
    made = [f"{name} = {expression}" for name, expression in (
        ("make_train", data.train and f"lambda: {data.train}"),
        ("train", data.train and "make_train()"), ("validation", data.validation),
    ) if expression]  # fmt: skip
    return [*lines, *used, *made]
