"""Data service: the input pipeline is computed in processes of its own, here or elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, TypeGuard

import attrs
from attrs import validators

from tfopt_core.data import (
    COMPUTED_FROM,
    NEW_SEED,
    Batch,
    Cache,
    EvenSteps,
    Opaque,
    Resident,
    Shuffle,
    Stage,
)
from tfopt_core.plugins import (
    DataPlan,
    Diagnosis,
    Effect,
    Plugin,
    PluginRefused,
    Probe,
    RunContext,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import size_in_words, tf
from tfopt_data.rewrite import (
    Rewrite,
    chosen_otherwise,
    effect_if,
    remember,
    seen_through,
    stages_of,
)
from tfopt_data.service_dataset import ADDRESS, graph_of, reads_from_service, received, why_not_sent
from tfopt_data.service_local import LocalService

# A graph is a protocol buffer, and arrays are part of it.
MOST_ARRAY_BYTES = 2**31 - 2**20
# Fewer CPUs than this have none left for other processes while the model trains.
FEW_CPUS = 8
# Input that is waited for less is not worth the way between processes.
WAITING_SHARE = 0.3

Sharding = Literal["auto", "dynamic", "off"]
Serve = Callable[[Any], Any]

# By process, workers and port: what is built again in a process uses the same service.
_running: dict[tuple[int, int, int], LocalService] = {}


def with_service(plan: DataPlan, serve: Serve, *, divided: bool) -> Rewrite:
    """The plan with everything up to its end, less a prefetch, computed by a service.

    A worker builds the data anew for each epoch, and with them the numbers of a seed: what was
    shuffled anew each epoch is shuffled without a seed there.

    :param serve: from a data set to the one that receives its elements.
    :param divided: whether several workers share the elements out.
    :raises PluginRefused: for what cannot be sent to another process.
    """
    source = plan.source
    if source.origin == "pydataset":
        return Rewrite(plan, reason="a PyDataset is read by Keras' own workers, not by tf.data")
    for kind, name in ((Cache, "a cache"), (Resident, "the device's memory")):
        if any(stages_of(plan, kind)):
            return Rewrite(
                plan,
                reason=f"the examples are kept in {name}, and a worker forgets them after each "
                "epoch",
            )
    if source.origin == "generator":
        raise PluginRefused(
            "the examples come from a Python generator, which no other process can call; read them "
            "with TensorFlow's own operations"
        )
    for index, stage in enumerate(plan.stages):
        chosen = chosen_otherwise(plan.stages[index + 1 :]) if _reshuffles_by_seed(stage) else ""
        if chosen:
            return Rewrite(plan, reason=f"{stage.describe()}, without its seed: {chosen}")
    arrays = tf.nest.flatten(source.value) if source.origin == "arrays" else ()
    size = sum(getattr(array, "nbytes", 0) for array in arrays)
    if size > MOST_ARRAY_BYTES:
        raise PluginRefused(
            f"the examples are {size_in_words(size)} of arrays, and each worker gets them within "
            "a graph, which holds at most 2 GiB; read them from files"
        )
    batch = None if plan.batching is None else plan.batching[1]
    if divided:
        _check_batches(plan, batch)

    def computed_elsewhere(dataset: Any) -> Any:
        reason = why_not_sent(graph_of(dataset), divided=divided)
        if reason:
            raise PluginRefused(reason, "data-service")
        count = dataset.cardinality()
        answer = serve(dataset)
        if answer is not dataset:
            setattr(answer, COMPUTED_FROM, dataset)
        if divided and isinstance(batch, Batch):
            answer = answer.rebatch(batch.size)  # each worker had a smaller last batch
        known = int(count) >= 0
        return answer.apply(tf.data.experimental.assert_cardinality(count)) if known else answer

    # shuffles that reshuffle draw a new seed whenever they are built: behind the service, where a
    # seed would last, they would ask it for single examples instead of batches. The parts of a zip
    # may pair elements by theirs.
    plan = plan.with_stages(
        attrs.evolve(stage, seed=NEW_SEED) if _reshuffles_by_seed(stage) else stage
        for stage in plan.stages
    )
    computed_elsewhere.__qualname__ = "computed by the data service"
    place = len(plan.stages)
    # what evens the steps of workers of a strategy counts the batches that arrive
    while plan.stages[place - 1].neutral or isinstance(plan.stages[place - 1], EvenSteps):
        place -= 1
    stage = Opaque(function=computed_elsewhere)
    return Rewrite(plan.insert(place, stage), done=f"after {plan.stages[place - 1].describe()}")


def _reshuffles_by_seed(stage: Stage) -> TypeGuard[Shuffle]:
    return isinstance(stage, Shuffle) and stage.reshuffle and stage.seed != NEW_SEED


def _check_batches(plan: DataPlan, batch: Stage | None) -> None:
    if batch is None:
        if plan.batched:
            raise PluginRefused(
                "the workload makes batches in a way that tfopt does not see, and several workers "
                "would make more and smaller ones; set workers = 1"
            )
        return
    if type(batch) is not Batch:
        raise PluginRefused(
            f'"{batch.describe()}" makes batches of different shapes, and what several workers '
            "have left over cannot be put together; set workers = 1"
        )
    if batch.drop_remainder:
        raise PluginRefused(
            "the remainder is dropped, and each of several workers would drop one; set workers = 1"
        )


def _is_address(_: Any, attribute: Any, value: str | None) -> None:
    if value is not None and not ADDRESS.fullmatch(value):
        raise ValueError(f'{attribute.name} "{value}" is not of the form "grpc://host:port"')


@plugin
class DataService(Plugin):
    """Computes the training data in processes of their own, on this machine or on others.

    What it does: sends the input pipeline of the training data to a tf.data service and reads the
    batches from there. It starts a dispatcher and workers of its own, which end with the run, or
    uses a service that is there already. Every example is used once an epoch; with several workers
    the batches are put together again to the size that was asked for.

    Why it helps: the input pipeline no longer shares threads with the training; with `address`,
    other machines compute it, which is the way past an input that needs more CPUs than the machine
    with the accelerator has.

    When it does not: on one machine whose CPUs are busy already, batches only travel further, and
    each epoch begins about a quarter of a second late. Several workers ask for every single
    example, which takes a third of a millisecond: that pays only for examples that take longer.
    A worker takes seconds to start and about half a GiB of memory, which the run's peak does not
    count. Python functions, generators and Keras' random layers cannot be sent and are refused. A
    random operation draws the same numbers in every worker. What is shuffled anew each epoch is
    shuffled without a seed, so two runs of one seed see their examples in different orders.

    Mixes with: parallel-map, whose work it takes along. A cache leaves nothing to compute, so
    beside one it does nothing. TensorFlow's server listens on every network interface and asks
    nobody for a password: use it in networks that you trust.

    Reference: https://www.tensorflow.org/api_docs/python/tf/data/experimental/service
    """

    targets = ("input",)
    after = ("parallel-map",)
    equivalence = "order"  # the same examples, in another order

    workers: int = setting(
        default=1,
        validator=validators.ge(1),
        help="Processes that tfopt starts; ignored by a service elsewhere.",
    )
    port: int = setting(
        default=0,
        validator=[validators.ge(0), validators.le(65535)],
        help="The port of tfopt's own dispatcher; 0 takes a free one.",
    )
    address: str | None = setting(
        default=None,
        validator=_is_address,
        help='The dispatcher of a service that runs already, "grpc://host:port".',
    )
    sharding: Sharding = setting(
        default="auto",
        help="How workers share the examples out: dynamic has them ask for one after the other, "
        "off gives all to every worker and so takes a single one; auto is off for one worker and "
        "dynamic else.",
    )

    def __attrs_post_init__(self) -> None:
        if self.address is not None and (self.workers, self.port) != (1, 0):
            raise ValueError("workers and port belong to a service that tfopt starts; remove them")
        if self.sharding == "off" and (self.workers > 1 or self.address is not None):
            raise ValueError(
                'sharding = "off" has every worker read all examples, so an epoch would hold them '
                'several times; set sharding = "dynamic"'
            )

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where the training waits for input that is parallel already, and CPUs are left."""
        plan = diagnosis.plans.get("train")
        waits = diagnosis.input_seconds > WAITING_SHARE * diagnosis.step_seconds
        if plan is None or not waits or diagnosis.machine.cpu_count < FEW_CPUS:
            return None
        if plan.source.origin in ("generator", "pydataset") or diagnosis.found("python-generator"):
            return None
        if plan.find(Cache) is not None or diagnosis.found("sequential-map", "train"):
            return None  # there are cheaper ways
        return {"workers": 1}

    @property
    def divided(self) -> bool:
        """Whether there may be several workers, among whom the examples are shared out."""
        return self.workers > 1 or self.address is not None

    def resolve(self, probe: Probe) -> DataService:
        """Choose how the examples are shared out."""
        return attrs.evolve(self, sharding=self._sharding())

    @hookimpl
    def build_dataset(self, run: RunContext, split: str, plan: DataPlan) -> DataPlan:
        """Start the service, and have it compute the training data.

        :raises PluginRefused: if the port is taken, if no service is where one should be, and for
            data that cannot be sent.
        """
        if split != "train":
            return plan
        state = run.state_of(self)

        def serve(dataset: Any) -> Any:
            address = self.address
            if address is None:
                state["service"] = service = self._local(run)
                address = service.target
            return received(dataset, address, self._sharding())

        rewrite = with_service(plan, serve, divided=self.divided)
        if rewrite.done and self.address is None:
            state["service"] = self._local(run)
        return remember(self, run, split, rewrite)

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read back that the data come from the service, and that it lives; then end it."""
        service = run.state_of(self).get("service")
        try:
            found = effect_if(self, run, seen_through(reads_from_service), "no data service")
            if not found.applied:
                return found
            if service is None:
                return Effect.applied_as(f"{found.detail}, by {self.address}")
            alive, all_of_them = service.alive, len(service.processes)
            if alive < all_of_them:
                return Effect.not_applied(f"only {alive} of {all_of_them} workers lived to the end")
            words = "1 worker" if alive == 1 else f"{alive} workers"
            return Effect.applied_as(f"{found.detail}, by {words}")
        finally:
            if service is not None:
                service.stop()

    def _sharding(self) -> Literal["dynamic", "off"]:
        if self.sharding != "auto":
            return self.sharding
        # a single worker reads all examples anyway; to be given them one by one, as "dynamic" does,
        # takes a message for each: 6 s in place of 1 s for 20,000 pictures of 28x28
        return "dynamic" if self.divided else "off"

    def _local(self, run: RunContext) -> LocalService:
        key = (os.getpid(), self.workers, self.port)  # a fork has none of its parent's
        service = _running.get(key)
        if service is None or service.stopped:
            service = LocalService.start(self.workers, self.port, run.folder / "data-service")
            _running[key] = service
        return service

    def by_hand(self) -> str:
        """The same in plain code."""
        service = self.address or "grpc://HOST:PORT"
        return (
            "# behind a tf.data.experimental.service.DispatchServer and its WorkerServers\n"
            "train = train.apply(tf.data.experimental.service.distribute(\n"
            "    tf.data.experimental.service.ShardingPolicy."
            f"{self._sharding().upper()}, {service!r}\n))"
        )
