"""Files are read several at a time: the same examples, and never anything but files."""

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples
from support.lazy_modules import tf
from support.pipelines import assert_left_alone
from support.plugin_drive import CPU, FakeProbe
from tfopt_data.interleave import Interleave, with_interleave

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower


def write_records(folder, *sizes):
    """A TFRecord file for each size, with records that tell file and place."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, size in enumerate(sizes):
        paths.append(str(folder / f"{number}.tfrecord"))
        with tf.io.TFRecordWriter(paths[-1]) as writer:
            for place in range(size):
                writer.write(f"{number}-{place}".encode())
    return paths


def records(path):
    return tf.data.TFRecordDataset(path)


def words(sentence):
    return tf.data.Dataset.from_tensor_slices(tf.strings.split(sentence))


def read(plan):
    return [element.numpy() for element in lower(plan)]


def files(*paths):
    return DataPlan.from_arrays(np.array(paths))


def one_by_one(paths):
    return files(*paths).interleave(records, cycle_length=1)


def test_files_read_one_after_another_are_read_at_once(tmp_path):
    plan = one_by_one(write_records(tmp_path, 3, 3, 3))
    rewrite = with_interleave(plan, 2)
    assert rewrite.done.endswith("-> 2 files at once")
    assert read(rewrite.plan)[:4] == [b"0-0", b"1-0", b"0-1", b"1-1"]
    assert sorted(read(rewrite.plan)) == sorted(read(plan))


def test_text_files_of_a_concatenation_are_read_at_once(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    paths = tf.data.Dataset.from_tensor_slices([str(tmp_path / "a"), str(tmp_path / "b")])
    lines = paths.flat_map(tf.data.TextLineDataset)
    plan = DataPlan.from_dataset(lines.concatenate(lines))
    rewrite = with_interleave(plan, 2)
    assert read(rewrite.plan) == [b"a1", b"b1", b"a2", b"b2"] * 2


def test_shards_of_the_files_are_no_hindrance_but_what_is_chosen_behind_them_is(tmp_path):
    paths = write_records(tmp_path, 2, 2, 2)
    assert with_interleave(files(*paths).take(2).interleave(records, cycle_length=1), 2).done
    rewrite = with_interleave(one_by_one(paths).take(3), 2)
    assert rewrite.reason.endswith('"take: 3" behind it would choose other examples')


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (files("a b", "c d").interleave(words, cycle_length=1), "something else than files"),
        (files("a", "b").interleave(records, cycle_length=2), "reads several at once already"),
        (files("a").interleave(records, cycle_length=1), "there is one file"),
        (files("a", "b").batch(2), "no files are read one after another"),
    ],
)
def test_plan_is_unchanged_with_the_reason(plan, reason):
    assert_left_alone(plan, with_interleave(plan, 4), reason)


def test_windows_are_not_mixed():
    given_data = tf.data.Dataset.range(9).window(3).flat_map(lambda window: window.batch(3))
    plan = DataPlan.from_dataset(given_data)
    assert with_interleave(plan, 3).plan is plan


def test_auto_takes_two_files_for_each_cpu_and_sixteen_at_most():
    assert Interleave().resolve(FakeProbe()).cycle_length == 4
    many = FakeProbe(machine=attrs.evolve(CPU, cpu_count=64))
    assert Interleave().resolve(many).cycle_length == 16
    assert Interleave(cycle_length=3).resolve(many).cycle_length == 3


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # records are not counted
def test_effect_reads_the_parallel_interleave_back(train, tmp_path):
    def parsed(record):
        number = tf.strings.to_number(tf.strings.split(record, "-"))
        return tf.tile(number, [2]), number[:1]

    plan = one_by_one(write_records(tmp_path / "data", 16, 16)).map(parsed).batch(16)
    effect = train(Interleave(), plan=plan, steps_known=False).effect
    assert effect.applied
    assert effect.detail.endswith("2 files at once")


@few_examples(10)
@given(st.lists(st.integers(0, 5), min_size=2, max_size=5), st.integers(2, 8), st.booleans())
def test_every_record_is_read_once(tmp_path_factory, sizes, length, ordered):
    plan = one_by_one(write_records(tmp_path_factory.mktemp("records"), *sizes))
    rewrite = with_interleave(plan, length, ordered)
    assert sorted(read(rewrite.plan)) == sorted(read(plan))
