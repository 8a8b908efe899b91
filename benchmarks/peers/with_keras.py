"""A contestant: Keras, on TensorFlow or on JAX.

    KERAS_BACKEND=tensorflow python -m peers.with_keras TASK.json

Options: `jit_compile`, `steps_per_execution`, `precision`, and `pipeline`: "arrays" gives them to
`fit`, "cached" makes a `tf.data` pipeline that caches, decodes in parallel and prefetches. Files
are decoded anew in each epoch without it, as `fit` over a plain pipeline does.
"""

from __future__ import annotations

from typing import Any

import keras

from peers.contestant import EpochTimer, Patience, Report, Task, run
from peers.files import Files
from peers.keras_clock import EarlyEnd, EpochClock

SIDE = 96


def train(task: Task, patience: Patience | None) -> Report:
    """Train and return the report; with a patience until that is spent."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(task.seed)
    files = Files(task.folder, task.seed)
    model = keras.models.load_model(files.model(str(task.options["precision"])), compile=False)
    compiled = files.read_compiled()
    model.compile(
        optimizer=keras.optimizers.Adam(compiled["rate"]),
        loss=_loss(compiled["loss"]),
        metrics=compiled["metrics"],
        jit_compile=bool(task.options["jit_compile"]),
        steps_per_execution=int(task.options["steps_per_execution"]),
    )
    training, validation = files.read_arrays(task.examples, task.batch_size)
    timer = EpochTimer(task.started, task.epochs)
    callbacks: list[Any] = [EpochClock(timer)]
    if patience is not None:
        callbacks.append(EarlyEnd(timer.report, patience))
    if training["x"].dtype.kind == "U":
        options: dict[str, Any] = _pictures(task, training, validation)
    elif task.options["pipeline"] == "cached":
        options = _cached(task, training, validation)
    else:
        options = {
            "x": training["x"], "y": training["y"], "batch_size": task.batch_size,
            "validation_data": (validation["x"], validation["y"]),
        }  # fmt: skip
    model.fit(**options, epochs=timer.most_epochs, callbacks=callbacks, verbose=0)
    return timer.report


def _loss(name: str) -> Any:
    if name == "sparse_categorical_crossentropy":
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return keras.losses.get(name)


def _cached(task: Task, train: Any, validation: Any) -> dict[str, Any]:
    """Return `fit`'s arguments for arrays that tf.data caches, shuffles, batches, prefetches."""
    import tensorflow as tf

    def pipeline(arrays: Any) -> Any:
        return tf.data.Dataset.from_tensor_slices((arrays["x"], arrays["y"])).cache()

    shuffled = pipeline(train).shuffle(len(train["y"]))
    return {
        "x": shuffled.batch(task.batch_size).prefetch(tf.data.AUTOTUNE),
        "validation_data": pipeline(validation).batch(task.batch_size).prefetch(tf.data.AUTOTUNE),
    }


def _pictures(task: Task, train: Any, validation: Any) -> dict[str, Any]:
    """Return `fit`'s arguments for JPEG files."""
    if keras.backend.backend() == "jax":
        from peers.pictures import keras_pictures

        pictures = keras_pictures()
        kept = {"workers": 2, "max_queue_size": 16}
        return {
            "x": pictures(train, task.batch_size, SIDE, mirrored=True, **kept),
            "validation_data": pictures(validation, task.batch_size, SIDE, **kept),
        }
    import tensorflow as tf

    cached = task.options["pipeline"] == "cached"
    calls = tf.data.AUTOTUNE if cached else None

    def decoded(path: Any, label: Any) -> tuple[Any, Any]:
        picture = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        return tf.image.resize(picture, (SIDE, SIDE)) / 255.0, label

    def mirrored(picture: Any, label: Any) -> tuple[Any, Any]:
        return tf.image.random_flip_left_right(picture), label

    def pipeline(files: Any, shuffled: bool) -> Any:
        data = tf.data.Dataset.from_tensor_slices((files["x"], files["y"]))
        if cached:
            data = data.map(decoded, num_parallel_calls=calls).cache()
            data = data.shuffle(len(files["y"])) if shuffled else data
        else:
            data = data.shuffle(len(files["y"])) if shuffled else data
            data = data.map(decoded)
        data = data.map(mirrored, num_parallel_calls=calls) if shuffled else data
        data = data.batch(task.batch_size)
        return data.prefetch(tf.data.AUTOTUNE) if cached else data

    return {"x": pipeline(train, True), "validation_data": pipeline(validation, False)}


if __name__ == "__main__":
    run(train)
