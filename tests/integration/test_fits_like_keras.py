"""Kinds of fits that stacks trained otherwise once: each is as in plain Keras, or refused."""

import functools
import textwrap

import attrs
import pytest
from support.drawn_fits.comparison import compare
from support.drawn_fits.training import Trainer

pytestmark = pytest.mark.thorough

# Each loop alone; what prepares data together, since a training takes longer to trace than to run.
STACKS = {
    "chunked": [{"use": "chunked", "steps": 3, "xla": False}],
    "steps-per-execution": [{"use": "steps-per-execution", "steps": 16}],
    "resident": [{"use": "resident", "xla": False}],
    "autotune": [{"use": "autotune", "mode": "off"}],
    "input": [
        {"use": "parallel-map", "calls": 2},
        {"use": "cache", "storage": "memory", "memory_mib": 64},
        {"use": "prefetch", "buffer_size": 2},
    ],
    "kept": [
        {"use": "materialize", "storage": "memory", "order": "kept"},
        {"use": "frozen-features", "storage": "memory", "memory_mib": 64},
        {"use": "rematerialize", "segments": 2, "rounding": False},
        {"use": "one-device", "device": "/cpu:0"},
    ],
}  # fmt: skip
BEGIN = """
import time
from support.drawn_fits.names import *

keras.utils.set_random_seed(3)
random = np.random.default_rng(0)
x = random.normal(size=(43, 6)).astype("float32")
y = (x.sum(1) > 0).astype("float32")
slices = tf.data.Dataset.from_tensor_slices
calling = keras.callbacks.LambdaCallback
acts = calling(on_train_batch_end=lambda batch, logs: logs["loss"])

def network(optimizer="adam", **compiled):
    layers = [keras.layers.Dense(4, activation="relu", name="first"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((6,)), *layers])
    model.compile(optimizer, "mse", metrics=["mae"], **compiled)
    return model

def cached(draws):
    data = slices((x, y)).map(lambda a, b: (a * draws.uniform(()), b)).batch(8)
    return data.map(lambda a, b: (a * 2, b)).cache()

def generator():
    for start in range(0, 40, 8):
        yield x[start : start + 8], y[start : start + 8]
"""
KINDS = {
    "a BatchNormalization that is thawed behind a fit": """
        inner = layers.Dense(5, "relu"), layers.BatchNormalization(), layers.Dense(3, "relu")
        model = keras.Sequential([keras.Input((6,)), *inner, layers.Dense(1)])
        for trainable in (False, True):
            model.layers[1].trainable = trainable
            model.compile("sgd", "mse")
            fit(f"trainable {trainable}", model, slices((x, y)).batch(8), epochs=2)
    """,
    "a cache behind a shuffle that is read in part": """
        naps = calling(on_test_end=lambda *_: time.sleep(0.2))
        rest = {"callbacks": [naps], "validation_steps": 2}
        val = slices((x[:13], y[:13])).shuffle(9, seed=3).batch(5).cache()
        fit("fit", network(), x, y, epochs=3, validation_data=val, **rest)
    """,
    "features, and then other data from a cache before them": """
        model, data = network(), slices((x, y)).shuffle(43, seed=1).cache().batch(8)
        model.get_layer("first").trainable = False
        model.compile("adam", "mse")
        fit("fit 1", model, data, epochs=2)
        model.make_train_function(force=True)
        fit("fit 2", model, data.cache(), epochs=2, steps_per_epoch=4)
    """,
    "features of data that end with a cache, which are evaluated then": """
        model, data = network(), slices((x, y)).batch(8).cache()
        model.get_layer("first").trainable = False
        model.compile("adam", "mse")
        fit("fit 1", model, data)
        note("evaluated", model.evaluate(data, verbose=0))
    """,
    "functions that run eagerly": """
        class Noting(keras.Sequential):
            def call(self, *given, **named):
                note("called", 1)
                return super().call(*given, **named)
        tf.config.run_functions_eagerly(True)
        model = Noting([keras.Input((6,)), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        fit("fit", model, slices((x, y)).batch(8), epochs=2)
    """,
    "a part of each batch is None, or an empty optional": """
        model, data = network(), slices((x, y)).map(lambda a, b: (a * 2, b)).batch(8)
        empty = lambda a, b: (a, b, tf.experimental.Optional.empty(tf.TensorSpec((8,))))
        fit("fit 1", model, data.map(lambda a, b: (a, b, None)), epochs=2)
        fit("fit 2", model, data.map(empty), epochs=2)
    """,
    # Adam makes much of a bias' gradient that is 0 but for rounding
    "even batches behind uneven ones": """
        images = random.normal(size=(43, 32, 32, 3)).astype("float32")
        def fits(rows, *inner):
            model = keras.Sequential([keras.Input((32, 32, 3)), *inner, keras.layers.Dense(1)])
            model.compile("adam", "mse")
            for number, n in enumerate(rows):
                calls = [] if number else [acts]
                fit(f"{rows}", model, images[:n], y[:n], batch_size=4, epochs=3, callbacks=calls)
        norm, pool = layers.BatchNormalization(), layers.GlobalAveragePooling2D()
        fits((30, 40), layers.Conv2D(8, 3, strides=2), norm, pool)
        inner = layers.Dense(32, "relu"), layers.LayerNormalization(), layers.Dense(8)
        fits((40, 43, 40), layers.Flatten(), *inner, layers.BatchNormalization())
    """,
    "frozen between fits, traced anew or not": """
        model, data = network(), slices((x, y)).batch(4)
        fit("fit 1", model, data)
        model.get_layer("first").trainable = False
        fit("fit 2", model, data, epochs=2)
        model = network()
        fit("fit 3", model, x, y, shuffle=False)
        model.get_layer("first").trainable = False
        model.make_train_function(force=True)
        fit("fit 4", model, x, y, shuffle=False)
        class Batches(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                note("index", batch)
        model = network()
        fit("fit 5", model, x, y, shuffle=False)
        model.get_layer("first").trainable = False
        fit("fit 6", model, x, y, shuffle=False)
        fit("fit 7", model, x, y, shuffle=False, callbacks=[Batches()])
        fit("fit 8", model, x, y, shuffle=False)
    """,
    "unfrozen between fits, compiled or not": """
        data = slices((x, y)).batch(8)
        for number, compiled in enumerate((True, False)):
            model = network()
            model.get_layer("first").trainable = False
            model.compile("sgd", "mse")
            fit(f"{number}, frozen", model, data, epochs=2)
            model.get_layer("first").trainable = True
            if compiled:
                model.compile("sgd", "mse")
            fit(f"{number}, unfrozen", model, data, epochs=2)
    """,
    "set between fits, and not compiled again": """
        class Wide(keras.layers.Layer):
            factor = 1.0
            def call(self, inputs):
                return inputs * self.factor
        def setting(name, model):
            if name == "optimizer":
                model.optimizer = keras.optimizers.SGD(0.05)
            elif name == "momentum":
                model.optimizer.momentum = 0.9
            elif name == "factor":
                for factor in (np.full(6, 3.0), np.full(6, 4.0)):
                    model.get_layer("wide").factor = factor
            else:
                model.layers[1].rate = 0.5
        for name in ("optimizer", "momentum", "factor", "rate"):
            model = sequential(Wide(name="wide"), keras.layers.Dropout(0.0))
            model.compile(keras.optimizers.SGD(0.01, momentum=0.1), "mse")
            data = slices((x, y)).batch(8)
            fit(f"{name} 1", model, data.take(2), epochs=2)
            setting(name, model)
            fit(f"{name} 2", model, data, epochs=2)
            fit(f"{name} 3", model, data.take(2), epochs=2)
            model.compile("sgd", "mse")
            fit(f"{name} 4", model, data, epochs=2)
    """,
    "a step that draws, on an unknown number of batches": """
        model = sequential(Jitter())
        model.compile("sgd", "mse")
        fit("fit", model, slices((x, y)).filter(lambda x, y: True).batch(8), epochs=3)
    """,
    "epochs that are stopped before their first step, and gone on with": """
        class Stops(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                self.model.stop_training = True
            def on_epoch_end(self, epoch, logs=None):
                self.model.stop_training = False
        for steps in (None, 5):
            fit(f"fit of {steps}", network(), slices((x, y)).batch(8), epochs=4,
                steps_per_epoch=steps, callbacks=[Stops()])
    """,
    "noise in a step that XLA compiles, within a strategy of the script's own": """
        with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
            model = sequential(keras.layers.GaussianNoise(0.3, seed=4))
            model.compile("sgd", "mse", steps_per_execution=3, jit_compile=True)
        fit("fit", model, slices((x, y)).batch(8), epochs=2)
    """,
    "two shuffles of one seed": """
        data = slices((x, y)).map(lambda x, y: (x * 2, y))
        data = data.shuffle(8, seed=5).shuffle(8, seed=5).batch(8)
        model = network()
        for number in (1, 2):
            fit(f"fit {number}", model, data, epochs=2)
    """,
    "a data set that a function of another one reads": """
        generator = tf.random.Generator.from_seed(11)
        drawn = slices((x, y)).map(lambda x, y: (x + generator.normal([6]), y))
        data = tf.data.Dataset.range(2).interleave(lambda i: drawn.shard(2, i), cycle_length=2)
        fit("fit", network(), data.batch(8), epochs=3)
    """,
    "frozen by a callback of a later fit": """
        def freeze(logs):
            model.get_layer("first").trainable = False
        for first in ({"callbacks": [acts]}, {"steps_per_epoch": 1}):
            model, data = network(), slices((x, y)).batch(8)
            fit("fit 1", model, data.repeat(), **{"steps_per_epoch": 3, **first})
            fit("fit 2", model, data, epochs=2, callbacks=[calling(on_train_begin=freeze)])
    """,
    "data that cannot be read on": """
        def broken(batches):
            yield from list(generator())[:batches]
            raise ValueError("no more")
        signature = (tf.TensorSpec((None, 6)), tf.TensorSpec((None,)))
        for batches in (0, 3):
            model = network()
            data = tf.data.Dataset.from_generator(
                broken, args=[batches], output_signature=signature)
            fit(f"fit behind {batches}", model, data, epochs=2)
            fit("fit again", model, x, y)
        model, labels = network(), np.where(np.arange(43) > 17, -1, 0)
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy())
        fit("fit of wrong labels", model, x, labels, shuffle=False)
    """,
    "an unknown number of batches": """
        model, data = network(), slices((x, y)).filter(lambda a, b: True).batch(4)
        fit("fit 1", model, data, epochs=2, validation_data=data)
        fit("fit 2", model, data, epochs=6, steps_per_epoch=6)
        data = slices((x, y)).batch(15).filter(lambda x, y: True)
        model = network(steps_per_execution=2, jit_compile=False)
        fit("fit 3", model, data, epochs=2)
        fit("fit 4", model, data, epochs=3, steps_per_epoch=4)
        fit("fit 5", model, data, epochs=2, steps_per_epoch=3)
    """,
    "an unknown number of batches that is another in each pass": """
        data = slices((x, y)).shuffle(43, seed=5).batch(4).filter(lambda x, y: y[0] > 0)
        model = network()
        fit("fit 1", model, data, epochs=6)
        fit("fit 2", model, data, epochs=6, steps_per_epoch=4)
    """,
    "a cache behind a shuffle and a map, read again and before": """
        def data():
            return slices((x, y)).shuffle(43, seed=7).batch(8).map(lambda a, b: (a * 2, b)).cache()
        model, one, two, three = network(), data(), data(), data()
        fit("fit 1", model, one, epochs=2)
        fit("fit 2", model, one, epochs=2)
        note("evaluate", model.evaluate(one.take(2), verbose=0))
        note("evaluate before", model.evaluate(two, verbose=0))
        fit("fit 3", model, two, epochs=2, validation_data=one, validation_steps=2)
        fit("fit 4", model, one, epochs=2, validation_data=three)
        fit("fit 5", model, three, epochs=2)
        draws = tf.random.Generator.from_seed(3)
        four, five = cached(draws), cached(draws)
        fit("fit 6", model, four, epochs=2)
        fit("fit 7", model, four, epochs=2)
        note("evaluate before", model.evaluate(five, verbose=0))
        fit("fit 8", model, five, epochs=2)
    """,
    "a fit in a callback, with steps a call of the script's own": """
        def fits(epoch, logs):
            epoch or model.fit(x[:12], y[:12], batch_size=4, verbose=0, shuffle=False)
        for steps in (1, 2, 5):
            model = network(steps_per_execution=steps, jit_compile=False)
            rest = [calling(on_epoch_end=fits)]
            fit(f"fit {steps}", model, x, y, batch_size=4, epochs=2, callbacks=rest)
            fit(f"again {steps}", model, x, y, batch_size=4)
    """,
    "steps a call that a callback sets": """
        sets = calling(on_train_end=lambda _: model.compile("sgd", "mse", steps_per_execution=5))
        counts = calling(
            on_epoch_end=lambda *_: setattr(model, "steps_per_execution", 2),
            on_train_batch_end=lambda batch, logs: note("batch", batch))
        model = network(jit_compile=False)
        fit("fit 1", model, x, y, batch_size=8, callbacks=[sets])
        note("steps", model.steps_per_execution)
        fit("fit 2", model, x, y, batch_size=8, callbacks=[counts])
        note("steps", model.steps_per_execution)
    """,
    "run eagerly behind a fit, compiled again or not": """
        for compiled in (False, True):
            model = network()
            fit(f"fit 1 {compiled}", model, x, y, batch_size=8, shuffle=False)
            model.run_eagerly = True
            if compiled:
                model.compile("sgd", "mse", run_eagerly=True)
            fit(f"fit 2 {compiled}", model, x, y, batch_size=8, shuffle=False)
            model.optimizer = keras.optimizers.SGD(0.05)
            fit(f"fit 3 {compiled}", model, x, y, batch_size=8, shuffle=False)
    """,
    "draws by TensorFlow, and data that not every loop trains on": """
        for size in (6, 8):
            model = sequential(Jitter())
            model.compile("sgd", "mse")
            fit(f"arrays {size}", model, x, y, batch_size=size, epochs=2)
            fit(f"data set {size}", model, slices((x, y)).batch(8).unbatch().batch(8), epochs=2)
        inner = lambda epoch, logs: epoch or model.fit(x[:16], y[:16], verbose=0)
        fit("inner", model, x, y, batch_size=8, epochs=2, callbacks=[calling(on_epoch_end=inner)])
    """,
    "a strategy of the script's own, over a shuffle that is read before": """
        with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
            model = network(jit_compile=False)
        data = slices((x, y)).shuffle(5).map(lambda a, b: (a * 2, b)).batch(8)
        note("first", next(iter(data))[0])
        fit("fit 1", model, data, epochs=2)
        fit("fit 2", model, data, epochs=2)
    """,
    "class weights, which leave out the class of some examples": """
        classes = (np.arange(43) % 3).astype("float32")
        weights = dict(class_weight={0: 2.0, 1: 3.0}, epochs=2, shuffle=False)
        model, data = network(), slices((x, y)).map(lambda a, b: (a * 2, b)).batch(8)
        fit("data set", model, data, **weights)
        fit("arrays", model, x, classes, batch_size=8, **weights)
        fit("PyDataset", model, Batches(x, classes, size=8), **weights)
        fit("refused", model, x, classes, sample_weight=classes, **weights)
    """,
    "a layer that draws, in fits of other sizes": """
        def drawing():
            model = sequential(keras.layers.Dense(4), Jitter())
            model.compile("adam", "mse")
            return model
        model = drawing()
        fit("fit 1", model, x, y, batch_size=8, epochs=3)
        fit("fit 2", model, x, y, batch_size=8, epochs=2, validation_split=0.2)
        note("batch", model.train_on_batch(x[:8], y[:8]))
        fit("fit 3", model, x, y, batch_size=5)
        model, batches = drawing(), slices((x, y)).batch(8)
        fit("fit 4", model, batches, epochs=2)
        fit("fit 5", model, slices((x, y)).batch(8, drop_remainder=True), epochs=2)
        model, mapped = drawing(), batches.map(lambda a, b: (a * 2, b))
        fit("fit 6", model, mapped, epochs=2)
        fit("fit 7", model, mapped, epochs=2)
    """,
    "frozen and traced anew by a callback within a pass over the data": """
        model, rest = network(), {"epochs": 4, "steps_per_epoch": 3}
        def freeze(epoch, logs):
            model.get_layer("first").trainable = False
            model.make_train_function(force=True)
        fit("fit", model, x, y, batch_size=4, callbacks=[calling(on_epoch_end=freeze)], **rest)
    """,
    "one data set in several fits": """
        model = network("sgd")
        data = slices((x, y)).map(lambda a, b: (a * 1, b)).shuffle(43, seed=7).batch(4)
        for number in range(3):
            fit(f"fit {number}", model, data)
        fit("fit 3", model, data, steps_per_epoch=5, epochs=2, validation_data=data,
            validation_steps=2)
        note("evaluate", model.evaluate(data, steps=3, verbose=0))
        fit("fit 4", model, data, epochs=2)
    """,
    "shuffles that draw while they are read": """
        model = network()
        data = slices((x, y)).shuffle(43, seed=5).map(lambda a, b: (a * 2, b))
        fit("fit 1", model, data.shuffle(20, seed=2).batch(8), epochs=2)
        data = data.repeat().batch(43)
        fit("fit 2", model, data, steps_per_epoch=2)
        fit("fit 3", model, data, steps_per_epoch=2)
    """,
    "Keras' own shuffles": """
        model = network()
        for shuffle in (True, "batch"):
            fit(f"fit {shuffle}", model, x, y, batch_size=8, epochs=2, shuffle=shuffle,
                class_weight={0: 1.0, 1: 3.0}, validation_split=0.2)
    """,
    "fewer steps than a generator's pass has": """
        def each():
            yield from zip(x[:40], y[:40], strict=True)
        spec = (tf.TensorSpec((6,)), tf.TensorSpec(()))
        data = tf.data.Dataset.from_generator(each, output_signature=spec).batch(8).repeat()
        model = network()
        fit("fit 1", model, data, epochs=3, steps_per_epoch=3)
        fit("fit 2", model, data, epochs=3, steps_per_epoch=5)
    """,
    "reshuffled repeats, evaluated in a callback and between fits": """
        def doubled(x, y):
            return x * 2, y
        for first in (False, True):
            model = network()
            data = slices((x, y)).map(doubled).shuffle(5).batch(8).shuffle(4).repeat(2)
            if first:
                note("before", model.evaluate(data, verbose=0))
            look = lambda epoch, logs: note("look", model.predict(data, verbose=0))
            fit("fit 1", model, data, epochs=2, callbacks=[calling(on_epoch_end=look)])
            note("between", model.predict(data, verbose=0))
            fit("fit 2", model, data)
    """,
    "a map that returns its argument, and reads ahead": """
        data = slices((x, y)).map(lambda x, y: (x + 1, y)).batch(8).shuffle(3)
        data = data.map(lambda *batch: batch, num_parallel_calls=2).repeat(2)
        fit("fit", network(), data, epochs=2)
    """,
    "Python generators": """
        model = network()
        fit("fit 1", model, generator())
        fit("fit 2", model, generator(), epochs=2, steps_per_epoch=2)
        fit("refused", model, generator(), class_weight={0: 1.0, 1: 3.0})
        fit("refused too", model, slices((x, y)).batch(8), y)
    """,
    "pandas": """
        import pandas
        frame, series = pandas.DataFrame(x), pandas.Series(y)
        model = network()
        fit("fit", model, frame, series, epochs=2, batch_size=8, validation_split=0.3)
        note("predict", model.predict(frame, verbose=0))
        unknown = pandas.DataFrame({"a": pandas.array([1, None], dtype="Int64")})
        with noted("nullable"):
            model.fit(unknown, series[:2], verbose=0)
    """,
    "sparse and ragged": """
        import scipy.sparse
        model, sparse = network(), scipy.sparse.csr_matrix(x)
        fit("fit 1", model, sparse, y, epochs=2, batch_size=8, validation_data=(sparse, y))
        fit("fit 2", model, tf.sparse.from_dense(x), y, batch_size=8, shuffle=False)
        rows = tf.ragged.constant([[1.0] * (1 + row % 4) for row in range(43)])
        ragged = Subclass(keras.layers.Lambda(lambda rows: rows.to_tensor(shape=(None, 4))))
        ragged.compile("sgd", "mse")
        fit("fit 3", ragged, slices((rows, y)).batch(4), epochs=2)
    """,
    "float64": """
        keras.backend.set_floatx("float64")
        model = network()
        fit("fit", model, x.astype("float64"), y, epochs=2)
    """,
    "logs that are no metrics at an unknown end": """
        for batches, steps in ((5, 10), (7, 8), (1, 3)):
            model = OwnValues(keras.layers.Dense(4))
            model.compile("adam", "mse")
            data = slices((x, y)).batch(4).take(batches).filter(lambda x, y: True)
            fit(f"{batches} of {steps}", model, data, epochs=2, steps_per_epoch=steps)
            fit("one epoch", model, data)
    """,
    "a callback on batches": """
        class Batches(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                note("index", batch)
                self.model.optimizer.learning_rate = 0.01 / (batch + 1)
                self.model.stop_training = batch == 3
        model = network()
        fit("fit", model, x, y, batch_size=4, epochs=2, callbacks=[Batches()])
    """,
    "a callback that ends the training before a step": """
        class Ends(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                self.model.stop_training = epoch == 1
        for count in (None, 43):
            data = slices((x, y)).filter(lambda a, b: True) if count is None else slices((x, y))
            fit(f"fit {count}", network(), data.batch(4), epochs=3, callbacks=[Ends()])
        fit("arrays", network(), x, y, batch_size=4, epochs=3, callbacks=[Ends()])
        for steps in (5, 20):
            model = network(steps_per_execution=steps, jit_compile=False)
            fit(f"{steps} a call", model, slices((x, y)).batch(4), epochs=3, callbacks=[Ends()])
    """,
    "a callback that raises before the first step": """
        def fail(batch, logs):
            raise TypeError("no rate to set")
        model = network()
        fit("fit 1", model, x, y, callbacks=[calling(on_train_batch_begin=fail)])
        model.get_layer("first").trainable = False
        fit("fit 2", model, x, y, shuffle=False)
    """,
    "a PyDataset that a callback changes": """
        class Rows(keras.utils.PyDataset):
            order = np.arange(40)
            __len__ = lambda self: 5
            def __getitem__(self, index):
                rows = self.order[8 * index : 8 * index + 8]
                return x[rows], y[rows]
        for when in ("on_epoch_begin", "on_epoch_end"):
            data = Rows()
            turn = lambda epoch, logs: setattr(data, "order", data.order[::-1])
            fit(when, network(), data, epochs=2, shuffle=False, callbacks=[calling(**{when: turn})])
    """,
    "frozen weights that a callback changes": """
        model = nested(keras.layers.Dense(5), keras.layers.Dense(4))
        base = model.get_layer("a")
        base.trainable = False
        model.compile("adam", "mse")
        def change(epoch, logs):
            base.set_weights([weight * 1.5 for weight in base.get_weights()])
        rest = [calling(on_epoch_end=change)]
        fit("fit", model, slices((x, y)).batch(8), epochs=3, callbacks=rest)
    """,
    "a look-up table that a callback fills": """
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.5)
        def weigh(a, b):
            factor = tf.ensure_shape(table.lookup(tf.cast(b, tf.int64)), [])
            return tf.ensure_shape(a * factor, [6]), b
        data = slices((x, y)).map(weigh).batch(8)
        fill = lambda epoch, logs: table.insert(tf.constant([epoch], tf.int64), [2.0])
        fit("fit", network(), data, epochs=3, callbacks=[calling(on_epoch_end=fill)])
    """,
    "data of unknown rank": """
        unknown = lambda a, b: (tf.py_function(lambda a: a * 2, [a], tf.float32), b)
        fit("fit", network(), slices((x, y)).map(unknown).batch(8), epochs=2)
    """,
    "updates of the script's own before and behind fit": """
        model = network()
        for number in range(2):
            for rows in (x[:8], x[8:20]):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(model(rows, training=True) ** 2)
                gradients = tape.gradient(loss, model.trainable_variables)
                pairs = zip(gradients, model.trainable_variables, strict=True)
                model.optimizer.apply_gradients(pairs)
            fit(f"fit {number}", model, x, y, batch_size=8)
    """,
    "a strategy of the script's own over two replicas": """
        mirror(2)
        model, data = network(), slices((x, y)).map(lambda a, b: (a * 2, b)).batch(8)
        fit("fit 1", model, data, epochs=2, validation_data=data)
        fit("fit 2", model, x, y, batch_size=8)
    """,
    "data sets in pairs, of which one is shuffled or drawn": """
        drawn, mixed = with_noise(slices((x, y))), zipped(x, y)
        twice = slices((x, y)).shuffle(43).concatenate(slices((x, y)))
        for number, data in enumerate((drawn, mixed, twice)):
            fit(f"fit {number}", network(), data.batch(8), epochs=3)
    """,
    "numbers that are no whole ones": """
        data = slices((x, y)).batch(8).repeat()
        fit("steps", network(), data, epochs=2, steps_per_epoch=np.ceil(43 / 8))
        fit("epochs", network(), x, y, epochs=2.0, shuffle=False)
        fit("first epoch", network(), x, y, epochs=2, initial_epoch=1.0, shuffle=False)
    """,
    "steps a call that a script sets without compile": """
        for steps in (3, 16):
            model = network(jit_compile=False)
            fit(f"{steps} 1", model, x, y, batch_size=8)
            model.steps_per_execution = steps
            fit(f"{steps} 2", model, x, y, batch_size=8, epochs=2)
    """,
    "steps a call that a script sets before and after Keras traces anew": """
        model, data = network(steps_per_execution=2), slices((x, y)).batch(8).unbatch().batch(8)
        forces = calling(on_train_end=lambda *_: model.make_train_function(force=True))
        for number, steps, rest in ((1, 2, [acts, forces]), (2, 1, [acts]), (3, 2, [])):
            model.steps_per_execution = steps
            fit(f"fit {number}", model, data, epochs=2, callbacks=rest)
    """,
    "steps a call that a callback sets before the first one": """
        model, data = network(steps_per_execution=3), slices((x, y)).batch(8).unbatch().batch(8)
        sets = lambda *_: setattr(model, "steps_per_execution", 1)
        fit("fit", model, data, epochs=3, callbacks=[calling(on_train_begin=sets)])
    """,
    "a function that reads the data between fits and in one": """
        data = slices((x, y)).map(lambda a, b: (a * 2, b)).shuffle(43, seed=1).batch(8)
        weighed = tf.function(lambda data: data.reduce(
            0.0, lambda total, batch: 0.5 * total + batch[0][0, 0]))
        model = network()
        fit("fit 1", model, data, epochs=2)
        note("between", [float(weighed(data)) for _ in range(2)])
        fit("fit 2", model, data, epochs=2, validation_data=data)
        look = lambda epoch, logs: note("in a fit", float(weighed(data)))
        fit("fit 3", model, data, epochs=2, callbacks=[calling(on_epoch_end=look)])
        data = slices((x, y)).map(lambda a, b: (a * 2, b)).shuffle(43, seed=1).batch(8)
        fit("fit 4", model, data, epochs=2, callbacks=[calling(on_epoch_end=look)])
    """,
    "a session that is cleared between two fits": """
        model = network()
        fit("fit 1", model, x, y, shuffle=False)
        keras.backend.clear_session()
        fit("fit 2", model, x, y, shuffle=False)
    """,
    "data sets that share a shuffle, which one of them repeats": """
        model, data = network(), slices((x, y)).map(lambda a, b: (a * 2, b)).shuffle(43).batch(8)
        fit("fit 1", model, data, epochs=2)
        fit("fit 2", model, data.repeat(), epochs=2, steps_per_epoch=4)
        fit("fit 3", model, data, epochs=2)
        model, data = network(), slices((x, y)).map(lambda a, b: (a * 2, b)).shuffle(43).repeat(2)
        fit("fit 4", model, data.batch(8), epochs=2)
        note("between", model.predict(data.map(lambda a, b: a).batch(8), verbose=0))
        fit("fit 5", model, data.take(40).batch(8))
    """,
    "a map that computes, then draws": """
        turn = keras.layers.RandomTranslation(0.2, 0.2, seed=2)
        def augment(a, b):
            image = tf.image.resize(tf.reshape(a, (2, 3, 1)), (6, 6))
            image = turn(tf.image.random_flip_left_right(image), training=True)
            return tf.reshape(image, (36,))[:6] + tf.random.normal((6,)), b
        model, data = network(), slices((x, y)).shuffle(43).map(augment).batch(8)
        fit("fit 1", model, data, epochs=3, validation_data=data)
        fit("fit 2", model, data.repeat(), epochs=2, steps_per_epoch=4)
    """,
    "a frozen layer, and arrays that Keras shuffles": """
        def frozen():
            model = network()
            model.get_layer("first").trainable = False
            model.compile("adam", "mse")
            return model
        fit("fit 1", frozen(), x, y, epochs=3)
        fit("fit 2", frozen(), x, y, epochs=2, batch_size=8, validation_split=0.25)
        fit("fit 3", frozen(), x, y, epochs=2, batch_size=8, shuffle="batch")
        fit("fit 4", frozen(), x, y, epochs=2, batch_size=4, steps_per_epoch=6)
    """,
    "what is counted of the losses of several outputs": """
        model = two_outputs(keras.layers.Dense(4))
        model.compile("sgd", {"one": "mse", "two": "mae"})
        for rows in (40, 43):
            targets = {"one": y[:rows], "two": y[:rows]}
            fit(f"{rows} examples", model, x[:rows], targets, batch_size=8, shuffle=False)
            counted = [variable.numpy() for one in model.metrics for variable in one.variables]
            note(f"counted of {rows} examples", counted)
    """,
    "a step that draws, by train_on_batch before and behind fits": """
        hidden = [Jitter(), keras.layers.Dense(4)]
        for order in ("of", "fo", "ofof", "foof"):
            model = sequential(*hidden)
            model.compile("sgd", "mse")
            for number, what in enumerate(order):
                if what == "o":
                    note(f"{order} {number}", model.train_on_batch(x[:5], y[:5]))
                else:
                    fit(f"{order} {number}", model, x, y, shuffle=False)
    """,
    "draws in a cache, and in given steps what plugins do not take": """
        model, data = network("sgd"), cached(tf.random.Generator.from_seed(3))
        fit("fit 1", model, data, epochs=2)
        fit("fit 2", model, data, epochs=2, steps_per_epoch=4)
        fit("fit 3", model, data, epochs=2, validation_data=data, validation_steps=2)
    """,
    "parts of data that are cached before a shuffle": """
        def make():
            return slices((x, y)).map(lambda a, b: (a, b)).cache().shuffle(60, seed=7).batch(8)
        model, one, two = network("sgd"), make(), make()
        fit("fit 1", model, one.take(3), epochs=2)
        fit("fit 2", model, one, epochs=2)
        fit("fit 3", model, two, epochs=2, validation_data=one.take(2))
        fit("fit 4", model, two.take(3), epochs=2, steps_per_epoch=5)
        note("evaluate", model.evaluate(two.take(2), verbose=0))
        fit("fit 5", model, two.repeat(), epochs=2, steps_per_epoch=4)
    """,
    "an optimizer that is set between fits by different loops": """
        model = network()
        fit("fit 1", model, x, y, shuffle=False, callbacks=[acts])
        fit("fit 2", model, x, y, shuffle=False, class_weight={0: 1.0, 1: 2.0})
        model.optimizer = keras.optimizers.SGD(0.05)
        fit("fit 3", model, x, y, shuffle=False, callbacks=[acts])
    """,
    "what only a prefetch reads at the end of data": """
        rest = [calling(on_epoch_end=lambda *_: time.sleep(0.2))]
        draws = tf.random.Generator.from_seed(3)
        cached = slices((x, y)).map(lambda a, b: (a * draws.uniform(()), b)).cache()
        fit("fit 1", network("sgd"), cached.batch(8, drop_remainder=True), epochs=3, callbacks=rest)
        cached = slices((x, y)).shuffle(43, seed=7).cache()
        fit("fit 2", network("sgd"), cached.shard(2, 0).batch(7), epochs=3, callbacks=rest)
        data = slices((x, y)).batch(8).shuffle(6, seed=7)
        note("first", next(iter(data)))
        model = network("sgd")
        fit("fit 3", model, data.repeat(), epochs=2, steps_per_epoch=3)
        fit("fit 4", model, data, epochs=2)
    """,
    "a step that draws of Python while it is traced, by itself or for a seed of Keras'": """
        import random as of_python
        def two_fits(name, drawing):
            model = keras.Sequential([keras.Input((6,)), drawing, keras.layers.Dense(1)])
            model.compile("sgd", "mse")
            fit(f"{name} 1", model, x, y, shuffle=False, callbacks=[acts])
            fit(f"{name} 2", model, x, y, shuffle=False)
            note(f"python {name}", of_python.random())
        two_fits("itself", keras.layers.Lambda(lambda x: x * of_python.random()))
        with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
            two_fits("for a seed", keras.layers.Lambda(lambda x: keras.random.dropout(x, 0.4)))
        class Noise(keras.layers.Layer):
            def call(self, inputs, training=False):
                return keras.random.dropout(inputs, 0.4) if training else inputs
        keras.utils.set_random_seed(4)  # it drops the generator that the seed was drawn for
        two_fits("in training", Noise())
    """,
    "names that Keras gives to a model behind another one's fit": """
        for frozen in (False, True):
            first = layers.Dense(8, activation="relu", trainable=not frozen)
            model = keras.Sequential([keras.Input((6,)), first, layers.Dense(4), layers.Dense(1)])
            model.compile("sgd", "mse")
            fit(f"frozen {frozen}", model, x, y, shuffle=False)
        def part():
            given = keras.Input((6,))
            return keras.Model(given, layers.Dense(1)(given))
        given = keras.Input((6,))
        model = keras.Model(given, [part()(given), part()(given)])
        model.compile("sgd", ["mse", "mae"])
        fit("fit", model, x, (y, y), shuffle=False)
        note("names", [weight.path for weight in model.weights])
    """,
    # a graph for the size of the last batch alone sums a convolution's gradients in another order
    "a smaller last batch of images": """
        model = keras.Sequential([
            keras.Input((28, 28, 1)), layers.Conv2D(8, 3, strides=2, padding="same"),
            layers.BatchNormalization(), layers.ReLU(), layers.Conv2D(8, 3, padding="same"),
            layers.GlobalAveragePooling2D(), layers.Dense(1)])
        model.compile("adam", "mse")
        images = random.uniform(size=(80, 28, 28, 1)).astype("float32")
        targets = random.uniform(size=(80, 1)).astype("float32")
        fit("fit", model, images, targets, batch_size=64, epochs=2)
    """,
}  # fmt: skip


@functools.cache
def trainer():
    return Trainer()


def trained(fits, stack):
    body = textwrap.indent(textwrap.dedent(fits), "    ")
    return trainer().run(f"{BEGIN}\nwith under({stack!r}):\n{body}")


def differences(plain, fits, stack):
    """How the fits differ under a stack, without the plugins of it that are refused by name."""
    found = trained(fits, stack)
    rest = [one for one in stack if not found.refusal((one,))]
    if len(rest) < len(stack):
        return differences(plain, fits, rest) if rest else []
    return list(map(str, compare(plain, found).differences))


@pytest.mark.parametrize(
    "plugin",
    [
        {"use": "resident", "xla": True}, {"use": "chunked", "steps": 3, "xla": True},
        {"use": "gradient-accumulation", "steps": 2},
    ],
    ids=lambda plugin: plugin["use"],
)  # fmt: skip
def test_the_logged_loss_of_each_output_counts_a_smaller_last_batch_as_keras_does(plugin):
    fits = """
        model = two_outputs(keras.layers.Dense(4))
        model.compile("sgd", {"one": "mse", "two": "mae"})
        fit("fit", model, slices((x, {"one": y, "two": y})).batch(8), epochs=2)
    """
    plain, found = (trained(fits, stack) for stack in (None, [plugin]))
    assert found.applied(plugin["use"])
    assert not compare(plain, found).differences


def test_a_loop_of_tfopts_traces_no_step_anew_behind_one_of_keras_with_other_frozen_layers():
    # the callback keeps Keras' own loop in the first fit
    fits = """
        model = network()
        fit("fit 1", model, x, y, shuffle=False, callbacks=[acts])
        model.get_layer("first").trainable = False
        fit("fit 2", model, x, y, shuffle=False, epochs=2)
        model.get_layer("first").trainable = True
        fit("fit 3", model, x, y, shuffle=False)
    """
    plain, found = (trained(fits, stack) for stack in (None, STACKS["chunked"]))
    assert plain.ended is None
    assert not compare(plain, found).differences
    assert "in 1 of 3 fits" in found.effects["chunked"][1]


@pytest.mark.parametrize("loop", ["chunked", "resident"])
def test_a_fit_that_was_refused_leaves_the_next_one_as_in_plain_keras(loop):
    fits = """
        def freeze(logs=None):
            model.get_layer("first").trainable = False
        freezes = calling(on_train_begin=freeze)
        model = network()
        fit("fit 1", model, x, y, shuffle=False, callbacks=[acts])
        {refused}
        fit("fit 3", model, x, y, shuffle=False, epochs=2)
        fit("fit 4", network(), x, y, shuffle=False)
    """
    refused = 'fit("fit 2", model, x, y, shuffle=False, callbacks=[freezes])'
    plain = trained(fits.format(refused="freeze()"), None)
    found = trained(fits.format(refused=refused), STACKS[loop])
    [why] = [note for name, note in found.notes if name == "fit 2 raised"]
    assert "train with other layers frozen" in why
    assert f"{loop}" in why
    rest = attrs.evolve(found, notes=tuple(n for n in found.notes if not n[0].startswith("fit 2")))
    assert not compare(plain, rest).differences
    assert found.applied(loop)  # in the last one


def test_an_optimizer_that_a_plugin_replaced_goes_on_where_the_script_compiles_with_its_own_again():
    fits = """
        own = keras.optimizers.SGD(0.05, momentum=0.9)
        model = network(own)
        fit("fit 1", model, x, y)
        for number in (2, 3):
            model.compile(own if number == 2 else model.optimizer, "mse", metrics=["mae"])
            fit(f"fit {number}", model, x, y)
        model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
        fit("fit 4", model, x, y)
    """
    found = trained(fits, [{"use": "lr-schedule", "schedule": "constant", "warmup_epochs": 0.5}])
    made = {name: int(value) for name, value in found.notes if name.endswith(".iterations")}
    assert [made[f"fit {number}.iterations"] for number in (1, 2, 3, 4)] == [2, 4, 6, 2]
    assert found.effects["lr-schedule"] == (True, "CosineDecay, learning rate 0.05 after 2 steps")


def test_a_map_over_batches_makes_the_same_bits_in_the_loop_as_in_tf_data():
    fits = """
        data = slices((x, y)).batch(8).map(lambda a, b: (a / 255.0, b))
        fit("fit", network(), data, epochs=2)
    """
    plain, found = (trained(fits, stack) for stack in (None, STACKS["resident"]))
    assert found.effects["resident"][0]
    assert (*compare(plain, found).differences, compare(plain, found).rounded) == ("",)


def test_loops_make_as_many_steps_as_there_are_batches_where_a_plugin_drops_the_last():
    fits = 'fit("fit", network(), x, y, batch_size=8, epochs=2)'
    drops = {"use": "batch", "last": "drop"}
    plain = trained(fits, [drops])
    assert plain.effects["batch"][0]
    for loop in ("chunked", "resident", "steps-per-execution"):
        found = trained(fits, [drops, *STACKS[loop]])
        assert found.effects[loop][0]
        assert not compare(plain, found).differences


def test_a_shuffle_whose_examples_a_cache_has_computed_otherwise_is_no_place_for_other_data():
    fits = """
        def mirrored(a, b):
            return tf.ensure_shape(tf.gather(a, tf.range(6)[::-1], axis=1), (None, 6)), b
        model, data = network(), slices((x, y)).shuffle(43, seed=7).batch(8).map(mirrored)
        fit("fit 1", model, data.repeat(), epochs=2, steps_per_epoch=4)
        fit("fit 2", model, data, epochs=2)
    """
    assert trained(fits, [{"use": "cache"}]).refusal([{"use": "cache"}])


def test_frozen_features_of_arrays_that_keras_shuffles_keep_its_order():
    fits = """
        model = network()
        model.get_layer("first").trainable = False
        model.compile("adam", "mse")
        fit("fit", model, x, y, epochs=3)
    """
    for storage, applied in (("memory", True), ("disk", False)):
        found = trained(fits, [{"use": "frozen-features", "storage": storage}])
        assert found.effects["frozen-features"][0] is applied
        assert not compare(trained(fits, None), found).differences


@pytest.mark.parametrize("kind", KINDS)
def test_each_stack_trains_as_plain_keras_or_is_refused_by_name(kind):
    plain = trained(KINDS[kind], None)
    assert plain.ended is None
    found = {name: differences(plain, KINDS[kind], stack) for name, stack in STACKS.items()}
    assert not {name: each for name, each in found.items() if each}
