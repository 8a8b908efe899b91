"""The profiler's trace: its tables, and the extra run that it ends."""

import pytest
from tfopt_observe.profile import Profile, _folder, operation_table, share_table
from tfopt_observe.trace import Event, Trace, operation_times, read_trace, shares

from tfopt_core.plugins import Cluster, Control
from tfopt_core.testing import make_run

CALLED = "StatefulPartitionedCall/"
HOST = (
    Event("python", "EagerExecute", 0.0, 10.0),
    Event("tf_Compute/1", f"{CALLED}dense/MatMul:MatMul", 2.0, 5.0),
    Event("tf_Compute/2", f"{CALLED}dense/MatMul:MatMul", 3.0, 6.0),
    Event("tf_Compute/1", "ExecutorState::Process", 1.0, 9.0),
    Event("tf_Compute/1", "while:While", 2.0, 9.0),
    Event("tf_data_iterator_get_next/1", "IteratorGetNextOp::DoCompute", 0.0, 3.0),
    Event("tf_data_private_threadpool/1", "Cast:Cast", 0.0, 1.0),
)


def test_a_moment_is_the_devices_while_it_computes_and_the_inputs_while_a_step_only_waits():
    found = shares(Trace(HOST))
    assert (found.device, found.input, found.host, found.memory) == (4.0, 2.0, 4.0, 0.0)
    assert found.total == 10.0


def test_of_a_gpu_its_kernels_and_copies_count_and_not_what_the_host_starts():
    streams = (
        Event("Stream #1", "volta_sgemm", 6.0, 8.0),
        Event("Stream #2", "MemcpyH2D", 7.0, 9.0),
    )
    found = shares(Trace(HOST, streams))
    assert (found.device, found.memory, found.input, found.host) == (2.0, 1.0, 3.0, 4.0)
    parts = {time.name: time.part for time in operation_times(Trace(HOST, streams))}
    assert parts == {"volta_sgemm": "step", "MemcpyH2D": "copy", "Cast": "input"}


def test_calls_of_all_threads_add_up_without_those_within_them():
    within = Event("tf_Compute/1", f"{CALLED}dense/inner:Add", 3.0, 4.0)
    times = {time.name: time.seconds for time in operation_times(Trace((*HOST, within)))}
    assert times == {"dense/MatMul": 5.0, "dense/inner": 1.0, "Cast": 1.0}


def test_tables_show_shares_and_the_longest_operations():
    table = operation_table(operation_times(Trace(HOST)), 1, 2)
    assert "1 of 2" in table.title
    assert table.rows == (("dense/MatMul", "MatMul", "step", "3,000", "85.7%"),)
    rows = {row[0].partition(":")[0]: row[2] for row in share_table(shares(Trace(HOST))).rows}
    assert rows == {"input": "20%", "host": "40%", "device": "40%", "memory": "0%"}


@pytest.mark.tensorflow
def test_devices_are_read_by_their_streams_alone(tmp_path):
    from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

    space = XSpace()
    plane = space.planes.add(name="/device:GPU:0")
    plane.event_metadata[1].name = "kernel"
    for name in ("Stream #7", "XLA Modules"):
        line = plane.lines.add(name=name, timestamp_ns=10**9)
        line.events.add(metadata_id=1, offset_ps=10**12, duration_ps=5 * 10**11)
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space.SerializeToString())
    [event] = read_trace(path).devices
    assert (event.line, event.name, event.start, event.end) == ("Stream #7", "kernel", 2.0, 2.5)


@pytest.mark.tensorflow
def test_a_training_is_traced_and_the_trace_kept(train, tmp_path):
    driven = train(Profile(steps=2, skip=4), epochs=2)
    assert driven.effect.applied
    assert driven.effect.detail.startswith("2 steps in ")
    assert list(tmp_path.glob("kept/profile/plugins/profile/*/*.xplane.pb"))
    whose, operations = driven.effect.tables
    assert [row[0].partition(":")[0] for row in whose.rows] == ["input", "host", "device", "memory"]
    assert operations.columns[0] == "operation"
    assert any("MatMul" in row[1] for row in operations.rows)


@pytest.mark.parametrize(
    ("variant", "state", "stops"),
    [("observed", {"traced": 2}, True), ("observed", {}, False), ("full", {"traced": 2}, False)],
)
def test_only_the_extra_run_ends_with_its_trace(variant, state, stops):
    plugin, control = Profile(), Control()
    run = make_run(variant=variant)
    run.state_of(plugin).update(state)
    plugin.on_epoch_end(run, control)
    assert (control.stop_reason is not None) is stops


def test_a_second_fit_is_not_traced():
    effect = Profile().report_effect(make_run(fit_index=1))
    assert (effect.applied, effect.detail) == (False, "the first fit is traced")


def test_each_process_of_a_cluster_has_a_folder_for_its_trace():
    two = {"worker": ("a:1", "b:1")}
    folders = {_folder(Cluster(addresses=two, job="worker", index=index)) for index in range(2)}
    assert folders == {"profile-worker-0", "profile-worker-1"}
