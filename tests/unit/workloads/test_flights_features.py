"""The workload `flights-features`: what its map over batches makes of the table."""

import numpy as np
import pytest
from support.lazy_modules import keras
from tfopt_workloads import flights_features

from tfopt_core import DataPlan

pytestmark = pytest.mark.tensorflow


@pytest.mark.thorough
def test_its_batches_hold_what_is_encoded_ahead():
    keras.utils.set_random_seed(1)
    batches = flights_features.build(examples=40, batch_size=16)
    ahead = flights_features.build(examples=40, batch_size=16, prepare="ahead")
    features, late = (np.concatenate(parts) for parts in zip(*batches.train, strict=True))
    order, expected = (np.lexsort(np.asarray(rows).T) for rows in (features, ahead.train[0]))
    assert np.array_equal(features[order], np.asarray(ahead.train[0])[expected])
    assert np.array_equal(late[order], ahead.train[1][expected])
    assert [len(late) for _, late in batches.train] == [16, 16, 8]
    assert batches.build_model()(features).shape == (40, 1)


@pytest.mark.thorough
def test_its_training_batches_are_shuffled_anew_and_encoded_by_one_map():
    plan = DataPlan.from_dataset(flights_features.build(examples=40, batch_size=16).train)
    kinds = [stage.kind for stage in plan.stages]
    assert kinds == ["source", "shuffle", "batch", "map_batches", "prefetch"]
    assert plan.stages[1].describe() == "shuffle: buffer of 40, anew each epoch"
