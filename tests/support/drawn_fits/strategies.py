"""Draw cases: pieces that mostly fit together, some that plain Keras refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from support.drawn_fits.case import Case, Fit

# The model of each kind of rows; the first ones are drawn most.
MODELS = {
    "plain": (
        "dense()", "dropout()", "normalized()", 'OwnStep("metrics")', 'OwnStep("values")',
    ),
    "dict": ('two_inputs("dict")',),
    "tuple": ('two_inputs("tuple")',),
    "outputs": ("two_outputs()",),
    "tokens": ("recurrent()",),
}  # fmt: skip
OPTIMIZERS = (
    "keras.optimizers.SGD(0.05)", '"adam"', "keras.optimizers.SGD(0.05, momentum=0.9)",
    "keras.optimizers.Adam(0.01)", "keras.optimizers.Adam(0.01, use_ema=True, "
    "ema_overwrite_frequency=3)", "keras.optimizers.SGD(0.05, clipnorm=0.1)",
    "keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.05, 4, 0.5))",
)  # fmt: skip
METRICS = (
    "", 'metrics=["mae"]', "metrics=[Rows()]", "metrics=[Rows(), keras.metrics.MeanSquaredError()]",
    "metrics=[lambda y, p: tf.reduce_mean(tf.abs(y - p))]", "metrics=[Rows(kept=True)]",
    "metrics=[keras.metrics.AUC(num_thresholds=20)]", 'metrics=["accuracy"]',
    'metrics=[Rows()], weighted_metrics=["mae"]',
)  # fmt: skip
BY_OUTPUT = ("", 'metrics={"one": ["mae"], "two": [Rows()]}', 'metrics={"two": "mae"}')
CALLBACKS = (
    "Seen()", "SeenBatches()", "Keep()",
    'keras.callbacks.EarlyStopping("loss", patience=1, min_delta=0.05, restore_best_weights=True)',
    'keras.callbacks.EarlyStopping("val_loss", patience=0)',
    'keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=0.1)',
    "keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.7)",
    'keras.callbacks.ModelCheckpoint("{epoch}.weights.h5", save_weights_only=True)',
    'keras.callbacks.ModelCheckpoint("b{batch}.weights.h5", save_weights_only=True, save_freq=3)',
    'keras.callbacks.ModelCheckpoint("best.weights.h5", save_weights_only=True, '
    'monitor="loss", save_best_only=True)',
    'keras.callbacks.CSVLogger("log.csv", append=True)', "keras.callbacks.TerminateOnNaN()",
    "Stop(0)", "StopAtBatch(2)", "Fail()", "RatePerBatch()", "RatePerEpoch()",
    "Freeze()", 'Freeze(trace="force")', 'Freeze(trace="none")',
    "keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: note('lambda', logs))",
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
)
# from here on, a piece that is drawn for one case in so many
SELDOM, RARELY = 6, 15


def _rare(draw: DrawFn, chance: int) -> bool:
    return draw(st.integers(0, chance - 1)) == chance - 1


def _mostly(draw: DrawFn, values: Sequence[str]) -> str:
    """Draw the first value for half of the cases, else any."""
    return values[0] if draw(st.booleans()) else draw(st.sampled_from(values))


@st.composite
def cases(draw: DrawFn) -> Case:
    """Draw a case."""
    kind = _mostly(draw, ("plain", "dict", "tuple", "outputs", "tokens"))
    model = draw(st.sampled_from(MODELS[kind]))
    count, size = draw(st.sampled_from((40, 37, 24, 16))), draw(st.sampled_from((8, 5, 4)))
    rows = f'{count}, "{kind}"' + _dtype(draw, kind)
    form = draw(_form(kind))
    weighted = "own" not in model.lower() and _rare(draw, 4)
    parts = "x, y, w" if weighted else "x, y"
    train, endless, counted = "", False, form == "arrays"
    if form == "dataset":
        train, endless = draw(_dataset(kind, parts, size))
    elif form == "pydataset":
        train = f"Batches({parts}, size={size}" + draw(st.sampled_from(
            (")", ", mixed=True)", ", fresh=True)" if kind == "plain" else ")"))
        )  # fmt: skip
    elif form == "generator":
        endless = draw(st.booleans())
        train = f"batches({parts}, size={size}, endless={endless}" + draw(st.sampled_from(
            (")", ", fresh=True)" if kind == "plain" else ")"))
        )  # fmt: skip
    validation = draw(_validation(kind)) if draw(st.booleans()) else ""
    fits = tuple(
        draw(_fit(kind, parts, train, form, counted, endless, count, size, validation, number))
        for number in range(draw(st.integers(1, 3)))
    )
    return Case(
        model=model,
        compile=draw(_compile(kind)),
        fits=fits,
        rows=rows,
        convert=draw(st.sampled_from(("", "as_tensors"))) if counted else "",
        train=train,
        validation=validation,
        again=form == "generator" and not endless or _rare(draw, 4),
        seed=draw(st.integers(1, 3)),
        floatx="float64" if _rare(draw, RARELY) else "",
    )


def _dtype(draw: DrawFn, kind: str) -> str:
    if kind == "tokens" or not _rare(draw, 4):
        return ""
    return draw(st.sampled_from((', "float64"', ', "uint8"')))


def _form(kind: str) -> SearchStrategy[str]:
    """Return how the training data are given: data sets most."""
    return st.sampled_from(("dataset",) * 4 + ("arrays",) * 3 + ("pydataset", "generator"))


@st.composite
def _compile(draw: DrawFn, kind: str) -> tuple[str, ...]:
    losses = ('"mse"', "keras.losses.MeanSquaredError()", "keras.losses.Huber(delta=0.5)")
    loss = draw(st.sampled_from(losses))
    if kind == "outputs":
        given = [f'loss={{"one": {loss}, "two": "mae"}}', draw(st.sampled_from(BY_OUTPUT))]
    else:
        given = [f"loss={loss}", draw(st.sampled_from(METRICS))]
    given.insert(0, f"optimizer={draw(st.sampled_from(OPTIMIZERS))}")
    if _rare(draw, 4):
        given.append(f"steps_per_execution={draw(st.integers(2, 3))}")
    if _rare(draw, RARELY):
        given.append("run_eagerly=True")
    elif draw(st.booleans()):
        given.append("jit_compile=False")
    if kind == "outputs" and _rare(draw, 4):
        given.append('loss_weights={"one": 0.5, "two": 2.0}')
    return tuple(filter(None, given))


@st.composite
def _dataset(draw: DrawFn, kind: str, parts: str, size: int) -> tuple[str, bool]:
    """Draw a tf.data pipeline, and whether it is without an end."""
    first = "slices" if not _rare(draw, SELDOM) else "generated"
    single = draw(st.lists(_stage(kind, batched=False), max_size=3, unique=True))
    behind = draw(st.lists(_stage(kind, batched=True), max_size=2, unique=True))
    rest = ", drop_remainder=True" if _rare(draw, 4) else ""
    ending = draw(st.sampled_from(("", "", ".repeat()", ".repeat(2)", ".prefetch(2)")))
    stages = "".join((*single, f".batch({size}{rest})", *behind, ending))
    return f"{first}({parts}){stages}", ending == ".repeat()"


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
            ".map(lambda x, *y: (x + tf.random.uniform(()), *y))"
            if kind == "plain" else ".map(lambda x, *y: (tf.cast(x, tf.float32), *y))",
            ".filter(lambda x, *y: tf.reduce_sum(tf.cast(x, tf.float32)) > 0)",
        ]  # fmt: skip
    if kind == "plain" and batched:
        stages.append(".map(lambda x, *y: (tf.sparse.from_dense(x), *y))")
    return st.sampled_from(stages)


def _validation(kind: str) -> SearchStrategy[str]:
    """Return expressions of validation data that can be read again and again."""
    return st.sampled_from((
        "(vx, vy)", "slices(vx, vy).batch(6)", "(vx, vy, vw)", "slices(vx, vy, vw).batch(8)",
        "slices(vx, vy).shuffle(20).batch(6)", "slices(vx, vy).batch(6).repeat()",
        "generated(vx, vy).batch(6)", "Batches(vx, vy, size=6)", "slices(vx, vy).cache().batch(4)",
        "batches(vx, vy, size=6, endless=True)",
    ))  # fmt: skip


@st.composite
def _fit(
    draw: DrawFn, kind: str, parts: str, train: str, form: str, counted: bool, endless: bool,
    count: int, size: int, validation: str, number: int,
) -> Fit:  # fmt: skip
    """Draw a call of `fit` and what stands before it."""
    given = [f"epochs={draw(st.integers(1, 3))}"]
    data = "train"
    if form == "arrays":
        data = parts if "w" not in parts else "x, y, sample_weight=w"
        data = draw(_converted(kind, data))
        given.append(f"batch_size={size}")
    if _rare(draw, SELDOM):
        given[0] = "epochs=4, initial_epoch=2"
    batches = -(-count // size)
    if endless or _rare(draw, 4):
        given.append(f"steps_per_epoch={draw(st.integers(1, batches + 2))}")
    if validation:
        given += draw(_validated(validation))
    elif form == "arrays" and _rare(draw, 4) or _rare(draw, 4 * RARELY):
        given.append("validation_split=0.25")
    shuffle = draw(st.sampled_from(("", "", "shuffle=False", 'shuffle="batch"')))
    if shuffle and (form == "arrays" and shuffle != 'shuffle="batch"' or _rare(draw, 4)):
        given.append(shuffle)
    if _rare(draw, SELDOM):
        given.append("class_weight={0: 1.0, 1: 3.0}")
    callbacks = draw(st.lists(_callback(train, endless, validation), max_size=3, unique=True))
    return Fit(
        data=data,
        arguments=tuple(given),
        callbacks=tuple(callbacks),
        before=tuple(draw(_before(kind, train, endless, size, number))),
        callback_list=_rare(draw, RARELY),
    )


@st.composite
def _converted(draw: DrawFn, kind: str, data: str) -> str:
    """Draw another form of arrays."""
    if kind != "plain" or not _rare(draw, 3):
        return data
    name = draw(st.sampled_from(("as_frame", "as_sparse")))
    y = "as_frame(y)" if name == "as_frame" else "y"
    return data.replace("x, y", f"{name}(x), {y}", 1)


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


def _callback(train: str, endless: bool, validation: str) -> SearchStrategy[str]:
    """Return callbacks; some read the training data or the validation data."""
    read = ["Evaluate((vx, vy))", "Evaluate(slices(vx, vy).batch(4), steps=2)"]
    if train and not train.startswith("batches"):
        read.append("Evaluate(train, steps=2)")
        if not endless:
            read.append("Evaluate(train)")
    if validation.startswith("slices") and "repeat()" not in validation:
        read += ["Evaluate(validation)", "Evaluate(validation, steps=1)"]
    return st.one_of(st.just("Seen()"), st.sampled_from((*CALLBACKS, *read)))


@st.composite
def _before(
    draw: DrawFn, kind: str, train: str, endless: bool, size: int, number: int
) -> list[str]:
    """Draw what stands before a fit: mostly nothing, between two fits something for a half."""
    if not (draw(st.booleans()) if number else _rare(draw, 8)):
        return []
    lines = [*BETWEEN] if number else [
        'model.get_layer("a").trainable = False', "model.make_train_function()",
    ]  # fmt: skip
    if number:
        lines.append(f"model.compile({', '.join(draw(_compile(kind)))})")
    lines.append("note('batch', model.train_on_batch(*rows(6, *x_kind)[:2]))")
    lines.append("note('evaluated', model.evaluate(vx, vy, batch_size=7, verbose=0))")
    lines.append("note('predicted', model.predict(vx, batch_size=3, verbose=0))")
    if train and not train.startswith("batches"):
        lines.append("note('evaluated', model.evaluate(train, steps=2, verbose=0))")
        if not train.startswith("Batches"):
            lines.append("one_batch(train)")
    chosen: Any = draw(st.lists(st.sampled_from(lines), min_size=1, max_size=2, unique=True))
    return [line.replace("*x_kind", repr(kind)) for line in chosen]
