"""The strategies over several processes and TPUs, with TensorFlow's own part replaced."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from support.lazy_modules import tf
from support.plugin_drive import CPU, FakeProbe, machine_with
from tfopt_distribute.multi_worker import MultiWorker
from tfopt_distribute.parameter_server import ParameterServer
from tfopt_distribute.tpu import Tpu, check_full_batches

from tfopt_core import DataPlan
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.plugins import Cluster, ClusterOptions, PluginRefused, Serve
from tfopt_core.testing import make_run, stack_of

SERVED = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    for name in ("TF_CONFIG", "SLURM_PROCID", "SLURM_JOB_ID", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)


def tell(monkeypatch, cluster, job, index):
    config = {"cluster": cluster, "task": {"type": job, "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


def runtime(plugin):
    stack = Stack([StackedPlugin("it", plugin)])
    return stack.configure_runtime(CPU, None)


def cluster(index, workers=2):
    addresses = {"worker": tuple(f"host{i}:1" for i in range(workers))}
    return Cluster(addresses=addresses, job="worker", index=index)


def numbers(size=8):
    return DataPlan.from_arrays(np.arange(32)).shuffle(seed=1).batch(size)


def test_settings_announce_the_cluster_before_tensorflow_starts():
    several = runtime(MultiWorker(workers=3, join_seconds=20.0))
    assert several.cluster == ClusterOptions(workers=3, join_seconds=20.0)
    served = runtime(ParameterServer(workers=4, parameter_servers=2))
    assert served.cluster == ClusterOptions(workers=4, parameter_servers=2)
    assert runtime(Tpu()).strategy_first
    assert runtime(Tpu()).cluster is None


def test_nccl_needs_a_gpu():
    asked = MultiWorker(communication="nccl")
    with pytest.raises(PluginRefused, match='this machine has none; set it to "auto"'):
        asked.resolve(FakeProbe())
    assert asked.resolve(FakeProbe(machine=machine_with((8, 0)))) is asked


def test_each_worker_gets_its_part_and_a_dry_build_shows_it():
    plan = numbers()
    dry = MultiWorker().build_dataset(make_run(), "train", plan)
    assert dry.describe()[-1] == "part of each batch: one of 2 workers"
    for split in ("train", "validation"):
        run = make_run(cluster=cluster(1, workers=3))
        mine = MultiWorker().build_dataset(run, split, plan)
        assert mine.describe()[-1] == "part of each batch: 2 of 3 workers"
        assert (mine.examples, mine.batch_size) == (32, 8)


def test_a_batch_per_replica_is_larger_for_training_and_steps_are_fewer():
    plugin = MultiWorker(batch_size="per-replica", learning_rate="linear")
    run = make_run(cluster=cluster(0), replicas=4)
    larger = plugin.build_dataset(run, "train", numbers())
    assert (larger.batch_size, larger.cardinality) == (32, 1)
    assert plugin.build_dataset(run, "validation", numbers()).batch_size == 8
    dry = make_run(machine=machine_with((8, 0), (8, 0)))
    assert plugin.build_dataset(dry, "train", numbers()).batch_size == 32


def test_the_strategy_gets_resolver_and_communication_and_joins_just_before(monkeypatch):
    told = []
    made = SimpleNamespace(name="a strategy")

    def strategy(found, options):
        told.append((found.task_id, options))
        return made

    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", strategy)
    tell(monkeypatch, {"worker": ["a:1", "b:1"]}, "worker", 1)
    run = make_run(join=told.append)
    plugin = MultiWorker(communication="ring", pack_megabytes=2.5, timeout_seconds=30.0)
    assert stack_of(plugin).build_strategy(run) is made
    joined, (task, options) = told
    assert (joined.name, joined.rank, task) == ("worker 1", 1, 1)
    assert options.implementation == tf.distribute.experimental.CommunicationImplementation.RING
    assert (options.bytes_per_pack, options.timeout_seconds) == (2.5 * 2**20, 30.0)


@pytest.mark.parametrize("plugin", [MultiWorker(), ParameterServer()])
def test_nothing_is_joined_where_nothing_tells_the_cluster(plugin):
    joined = []
    with pytest.raises(PluginRefused, match="`tfopt launch` starts all workers"):
        stack_of(plugin).build_strategy(make_run(join=joined.append))
    assert joined == []


def test_a_training_of_one_process_is_not_called_distributed():
    run = make_run(strategy=tf.distribute.get_strategy())
    for plugin in (MultiWorker(), ParameterServer()):
        effects = stack_of(plugin).report_effects(run, None)
        [effect] = effects.values()
        assert not effect.applied
        assert effect.detail == "this process trained alone"


def test_a_single_worker_is_none_of_several():
    kind = tf.distribute.MultiWorkerMirroredStrategy
    strategy = kind.__new__(kind)  # a real one must be the first thing that a process makes
    run = make_run(strategy=strategy, cluster=cluster(0, workers=1))
    [effect] = stack_of(MultiWorker()).report_effects(run, None).values()
    assert effect.detail == "the cluster has a single worker, this one"


@pytest.mark.parametrize(("job", "index"), [("worker", 1), ("ps", 0)])
def test_workers_and_parameter_servers_serve_and_build_nothing(monkeypatch, job, index):
    tell(monkeypatch, SERVED, job, index)
    joined = []
    stack = stack_of(ParameterServer())
    served = stack.build_strategy(make_run(join=joined.append))
    assert isinstance(served, Serve)
    assert (served.cluster.name, served.protocol) == (joined[0].name, "grpc")
    assert (served.cluster.job, served.cluster.index) == (job, index)


def test_a_single_inter_op_thread_with_which_workers_would_wait_for_ever_is_refused(
    monkeypatch,
):
    tell(monkeypatch, SERVED, "worker", 1)
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "1")
    with pytest.raises(
        PluginRefused, match=r'single inter-op thread.*set inter_op = 2 in "threads"'
    ):
        stack_of(ParameterServer()).build_strategy(make_run(join=print))


def test_the_chief_hands_steps_out_and_core_learns_how_many_at_once(monkeypatch):
    tell(monkeypatch, SERVED, "chief", 0)
    made = SimpleNamespace()
    monkeypatch.setattr(
        tf.distribute.experimental, "ParameterServerStrategy", lambda resolver: made
    )
    stack = stack_of(ParameterServer(steps_per_closure=5))
    assert stack.build_strategy(make_run()) is made
    assert made.tfopt_steps_per_closure == 5


# TPU: not run on hardware yet, so TensorFlow's functions are replaced where the process ends.


@pytest.fixture
def fake_tpu(monkeypatch):
    """The calls that TensorFlow would have got."""
    calls = []

    def call(name):
        def called(*arguments, **named):
            calls.append((name, *arguments, named) if named else (name, *arguments))
            return f"made by {name}"

        return called

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", call("resolver"))
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", call("connect"))
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", call("initialize"))
    monkeypatch.setattr(tf.distribute, "TPUStrategy", call("strategy"))
    return calls


def test_a_tpu_is_found_connected_to_and_initialized_before_the_strategy(fake_tpu):
    stack = stack_of(Tpu(tpu="mine", zone="here"))
    assert stack.build_strategy(make_run()) == "made by strategy"
    found = "made by resolver"
    assert fake_tpu == [
        ("resolver", {"tpu": "mine", "zone": "here", "project": None}),
        ("connect", found), ("initialize", found), ("strategy", found),
    ]  # fmt: skip


def test_a_tpu_that_is_not_there_is_refused_with_the_mend():
    # TensorFlow's own resolver, which finds none in this environment
    with pytest.raises(
        PluginRefused, match=r"the TPU of the environment cannot be used \(.+\); set"
    ):
        stack_of(Tpu()).build_strategy(make_run())


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (numbers(7), "the last of 32 examples may be fewer than the others; add the plugin"),
        (DataPlan.from_generator(lambda: iter(())).batch(4), "the last batch may be fewer"),
        (numbers().with_stages(numbers().stages[:1]), "may be fewer"),
    ],
)
def test_batches_of_two_sizes_are_refused_for_a_tpu(plan, said):
    with pytest.raises(PluginRefused, match=said):
        Tpu().build_dataset(make_run(), "train", plan)
    assert Tpu().build_dataset(make_run(), "validation", plan) is plan


def test_full_batches_are_fine_for_a_tpu():
    check_full_batches(numbers(8))
    check_full_batches(DataPlan.from_arrays(np.arange(9)).batch(4, drop_remainder=True))


@pytest.mark.parametrize(
    ("devices", "replicas", "words"),
    [
        (("/TPU:0", "/TPU:1"), 2, "2 replicas on 2 cores"),
        (("/CPU:0",), 1, "the strategy's devices are /CPU:0"),
    ],
)
def test_the_cores_are_read_back(devices, replicas, words):
    extended = SimpleNamespace(worker_devices=devices)
    strategy = SimpleNamespace(num_replicas_in_sync=replicas, extended=extended)
    [effect] = stack_of(Tpu()).report_effects(make_run(strategy=strategy), None).values()
    assert effect.applied is (replicas == 2)
    assert effect.detail == words
