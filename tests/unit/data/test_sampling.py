"""The bytes of tensors of all kinds."""

import pytest
from support.lazy_modules import tf

from tfopt_core.data.anatomy import tensor_bytes

pytestmark = pytest.mark.tensorflow


def test_all_kinds_of_tensors_have_bytes():
    assert tensor_bytes(tf.zeros((2, 3), tf.float16)) == 12
    assert tensor_bytes(tf.constant(["ab", "c"])) == 3
    assert tensor_bytes(tf.ragged.constant([[1, 2], [3]], tf.int32)) == 3 * 4 + 3 * 8
    assert tensor_bytes(tf.sparse.from_dense([[0, 1]])) == 2 * 8 + 4 + 2 * 8
