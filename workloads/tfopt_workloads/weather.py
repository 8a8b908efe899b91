"""The workload `weather`: by how many degrees will the temperature have changed in some hours?

A recurrent network over hourly measurements: nothing is computed in the input pipeline, and a
step is a loop over the hours, in each a small product of matrices.
"""

from __future__ import annotations

from typing import Any

from tfopt_core import DataPlan, Workload
from tfopt_workloads import bundled
from tfopt_workloads.options import whole_number

FEATURES = (
    "temperature", "dew_point", "humidity", "wind_east", "wind_north", "precipitation",
    "pressure", "visibility", "sine_of_the_hour", "cosine_of_the_hour",
)  # fmt: skip
MEASURED = (
    "temperature", "dew_point", "humidity", "wind_direction", "wind_speed", "precipitation",
    "pressure", "visibility",
)  # fmt: skip

_CIRCLE = 6.283185307179586
_HIGHEST_WIND_SPEED = 200.0  # miles per hour; one row says 1,048
_TRAINING_SHARE = 0.8


def build(examples: int | None = None, hours: int = 48, ahead: int = 6, width: int = 1) -> Workload:
    """Hourly weather of three New York airports in 2013, and an LSTM.

    An example is a window of hours of one airport without a gap; its target is the temperature
    `ahead` hours after the last of them, minus that of the last. So the error is that of the
    temperature itself, in degrees Celsius. Six hours ahead "no change" errs by 2.43 on average,
    linear regression on the last 24 hours by 1.81, the network by 1.7. The last fifth of the time
    is for validation, and no window lies on both sides of the cut. A missing measurement is taken
    to be the last known one of its airport, but no target is made of one.

    :param examples: the number of training windows, spread evenly over the year; all by default.
        Validation windows stay.
    :param hours: the length of a window, 2 to 240.
    :param ahead: how many hours ahead, 1 to 72.
    :param width: multiplies the units of the LSTM.
    :raises WorkloadError: for a wrong option.
    """
    import numpy as np

    hours = whole_number("hours", hours, low=2, high=240)
    ahead = whole_number("ahead", ahead, low=1, high=72)
    width = whole_number("width", width, low=1)
    if examples is not None:
        whole_number("examples", examples, low=1)
    columns = bundled.load("weather")
    clock = columns["hour"]
    cut = clock.min() + _TRAINING_SHARE * (clock.max() - clock.min())
    starts = window_starts(columns, hours, ahead)
    train = starts[clock[starts + hours - 1 + ahead] < cut]
    if examples is not None:
        count = whole_number("examples", examples, low=1, high=len(train))
        train = train[np.linspace(0, len(train) - 1, count).astype(int)]
    features = hourly_features(columns, known=clock < cut)
    celsius = (columns["temperature"] - 32.0) / 1.8

    def windows(starts: Any) -> DataPlan:
        last = starts + hours - 1
        change = celsius[last + ahead] - celsius[last]
        inputs = features[starts[:, None] + np.arange(hours)]
        return DataPlan.from_arrays(inputs, change[:, None].astype(np.float32))

    def build_model() -> Any:
        return small_lstm(hours, width)

    def slow_adam() -> Any:
        # windows overlap; at Adam's 1e-3 the network knows the training months by heart in an epoch
        return keras.optimizers.Adam(3e-4)

    import keras

    return Workload(
        train=windows(train),
        validation=windows(starts[clock[starts] >= cut]),
        build_model=build_model,
        optimizer=slow_adam,
        loss="mse",
        metrics=["mae"],
        quality_metric="val_mae",
        epochs=5,
        batch_size=64,
        baseline=(
            "stock fit over plain tf.data: windows made and normalized beforehand with NumPy, "
            "shuffled anew each epoch, batched; no prefetch"
        ),
    )


def window_starts(columns: dict[str, Any], hours: int, ahead: int) -> Any:
    """The rows (n,) at which a window begins whose hours, up to the target's, have no gap.

    A window stays within an airport, and the temperature is known in its last hour and in the
    target's.
    """
    import numpy as np

    rows = np.arange(len(columns["hour"]) - (hours - 1 + ahead))
    last = rows + hours - 1
    clock, airport = columns["hour"], columns["airport"]
    # rows are ordered by airport and hour, and no hour occurs twice
    whole = clock[last + ahead] - clock[rows] == hours - 1 + ahead
    alike = airport[last + ahead] == airport[rows]
    known = ~np.isnan(columns["temperature"])
    return rows[whole & alike & known[last] & known[last + ahead]]


def hourly_features(columns: dict[str, Any], known: Any) -> Any:
    """What the network sees of each hour, (rows, 10) float32 in the order of `FEATURES`.

    Measurements are standardized by their mean and deviation over the rows `known`, those of the
    training part; wind is a vector, precipitation its logarithm, the hour of the day (in universal
    time) a point on a circle.
    """
    import numpy as np

    speed = columns["wind_speed"]
    believed = np.where(speed < _HIGHEST_WIND_SPEED, speed, np.nan)
    filled = {
        name: last_known(believed if name == "wind_speed" else columns[name], columns["airport"])
        for name in MEASURED
    }
    blows_from = filled["wind_direction"] * (_CIRCLE / 360)
    measured = np.stack(
        [
            filled["temperature"],
            filled["dew_point"],
            filled["humidity"],
            -filled["wind_speed"] * np.sin(blows_from),
            -filled["wind_speed"] * np.cos(blows_from),
            np.log1p(100 * filled["precipitation"]),
            filled["pressure"],
            filled["visibility"],
        ],
        axis=-1,
    )
    standardized = (measured - measured[known].mean(axis=0)) / measured[known].std(axis=0)
    angle = columns["hour"] % 24 * (_CIRCLE / 24)
    circle = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    return np.concatenate([standardized, circle], axis=-1).astype(np.float32)


def last_known(values: Any, airport: Any) -> Any:
    """The values (rows,) as float64, each NaN replaced by the last number of its airport before.

    Those before the first number of an airport stay NaN; the bundled data have none.
    """
    import numpy as np

    rows = np.arange(len(values))
    source = np.maximum.accumulate(np.where(np.isnan(values), -1, rows))
    same = (source >= 0) & (airport[source] == airport)
    return np.where(same, values[source], np.nan).astype(np.float64)


def small_lstm(hours: int, width: int = 1) -> Any:
    """An LSTM and a dense layer of one unit: the change in degrees Celsius; nothing random."""
    import keras
    from keras import layers

    weather = keras.Input((hours, len(FEATURES)), name="weather")
    hidden = layers.LSTM(64 * width)(weather)
    change = layers.Dense(1, name="change")(hidden)
    return keras.Model(weather, change, name="small_lstm")
