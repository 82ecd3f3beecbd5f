"""Workers die, pause and vanish in the middle of a fit: it ends with the same result, or an error says what to do."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.datasets import load_digits

from adaam import AdaAM, AdaAMClustering, RowBlocks
from adaam.engines import ClusterError, DaskEngine
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cluster.workers import Workers

pytest.importorskip("distributed", reason="Dask's distributed is not installed")


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)[0]


@pytest.fixture(scope="module")
def expected(digits):
    return AdaAMClustering(10, learner=AdaAM(10), head="k-means").fit(digits)


def kill_one(client):
    """Kill the worker process that holds the most."""
    held = {worker: len(keys) for worker, keys in client.has_what().items()}
    os.kill(client.run(os.getpid)[max(held, key=held.get)], signal.SIGKILL)


@pytest.fixture
def when(monkeypatch):
    """Do something once, right after the n-th task of a name (or of any name) was submitted."""
    original = Workers.call

    def at(name, count, deed):
        seen = []

        def call(self, task, work, *given):
            future = original(self, task, work, *given)
            if name in (task, "any"):
                seen.append(1)
                if len(seen) == count:
                    deed()
            return future

        monkeypatch.setattr(Workers, "call", call)
        return seen

    return at


PHASES = {"rows": 4, "equal-rows": 3, "norms": 2, "scatter": 4, "scatter-sum": 1, "project": 7, "cross": 3}


@pytest.mark.parametrize("phase", PHASES)
def test_a_worker_killed_in_any_phase_changes_nothing(client, digits, expected, when, phase):
    seen = when(phase, PHASES[phase], lambda: kill_one(client))
    engine = DaskEngine(block_rows=300)
    found = AdaAMClustering(10, learner=AdaAM(10, engine=engine), head="k-means").fit(digits)
    assert len(seen) >= PHASES[phase], "the phase was reached"
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-9
    np.testing.assert_array_equal(found.labels_, expected.labels_)


def test_a_worker_killed_before_its_rows_are_brought_here_changes_nothing(client, digits, expected, monkeypatch):
    original = ClusterRows.__array__

    def brought(self, dtype=None, copy=None):
        monkeypatch.setattr(ClusterRows, "__array__", original)
        kill_one(client)
        return original(self, dtype)

    monkeypatch.setattr(ClusterRows, "__array__", brought)
    found = AdaAM(10, engine=DaskEngine(block_rows=300)).fit(digits)
    assert ClusterRows.__array__ is original, "rows were brought"
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-9


@pytest.mark.parametrize("phase", ["deal", "prepare", "row-blocks"])
def test_a_worker_killed_among_row_blocks_changes_nothing(client, digits, when, phase):
    pairs = RowBlocks(n_rows=300)
    seen = when(phase, 2, lambda: kill_one(client))
    found = AdaAM(10, pairs=pairs, engine=DaskEngine(block_rows=300)).fit(digits)
    assert len(seen) >= 2
    assert subspace_angles(found.components_.T, AdaAM(10, pairs=pairs).fit(digits).components_.T).max() < 1e-9


def pause(dask_worker, seconds=None):
    """Pause a worker for some seconds, or for ever, and return its state.

    Its memory monitor is turned off, as it would resume it at once.
    """
    from distributed.core import Status

    dask_worker.memory_manager.memory_pause_fraction = False
    dask_worker.status = Status.paused
    if seconds is not None:
        dask_worker.loop.call_later(seconds, setattr, dask_worker, "status", Status.running)
    return dask_worker.status.name


def test_a_worker_paused_for_a_while_changes_nothing(client, digits, expected, when):
    """A worker above its memory threshold starts no task until it has spilled; meanwhile others read what it holds."""
    paused = next(iter(client.nthreads()))
    states = []
    when("scatter", 4, lambda: states.append(client.run(pause, seconds=3.0, workers=[paused])))
    found = AdaAM(10, engine=DaskEngine(block_rows=300)).fit(digits)
    assert states == [{paused: "paused"}], "a worker was paused on the way"
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-9


@pytest.mark.parametrize("phase", ["scatter", "cross"])
def test_a_worker_paused_for_ever_is_done_without_or_named(new_cluster, digits, expected, when, phase):
    """Others take over, unless it already has a task, which cannot be taken back; then the error names the worker."""
    with new_cluster(3, current=False) as other:
        paused = next(iter(other.nthreads()))
        states = []
        when(phase, 6, lambda: states.append(other.run(pause, workers=[paused])))
        told = ""
        found = AdaAM(10, engine=DaskEngine(client=other, block_rows=300, patience=1.0))
        try:
            found.fit(digits)
        except ClusterError as error:
            told = str(error)
    assert states == [{paused: "paused"}], "a worker was paused on the way"
    if told:
        assert paused in told
        assert "retire_workers" in told
    else:
        assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-9


def test_workers_that_are_all_paused_are_a_clear_error(new_cluster, digits, when):
    with new_cluster(1, current=False) as other:
        when("scatter", 2, lambda: other.run(pause))
        with pytest.raises(ClusterError, match=r"paused have held up the fit for 1 seconds: tcp://.*repeated"):
            AdaAM(10, engine=DaskEngine(client=other, block_rows=300, patience=1.0)).fit(digits)


def test_a_lost_scheduler_is_a_clear_error_and_the_fit_can_be_repeated(new_cluster, digits, expected, when):
    with new_cluster(1, current=False) as doomed:
        when("row-blocks", 2, lambda: doomed.cluster.close())
        with pytest.raises(ClusterError, match="repeat the fit"):
            AdaAM(10, engine=DaskEngine(client=doomed, block_rows=300), pairs=RowBlocks(300)).fit(digits)
    found = AdaAM(10, engine=DaskEngine(block_rows=300)).fit(digits)
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-9


def test_no_worker_at_all_is_a_clear_error(new_cluster, digits, when):
    with new_cluster(1, current=False) as doomed:
        when("scatter", 1, lambda: doomed.cluster.scale(0))
        with pytest.raises(ClusterError, match="no worker for 1 seconds"):
            AdaAM(10, engine=DaskEngine(client=doomed, block_rows=300, patience=1.0)).fit(digits)


def test_a_task_that_kills_every_worker_is_a_clear_error(new_cluster, digits, when):
    """A task that ends one worker after another is abandoned, and the error says what to change."""
    with new_cluster(1, current=False) as doomed:
        stop = threading.Event()

        def kill_on():
            while not stop.is_set():
                for pid in doomed.run(os.getpid, on_error="ignore").values():
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.3)

        killer = threading.Thread(target=kill_on)
        when("row-blocks", 1, killer.start)
        try:
            with pytest.raises(ClusterError, match="can be repeated"):
                AdaAM(10, engine=DaskEngine(client=doomed, block_rows=2000), pairs=RowBlocks(900)).fit(digits)
        finally:
            stop.set()
            killer.join()


def test_without_a_client_the_way_out_is_named():
    import distributed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "get_client", lambda: (_ for _ in ()).throw(ValueError("No clients found")))
        with pytest.raises(RuntimeError, match="Start one first"):
            AdaAM(3, engine="dask").fit(np.eye(4))


@pytest.mark.paper
@pytest.mark.slow
def test_all_of_mnist_within_small_workers_with_one_killed_at_a_random_moment(client, paper_data, tmp_path, when):
    """70,000 rows read from disk by three workers of 1.5 GB each; one of them dies on the way."""
    import dask.array as da

    zarr = pytest.importorskip("zarr")
    X, _, _ = paper_data("mnist")
    store = zarr.create_array(str(tmp_path / "mnist.zarr"), shape=X.shape, chunks=(5000, 784), dtype="uint8")
    store[:] = X.astype(np.uint8)
    rows = da.from_zarr(str(tmp_path / "mnist.zarr"))
    moment = int(np.random.default_rng().integers(50, 500))
    print(f"a worker is killed after {moment} tasks")  # noqa: T201
    seen = when("any", moment, lambda: kill_one(client))
    model = AdaAM(10, engine="dask", pairs=RowBlocks()).fit(rows)
    assert len(seen) > moment, "the fit was under way"
    on_host = AdaAM(10, pairs=RowBlocks()).fit(X)
    assert subspace_angles(model.components_.T, on_host.components_.T).max() < 1e-4
