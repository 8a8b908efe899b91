"""Draw models, what they are compiled with, and the kind of rows that they take."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

# Functions of `models.py` around hidden layers, by the kind of rows.
FORMS = {
    "plain": (
        "sequential({})", "unbuilt({})", "functional({})", "shared({})", "nested({})",
        "nested({}, training=False)", "Subclass({})", "OwnTrainStep({})", "OwnValues({})",
        "OwnTestStep({})", "TwoOptimizers({})", "deep()",
    ),
    "classes": (
        "sequential({}, units=3)", "functional({}, units=3)", "shared({}, units=3)",
        "nested({}, units=3)", "OwnTrainStep({}, units=3)",
    ),
    "dict": ('two_inputs({}, kind="dict")',),
    "tuple": ('two_inputs({}, kind="tuple")',),
    "outputs": ("two_outputs({})",),
    "tokens": ("unbuilt(layers.Embedding(3, 4, mask_zero=True), layers.GRU(4), {})",),
    "series": (
        "unbuilt(layers.LSTM(4, dropout=0.1), {})",
        "unbuilt(keras.Input((3, 2), batch_size=8), layers.LSTM(4, stateful=True), {})",
    ),
    "images": (
        'unbuilt(layers.RandomFlip("horizontal", seed=2), layers.UpSampling2D(4), '
        "layers.Conv2D(8, 3, strides=2), layers.BatchNormalization(), "
        "layers.GlobalAveragePooling2D(), {})",
    ),
}  # fmt: skip
# of the layer "a"
OPTIONS = (
    ', trainable=False', ', kernel_regularizer="l2"', ', dtype="mixed_bfloat16"',
    ", kernel_constraint=keras.constraints.MaxNorm(0.8)",
    ", activity_regularizer=keras.regularizers.L1(0.01)",
)  # fmt: skip
LAYERS = (
    "layers.BatchNormalization()", "layers.BatchNormalization(trainable=False)",
    "layers.Dropout(0.4)", "layers.GaussianDropout(0.3)", "layers.GaussianNoise(0.3, seed=4)",
    "layers.Rescaling(0.5)", "layers.LayerNormalization()", "layers.AlphaDropout(0.2)",
    "layers.Dense(6)", 'layers.Dense(6, "tanh", trainable=False)', "Jitter()", "Count()",
)  # fmt: skip
OPTIMIZERS = (
    "SGD({rate}{more})", "Adam({rate}{more})", "SGD({rate}, momentum=0.9{more})",
    "SGD({rate}, momentum=0.9, nesterov=True{more})", "AdamW({rate}{more})",
    "RMSprop({rate}{more})", "Nadam({rate}{more})", "Lion({rate}{more})", "Ftrl({rate}{more})",
    "Adagrad({rate}{more})", "Adamax({rate}{more})",
)  # fmt: skip
RATES = (
    "0.05", "0.01", "Halved()", "keras.optimizers.schedules.ExponentialDecay(0.05, 4, 0.5)",
    "keras.optimizers.schedules.PiecewiseConstantDecay([3, 8], [0.05, 0.02, 0.01])",
)  # fmt: skip
MORE = (
    ", clipnorm=0.1", ", clipvalue=0.1", ", global_clipnorm=0.2", ", use_ema=True",
    ", use_ema=True, ema_overwrite_frequency=3", ", gradient_accumulation_steps=2",
    ", gradient_accumulation_steps=3", ", weight_decay=0.05",
)  # fmt: skip
LOSSES = (
    '"mse"', "keras.losses.Huber(delta=0.5)", "lambda y, p: tf.reduce_mean(tf.square(y - p), -1)",
    'keras.losses.MeanAbsoluteError(reduction="sum")',
    "keras.losses.BinaryCrossentropy(from_logits=True)",
)  # fmt: skip
LOSSES_OF_CLASSES = (
    "keras.losses.SparseCategoricalCrossentropy(from_logits=True)",
    "keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2)",
)
METRICS = (
    "", 'metrics=["mae"]', "metrics=[Rows()]", "metrics=[Rows(), keras.metrics.MeanSquaredError()]",
    "metrics=[lambda y, p: tf.reduce_mean(tf.abs(y - p))]", "metrics=[Rows(kept=True)]",
    "metrics=[keras.metrics.AUC(num_thresholds=20)]", 'metrics=["accuracy"]',
    'metrics=[Rows()], weighted_metrics=["mae"]',
)  # fmt: skip
METRICS_OF_CLASSES = ("", 'metrics=["accuracy"]', 'metrics=["accuracy", Rows()]')
METRICS_OF_OUTPUTS = ("", 'metrics={"one": ["mae"], "two": [Rows()]}', 'metrics={"two": "mae"}')
# a piece that is drawn for one case in so many
OFTEN, SELDOM, RARELY = 4, 6, 15


def rare(draw: DrawFn, chance: int) -> bool:
    """Draw whether one case in so many has a piece."""
    return draw(st.integers(0, chance - 1)) == chance - 1


@st.composite
def models(draw: DrawFn, kind: str) -> str:
    """Draw the expression of a model for rows of a kind."""
    option = draw(st.sampled_from(OPTIONS)) if rare(draw, 2) else ""
    hidden = [f'layers.Dense(8, "relu", name="a"{option})']
    hidden += draw(st.lists(st.sampled_from(LAYERS), max_size=2, unique=True))
    if rare(draw, OFTEN):  # what changes the inputs, and holds no weights
        hidden.insert(0, draw(st.sampled_from(("layers.Rescaling(0.5)", "Jitter()"))))
    return draw(st.sampled_from(FORMS[kind])).format(", ".join(hidden))


@st.composite
def optimizers(draw: DrawFn) -> str:
    """Draw the expression of an optimizer."""
    if rare(draw, SELDOM):
        scaled = "keras.optimizers.LossScaleOptimizer({}, dynamic_growth_steps=3)"
        return draw(
            st.sampled_from(('"adam"', '"sgd"', scaled.format("keras.optimizers.SGD(0.05)")))
        )
    more = draw(st.sampled_from(MORE)) if rare(draw, 3) else ""
    name = draw(st.sampled_from(OPTIMIZERS))
    return "keras.optimizers." + name.format(rate=draw(st.sampled_from(RATES)), more=more)


@st.composite
def compilations(draw: DrawFn, kind: str, model: str) -> tuple[str, ...]:
    """Draw the arguments of `compile` for a model of a kind of rows."""
    loss = draw(st.sampled_from(LOSSES_OF_CLASSES if kind == "classes" else LOSSES))
    metrics = METRICS_OF_CLASSES if kind == "classes" else METRICS
    if kind == "outputs":
        loss, metrics = f'{{"one": {loss}, "two": "mae"}}', METRICS_OF_OUTPUTS
    given = [f"optimizer={draw(optimizers())}", f"loss={loss}"]
    if "OwnValues" not in model:  # its train step updates no metrics
        given.append(draw(st.sampled_from(metrics)))
    if kind == "outputs" and rare(draw, OFTEN):
        given.append('loss_weights={"one": 0.5, "two": 2.0}')
    if draw(st.booleans()):
        given.append(f"steps_per_execution={draw(st.sampled_from((2, 3, 7)))}")
    if rare(draw, RARELY):
        given.append(draw(st.sampled_from(("run_eagerly=True", "jit_compile=True"))))
    return tuple(filter(None, given))
