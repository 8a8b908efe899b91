"""Draw cases: pieces that mostly fit together, some that plain Keras refuses."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from support.drawn_fits.case import Case, Fit

# The model of each kind of rows; the first ones are drawn most.
MODELS = {
    "plain": (
        "dense()", "dropout()", "normalized()", 'OwnStep("metrics")', 'OwnStep("values")',
        "deep()", "unbuilt()", "penalized()", "noisy()", "counted()", "nested()", "mixed()",
        "TwoOptimizers()", "drawing()",
    ),
    "dict": ('two_inputs("dict")',),
    "tuple": ('two_inputs("tuple")',),
    "outputs": ("two_outputs()",),
    "tokens": ("recurrent()",),
    "images": ("convolutional()",),
    "classes": ("classifier()",),
}  # fmt: skip
OPTIMIZERS = (
    "keras.optimizers.SGD(0.05)", '"adam"', "keras.optimizers.SGD(0.05, momentum=0.9)",
    "keras.optimizers.Adam(0.01)", "keras.optimizers.Adam(0.01, use_ema=True, "
    "ema_overwrite_frequency=3)", "keras.optimizers.SGD(0.05, clipnorm=0.1)",
    "keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.05, 4, 0.5))",
    "keras.optimizers.AdamW(0.01, weight_decay=0.05)", "keras.optimizers.RMSprop(0.01)",
    "keras.optimizers.Adam(0.01, gradient_accumulation_steps=2)",
    "keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True, global_clipnorm=0.2)",
    "keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.05), dynamic_growth_steps=3)",
    "keras.optimizers.Lion(0.003, clipvalue=0.1)", "keras.optimizers.Nadam(Halved())",
)  # fmt: skip
LOSSES = {
    "plain": (
        '"mse"', "keras.losses.MeanSquaredError()", "keras.losses.Huber(delta=0.5)",
        "lambda y, p: tf.reduce_mean(tf.square(y - p), -1)",
    ),
    "classes": (
        "keras.losses.SparseCategoricalCrossentropy(from_logits=True)",
        "keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2)",
    ),
}  # fmt: skip
METRICS = (
    "", 'metrics=["mae"]', "metrics=[Rows()]", "metrics=[Rows(), keras.metrics.MeanSquaredError()]",
    "metrics=[lambda y, p: tf.reduce_mean(tf.abs(y - p))]", "metrics=[Rows(kept=True)]",
    "metrics=[keras.metrics.AUC(num_thresholds=20)]", 'metrics=["accuracy"]',
    'metrics=[Rows()], weighted_metrics=["mae"]',
)  # fmt: skip
BY_CLASS = ("", 'metrics=["accuracy"]', 'metrics=["accuracy", Rows()]')
BY_OUTPUT = ("", 'metrics={"one": ["mae"], "two": [Rows()]}', 'metrics={"two": "mae"}')
CALLBACKS = (
    "Seen()", "SeenBatches()", 'acting("on_epoch_end", keep)',
    'keras.callbacks.EarlyStopping("loss", patience=1, min_delta=0.05, restore_best_weights=True)',
    'keras.callbacks.EarlyStopping("val_loss", patience=0)',
    'keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=0.1)',
    "keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.7)",
    'keras.callbacks.ModelCheckpoint("{epoch}.weights.h5", save_weights_only=True)',
    'keras.callbacks.ModelCheckpoint("b{batch}.weights.h5", save_weights_only=True, save_freq=3)',
    'keras.callbacks.ModelCheckpoint("best.weights.h5", save_weights_only=True, '
    'monitor="loss", save_best_only=True)',
    'keras.callbacks.CSVLogger("log.csv", append=True)', "keras.callbacks.TerminateOnNaN()",
    'acting("on_epoch_end", stop(0))', 'acting("on_train_batch_end", stop(2))',
    'acting("on_epoch_end", fail)', 'acting("on_train_batch_begin", rate)',
    'acting("on_epoch_begin", rate)',
    "freeze()", 'freeze("force")', 'freeze("none")',
    "keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: note('lambda', logs))",
    "keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: note('lambda', logs))",
    'keras.callbacks.BackupAndRestore("backup")',
    'keras.callbacks.ModelCheckpoint("{epoch}.keras")',
    "keras.callbacks.SwapEMAWeights(swap_on_epoch=True)", 'acting("on_epoch_end", clip)',
    'acting("on_train_batch_end", clip)',
    'keras.callbacks.EarlyStopping("loss", start_from_epoch=1, patience=0, min_delta=1.0)',
    'acting("on_epoch_end", recompile)', 'acting("on_epoch_end", shift)',
    'SeenCheckpoint("seen.weights.h5", save_weights_only=True)',
)  # fmt: skip
BETWEEN = (
    'model.get_layer("a").trainable = False',
    'model.get_layer("a").trainable = False; model.train_function = None',
    'model.get_layer("a").trainable = False; model.make_train_function(force=True)',
    "model.optimizer.learning_rate = 0.01",
    'model.save_weights("between.weights.h5"); model.load_weights("between.weights.h5")',
    "other = dense(); other.compile(loss='mse'); other.fit(*rows(12)[:2], verbose=0)",
    "model.reset_metrics()",
    "keras.utils.set_random_seed(5)",
    "model.stop_training = True",
    'model.get_layer("a").trainable = True',
    'model.save("between.keras"); model = keras.models.load_model("between.keras")',
    "keras.backend.clear_session()",
    "tf.random.set_seed(3)",
)
FIRST = (
    'model.get_layer("a").trainable = False',
    "model.make_train_function()",
    "note('evaluated', model.evaluate(vx, vy, batch_size=7, verbose=0))",
    "note('predicted', model.predict(vx, batch_size=3, verbose=0))",
)
# expressions of validation data that can be read again and again
VALIDATION = (
    "(vx, vy)", "slices(vx, vy).batch(6)", "(vx, vy, vw)", "slices(vx, vy, vw).batch(8)",
    "slices(vx, vy).shuffle(20).batch(6)", "slices(vx, vy).batch(6).repeat()",
    "generated(vx, vy).batch(6)", "Batches(vx, vy, size=6)", "slices(vx, vy).cache().batch(4)",
    "batches(vx, vy, size=6, endless=True)",
)  # fmt: skip
FORMS = ("dataset",) * 4 + ("arrays",) * 3 + ("pydataset", "generator")
# a piece that is drawn for one case in so many
SELDOM, RARELY = 6, 15


def _rare(draw: DrawFn, chance: int) -> bool:
    return draw(st.integers(0, chance - 1)) == chance - 1


def _mostly(draw: DrawFn, values: Sequence[str]) -> str:
    """Draw the first value for half of the cases, else any."""
    return values[0] if draw(st.booleans()) else draw(st.sampled_from(values))


@attrs.frozen
class _Data:
    """What the pieces of a case must fit.

    :param kind: of the rows.
    :param form: "arrays", "dataset", "pydataset" or "generator".
    :param parts: the names of the arrays.
    """

    kind: str
    model: str
    form: str
    parts: str
    count: int
    size: int
    train: str = ""
    endless: bool = False
    validation: str = ""


@st.composite
def cases(draw: DrawFn) -> Case:
    """Draw a case."""
    kind = _mostly(draw, tuple(MODELS))
    count, size = draw(st.sampled_from((40, 37, 24, 16))), draw(st.sampled_from((8, 5, 4)))
    dtype = draw(st.sampled_from((', "float64"', ', "uint8"'))) if _rare(draw, 4) else ""
    dtype = "" if kind == "tokens" else dtype
    data = _Data(
        kind=kind,
        model=draw(st.sampled_from(MODELS[kind])),
        form=draw(st.sampled_from(FORMS)),
        parts="x, y, w" if _rare(draw, 4) else "x, y",
        count=count,
        size=size,
        validation=draw(st.sampled_from(VALIDATION)) if draw(st.booleans()) else "",
    )
    train, endless = draw(_train(data))
    data = attrs.evolve(data, train=train, endless=endless)
    fits = draw(st.sampled_from((1, 1, 1, 2, 2, 3)))
    return Case(
        model=data.model,
        compile=draw(_compile(data)),
        fits=tuple(draw(_fit(data, number)) for number in range(fits)),
        rows=f'{count}, "{kind}"{dtype}',
        convert=draw(st.sampled_from(("", "as_tensors"))) if data.form == "arrays" else "",
        train=train,
        validation=data.validation,
        again=(data.form == "generator" and not endless) or _rare(draw, 4),
        seed=draw(st.integers(1, 3)),
        replicas=draw(st.integers(1, 2)) if _rare(draw, RARELY) else 0,
        floatx="float64" if _rare(draw, RARELY) else "",
    )


@st.composite
def _train(draw: DrawFn, data: _Data) -> tuple[str, bool]:
    """Draw an expression of the training data, "" for arrays, and whether they never end."""
    given = f"{data.parts}, size={data.size}"
    options = ["", "", "", ", fresh=True"] if data.kind == "plain" else [""]
    if data.form == "dataset":
        return draw(_dataset(data))
    if data.form == "pydataset":
        return f"Batches({given}{draw(st.sampled_from([*options, ', mixed=True']))})", False
    if data.form == "generator":
        endless = draw(st.booleans())
        return f"batches({given}, endless={endless}{draw(st.sampled_from(options))})", endless
    return "", False


@st.composite
def _compile(draw: DrawFn, data: _Data) -> tuple[str, ...]:
    losses = LOSSES["classes" if data.kind == "classes" else "plain"]
    loss = draw(st.sampled_from(losses))
    if data.kind == "outputs":
        given = [f'loss={{"one": {loss}, "two": "mae"}}', draw(st.sampled_from(BY_OUTPUT))]
    else:
        # a train step that returns values updates no metrics
        metrics = METRICS if data.kind != "classes" else BY_CLASS
        given = [f"loss={loss}", "" if "values" in data.model else draw(st.sampled_from(metrics))]
    given.insert(0, f"optimizer={draw(st.sampled_from(OPTIMIZERS))}")
    if _rare(draw, 4):
        given.append(f"steps_per_execution={draw(st.integers(2, 3))}")
    if _rare(draw, RARELY):
        given.append("run_eagerly=True")
    elif draw(st.booleans()):
        given.append("jit_compile=False")
    if data.kind == "outputs" and _rare(draw, 4):
        given.append('loss_weights={"one": 0.5, "two": 2.0}')
    return tuple(filter(None, given))


@st.composite
def _dataset(draw: DrawFn, data: _Data) -> tuple[str, bool]:
    """Draw a tf.data pipeline, and whether it never ends."""
    first = draw(st.sampled_from(("slices",) * 5 + ("generated", "records", "zipped")))
    if first == "records" and data.kind != "plain":
        first = "slices"
    mapped = ".map(lambda x, *y: (x, *y))" if _rare(draw, 3) else ""
    single = draw(st.lists(_stage(data.kind, batched=False), max_size=3, unique=True))
    behind = draw(st.lists(_stage(data.kind, batched=True), max_size=2, unique=True))
    rest = ", drop_remainder=True" if _rare(draw, 4) else ""
    ending = draw(st.sampled_from(("", "", ".repeat()", ".repeat(2)", ".prefetch(2)")))
    stages = "".join((mapped, *single, f".batch({data.size}{rest})", *behind, ending))
    if ending == ".repeat()":  # what reads ahead begins the next round of a shuffle, or not yet
        stages = re.sub(r"\.prefetch\(\d\)|, num_parallel_calls=2", "", stages)
    return f"{first}({data.parts}){stages}", ending == ".repeat()"


def _stage(kind: str, *, batched: bool) -> SearchStrategy[str]:
    """Return the stages of a pipeline before or behind its batches."""
    whole = "16" if batched else "60"
    stages = [
        f".shuffle({whole}, seed=7)", ".shuffle(5)", f".shuffle({whole})", ".cache()",
        f".shuffle({whole}, seed=7, reshuffle_each_iteration=False)", ".prefetch(1)",
        ".skip(1)", ".take(30)", ".map(lambda *parts: parts, num_parallel_calls=2)",
    ]  # fmt: skip
    if kind in ("plain", "outputs"):
        stages += [
            ".map(lambda x, *y: (x * 2, *y))",
            ".map(lambda x, *y: (tf.cast(x, tf.float32) + tf.random.uniform(()), *y))"
            if kind == "plain" else ".map(lambda x, *y: (tf.cast(x, tf.float32), *y))",
            ".filter(lambda x, *y: tf.reduce_sum(tf.cast(x, tf.float32)) > 0)",
        ]  # fmt: skip
    if kind in ("plain", "images", "classes"):
        stages += [
            ".enumerate().map(lambda index, parts: parts)", ".map(with_noise())",
            ".map(sorted_with_noise())", ".map(with_generator())", ".map(in_python())",
            ".map(drawing_in_python())", ".concatenate(slices(x[:7], y[:7]))", ".shard(2, 0)",
        ]  # fmt: skip
        stages += [".unbatch().batch(6)", ".rebatch(3)"] if batched else [
            ".interleave(lambda *parts: tf.data.Dataset.from_tensors(parts), cycle_length=3)",
            ".apply(paired_with_noise)",
            ".map(lambda x, *y: (tf.cast(x, tf.float32) + tf.random.normal((), seed=3), *y))",
        ]  # fmt: skip
    if kind == "plain" and batched:
        stages.append(".map(lambda x, *y: (tf.sparse.from_dense(x), *y))")
    return st.sampled_from(stages)


@st.composite
def _fit(draw: DrawFn, data: _Data, number: int) -> Fit:
    """Draw a call of `fit` and what stands before it."""
    given = [f"epochs={draw(st.integers(1, 3))}"]
    arrays = data.form == "arrays"
    train = draw(_arrays(data)) if arrays else "train"
    if data.form == "dataset" and _rare(draw, 4):
        train += draw(st.sampled_from(_derived(data)))
    if _rare(draw, SELDOM):
        given[0] = "epochs=4, initial_epoch=2"
    if arrays:
        given.append(f"batch_size={data.size}")
    if data.endless or "repeat()" in train or _rare(draw, 4):
        given.append(f"steps_per_epoch={draw(st.integers(1, -(-data.count // data.size) + 2))}")
    if data.validation:
        given += draw(_validated(data.validation))
    elif _rare(draw, 4 if arrays else 4 * RARELY):
        given.append("validation_split=0.25")
    shuffle = draw(st.sampled_from(("", "", "shuffle=False", 'shuffle="batch"')))
    if shuffle and _rare(draw, 1 if arrays and "batch" not in shuffle else 4):
        given.append(shuffle)
    usual = arrays or data.form == "dataset"
    if _rare(draw, SELDOM if usual and data.kind == "plain" else 2 * RARELY):
        given.append("class_weight={0: 1.0, 1: 3.0}")
    return Fit(
        data=train,
        arguments=tuple(given),
        callbacks=tuple(draw(st.lists(_callback(data), max_size=2, unique=True))),
        before=tuple(draw(_before(data, number))),
        callback_list=_rare(draw, RARELY),
    )


def _derived(data: _Data) -> list[str]:
    """Return what a fit may make of the training data, whose shuffles it shares with the others."""
    derived = [".take(3)", ".map(lambda *parts: parts)", ".unbatch().batch(7)"]
    # what reads ahead begins the next round of a shuffle, or not yet
    ahead = data.endless or ".prefetch(" in data.train or "num_parallel_calls" in data.train
    return derived if ahead else [*derived, ".repeat()"]


@st.composite
def _arrays(draw: DrawFn, data: _Data) -> str:
    """Draw the form of the arrays."""
    given = data.parts.replace(" w", " sample_weight=w")
    if data.kind != "plain" or not _rare(draw, 3):
        return given
    form = draw(st.sampled_from(("as_frame(x), as_frame(y)", "as_sparse(x), y")))
    return given.replace("x, y", form)


@st.composite
def _validated(draw: DrawFn, validation: str) -> list[str]:
    given = ["validation_data=validation"]
    if "repeat()" in validation or "endless" in validation or _rare(draw, 4):
        given.append(f"validation_steps={draw(st.integers(1, 4))}")
    if _rare(draw, SELDOM):
        given.append(f"validation_freq={draw(st.sampled_from(('2', '[1, 3]')))}")
    if validation.startswith("(") and _rare(draw, 3):
        given.append("validation_batch_size=7")
    return given


def _callback(data: _Data) -> SearchStrategy[str]:
    """Return callbacks; some read the training data or the validation data."""
    read = ["evaluate((vx, vy))", "evaluate(slices(vx, vy).batch(4), steps=2)"]
    if data.form == "pydataset":
        read.append("exchange(train)")
    if data.form in ("dataset", "pydataset"):
        read += ["evaluate(train, steps=2)", *([] if data.endless else ["evaluate(train)"])]
    if data.validation.startswith("slices") and "repeat()" not in data.validation:
        read += ["evaluate(validation)", "evaluate(validation, steps=1)"]
    return st.one_of(st.just("Seen()"), st.sampled_from((*CALLBACKS, *read)))


@st.composite
def _before(draw: DrawFn, data: _Data, number: int) -> list[str]:
    """Draw what stands before a fit: mostly nothing, between two fits something for a half."""
    if not (draw(st.booleans()) if number else _rare(draw, 8)):
        return []
    lines = [*FIRST]
    if number:
        lines += [*BETWEEN, f"model.compile({', '.join(draw(_compile(data)))})"]
    lines.append(f"note('batch', model.train_on_batch(*rows(6, {data.kind!r})[:2]))")
    lines.append(f"own_update(model, *rows(6, {data.kind!r})[:2])")
    if data.form in ("dataset", "pydataset"):
        lines.append("note('evaluated', model.evaluate(train, steps=2, verbose=0))")
    if data.form == "dataset":
        lines.append("one_batch(train)")
    return draw(st.lists(st.sampled_from(lines), min_size=1, max_size=2, unique=True))
