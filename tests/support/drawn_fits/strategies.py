"""Draw cases: pieces that mostly fit together, some that plain Keras refuses."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from support.drawn_fits.case import Case
from support.drawn_fits.data_strategies import Data, data_lines, data_of, data_of_fit
from support.drawn_fits.model_strategies import (
    FORMS,
    OFTEN,
    RARELY,
    SELDOM,
    compilations,
    models,
    rare,
)

CALLBACKS = (
    "noting(*EPOCHS)", "noting(*EPOCHS)", "noting(*EPOCHS, *BATCHES)", "MoreLogs()",
    'SeenCheckpoint("seen.weights.h5", save_weights_only=True)',
    'keras.callbacks.EarlyStopping("loss", patience=1, min_delta=0.05, restore_best_weights=True)',
    'keras.callbacks.EarlyStopping("loss", start_from_epoch=1, patience=0, min_delta=1.0)',
    'keras.callbacks.EarlyStopping("val_loss", patience=0)',
    'keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=0.1)',
    "keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.7)",
    'keras.callbacks.ModelCheckpoint("{epoch}.weights.h5", save_weights_only=True)',
    'keras.callbacks.ModelCheckpoint("b{batch}.weights.h5", save_weights_only=True, save_freq=3)',
    'keras.callbacks.ModelCheckpoint("best.weights.h5", save_weights_only=True, '
    'monitor="loss", save_best_only=True)',
    'keras.callbacks.ModelCheckpoint("{epoch}.keras")',
    'keras.callbacks.CSVLogger("log.csv", append=True)', "keras.callbacks.TerminateOnNaN()",
    'keras.callbacks.BackupAndRestore("backup")',
    "keras.callbacks.SwapEMAWeights(swap_on_epoch=True)",
    "keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: note('lambda', logs))",
    "keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: note('lambda', logs))",
)  # fmt: skip
# The calls that Keras makes: those at begins are drawn most, what they set is read soon.
HOOKS = ("train_begin", "epoch_begin", "epoch_begin", "epoch_end", "epoch_end", "test_end",
         "train_end")  # fmt: skip
HOOKS_OF_BATCHES = ("train_batch_begin", "train_batch_end", "test_batch_end")
# Expressions by kind: what a callback may do, and but for the first kind a script between fits too.
ENDING = (
    *['setattr(model, "stop_training", True)'] * 4, 'setattr(model, "stop_training", False)',
    "fail()", "fail(KeyboardInterrupt)",
)  # fmt: skip
COMPILED = (
    'toggle(model.get_layer("a"))', 'toggle(model.get_layer("a"))', "toggle(model)",
    *(f'setattr(model, "steps_per_execution", {steps})' for steps in (1, 2, 3)),
    'setattr(model, "run_eagerly", not model.run_eagerly)',
    'setattr(model, "optimizer", keras.optimizers.SGD(0.05))', "other_dropout(model)",
    'model.compile("sgd", "mse", steps_per_execution=5)', 'model.compile("sgd", "mse")',
    "model.make_train_function(force=True)", 'setattr(model, "train_function", None)',
)  # fmt: skip
STATE = (
    'setattr(model.optimizer, "learning_rate", 0.7 * float(model.optimizer.learning_rate))',
    'setattr(model.optimizer, "learning_rate", float(np.random.uniform(0.001, 0.01)))',
    "[weight.assign(keras.ops.clip(weight, -0.3, 0.3)) for weight in model.trainable_weights]",
    "model.optimizer.iterations.assign(0)", 'scale_weights(model.get_layer("a"))',
    "keras.utils.set_random_seed(5)", "model.reset_metrics()",
)  # fmt: skip
NOTED = (
    "note('weights', model.get_weights())", 'model.save_weights("saved.weights.h5")',
    "note('drawn', [np.random.random(), tf.random.uniform(()), keras.random.uniform(())])",
)  # fmt: skip
OTHER_DATA = (
    "note('again', model.fit(sx, sy, batch_size=5, verbose=0).history)", "fit_other()",
    "note('batch', model.train_on_batch(sx, sy))", "update_on(model, sx)",
    "evaluate_on(model, vx, vy)", "evaluate_on(model, slices(vx, vy).batch(4), steps=2)",
)  # fmt: skip
# Statements between two fits.
BETWEEN = (
    'model.save_weights("between.weights.h5"); model.load_weights("between.weights.h5")',
    'model.save("between.keras"); model = keras.models.load_model("between.keras")',
    "model.set_weights([0.9 * weight for weight in model.get_weights()])",
    "model = keras.models.clone_model(model); model.compile(loss='mse')",
    "keras.backend.clear_session()", "tf.random.set_seed(3)", "model.make_train_function()",
)  # fmt: skip


@st.composite
def cases(draw: DrawFn) -> Case:
    """Draw a case."""
    # in a usual script it is what happens to the model that matters
    usual = draw(st.booleans())
    kind = "plain" if usual else draw(st.sampled_from(tuple(FORMS)))
    data, model = draw(data_of(kind, usual)), draw(models(kind))
    dtypes = ("float64",) if kind == "tokens" else ("float64", "uint8", "int32")
    dtype = draw(st.sampled_from(dtypes)) if rare(draw, SELDOM) else "float32"
    convert = draw(st.sampled_from(("", "as_tensors"))) if data.form == "arrays" else ""
    lines = [f"mirror({draw(st.integers(1, 2))})"] if rare(draw, RARELY) else []
    lines += ['keras.backend.set_floatx("float64")'] if rare(draw, 2 * RARELY) else []
    lines += [f"keras.utils.set_random_seed({draw(st.integers(1, 3))})"]
    lines += [*data_lines(data, dtype, convert), f"model = {model}"]
    lines.append(f"model.compile({', '.join(draw(compilations(kind, model)))})")
    for number in range(draw(st.sampled_from((1, 2, 2, 2, 3, 4)))):
        lines += draw(_before(data, model, number))
        lines.append(f'fit("fit {number + 1}", model, {", ".join(draw(_fit(data, number)))})')
    return Case(tuple(lines))


@st.composite
def _fit(draw: DrawFn, data: Data, number: int) -> list[str]:
    """Draw the arguments of a call of `fit`."""
    train = draw(data_of_fit(data, number))
    given = [train, f"epochs={draw(st.integers(1, 3))}"]
    if rare(draw, SELDOM):
        given[1] = "epochs=4, initial_epoch=2"
    if data.form == "arrays":
        given.append(f"batch_size={data.size}")
    if data.endless or train.endswith(".repeat()") or rare(draw, OFTEN):
        given.append(f"steps_per_epoch={draw(st.integers(1, -(-data.count // data.size) + 2))}")
    if data.validation:
        given += draw(_validated(data.validation))
    elif rare(draw, OFTEN if data.form == "arrays" else 4 * RARELY):
        given.append("validation_split=0.25")
    if rare(draw, 2 if data.form == "arrays" else OFTEN):
        given.append("shuffle=False")
    weighs = data.kind in ("plain", "classes") and data.form in ("arrays", "dataset")
    if weighs and rare(draw, SELDOM):
        given.append("class_weight={0: 1.0, 1: 3.0, 2: 2.0}")
    callbacks = f"[{', '.join(draw(st.lists(_callback(data), max_size=3, unique=True)))}]"
    if rare(draw, RARELY):
        callbacks = f"keras.callbacks.CallbackList({callbacks}, add_history=True, model=model)"
    return [*given, f"callbacks={callbacks}"]


@st.composite
def _validated(draw: DrawFn, validation: str) -> list[str]:
    given = ["validation_data=validation"]
    if "repeat()" in validation or "endless" in validation or rare(draw, OFTEN):
        given.append(f"validation_steps={draw(st.integers(1, 4))}")
    if rare(draw, SELDOM):
        given.append(f"validation_freq={draw(st.sampled_from(('2', '[1, 3]')))}")
    if validation.startswith("(") and rare(draw, 3):
        given.append("validation_batch_size=7")
    return given


def _actions(data: Data, *kinds: tuple[str, ...]) -> SearchStrategy[str]:
    """Return actions of these kinds, what is compiled twice as often, and some on the data."""
    own = _on_data(data)
    return st.sampled_from((*kinds, COMPILED, COMPILED, STATE, OTHER_DATA, NOTED, own)).flatmap(
        st.sampled_from
    )


def _callback(data: Data) -> SearchStrategy[str]:
    """Return callbacks: those of Keras, those that note, and those that act at a hook."""

    def acting(hooks: tuple[str, ...], calls: tuple[str, ...], actions: Any) -> Any:
        named = st.sampled_from(hooks), st.sampled_from(calls), actions
        return st.builds('at("on_{}", {}, lambda model: {})'.format, *named)

    of_epochs = acting(HOOKS, ("None", "0", "1", "1"), _actions(data, ENDING, ENDING, ENDING))
    of_batches = acting(
        HOOKS_OF_BATCHES, ("None", "2", "3"), st.sampled_from((*ENDING, *STATE, *NOTED))
    )
    # most that hear of batches keep a loop from the fit
    return st.one_of(st.sampled_from(CALLBACKS), *[of_epochs] * 4, of_batches)


def _on_data(data: Data) -> list[str]:
    """Return actions that read the data of the fits, or change them."""
    found = ["evaluate_on(model, vx, vy)"]
    if data.form in ("dataset", "pydataset"):
        found.append("evaluate_on(model, train, steps=2)")
    if data.form in ("dataset", "pydataset") and not data.endless:
        found += ["evaluate_on(model, train)"] * 2
    if data.form == "dataset":
        found += ["note('looked at', tf.nest.flatten(next(iter(train))))",
                  "note('read', [tf.nest.flatten(batch) for batch in train.take(2)])"]  # fmt: skip
    if data.form == "pydataset":
        found.append('setattr(train, "order", train.order[::-1])')
    if data.validation.startswith("slices") and "repeat()" not in data.validation:
        found += ["evaluate_on(model, validation)", "evaluate_on(model, validation, steps=1)"]
    return found + ["scale.assign(0.3)"] * (3 if "scale" in data.train else 0)


@st.composite
def _before(draw: DrawFn, data: Data, model: str, number: int) -> list[str]:
    """Draw what stands before a fit: before the first mostly nothing, else mostly something."""
    if rare(draw, 3) if number else not rare(draw, SELDOM):
        return []
    again = f"model.compile({', '.join(draw(compilations(data.kind, model)))})"
    lines = _actions(data, (*BETWEEN, again) if number else (again,))
    chosen = draw(st.lists(lines, min_size=1, max_size=2, unique=True))
    return [f"with noted('before fit {number + 1}'): {line}" for line in chosen]
