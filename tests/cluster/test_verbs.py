"""Verbs on a cluster: which rows are gathered, and the order of tasks and sums. contracts/ compares the results."""

import time

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_blobs

from adaam import AdaAM, RowBlocks
from adaam.engines import CPUEngine, DaskEngine
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.neighbors.graph import HostHalf
from contracts import test_engines as contract

pytest.importorskip("distributed", reason="Dask's distributed is not installed")


@pytest.fixture
def gathered(monkeypatch):
    """Shapes of the rows that were gathered in this process, in order."""
    shapes = []
    original = ClusterRows.__array__

    def brought(self, dtype=None, copy=None):
        shapes.append(self.shape)
        return original(self, dtype)

    monkeypatch.setattr(ClusterRows, "__array__", brought)
    return shapes


def test_pairs_of_rows_are_worked_on_here_by_the_cpu_engine(gathered):
    X, P, weights = contract.cloud(150, 6), contract.factor(150, 4), contract.multiset(150)
    engine, on_host = DaskEngine(block_rows=40), CPUEngine()
    rows, factor = engine.asarray(X), engine.asarray(P)
    graph, expected = engine.neighbor_graph(rows, 5, weights), on_host.neighbor_graph(X, 5, weights)
    np.testing.assert_array_equal(graph.distances, expected.distances)
    half = HostHalf(csr_array(np.triu(np.ones((150, 150)), 140)))
    found = engine.cut_laplacian(factor, 900.0, rows, weights, weights**2, half)
    for part, wanted in zip(found, on_host.cut_laplacian(P, 900.0, X, weights, weights**2, half), strict=True):
        np.testing.assert_array_equal(part, wanted)
    np.testing.assert_array_equal(engine.asarray(half).gram(rows), half.gram(X))
    assert gathered == [(150, 6), (150, 4)], "rows come once"


def test_rows_that_do_not_fit_are_refused_with_a_way_out(monkeypatch):
    from distributed import system

    monkeypatch.setattr(system, "MEMORY_LIMIT", 2 * 150 * 6 * 8 - 1)
    rows = DaskEngine(block_rows=40).asarray(contract.cloud(150, 6))
    with pytest.raises(MemoryError, match=r"150 rows x 6 columns \(.* GB\).*it has .* GB.*RowBlocks.*a sample"):
        DaskEngine().neighbor_graph(rows, 5, 1.0)
    monkeypatch.setattr(system, "MEMORY_LIMIT", 2 * 150 * 6 * 8)
    assert DaskEngine().neighbor_graph(rows, 5, 1.0).n_rows == 150


def test_row_blocks_bring_no_rows_here(gathered, chunked):
    X, _ = make_blobs(600, 6, centers=4, random_state=0)
    model = AdaAM(4, engine=DaskEngine(block_rows=100), pairs=RowBlocks(n_rows=150)).fit(chunked(X))
    model.transform(chunked(X)).compute()
    assert gathered == []


@pytest.mark.parametrize("in_flight", [1, 3, 20])
def test_tasks_of_a_pass_come_in_order_and_few_at_a_time(client, in_flight):
    from adaam.engines.cluster.workers import connected

    workers = connected(client, in_flight, 60.0, False)
    taken = []

    class Calls(list):
        def __iter__(self):
            # The first takes longest. Meanwhile, as many others are submitted as may be in flight.
            for submitted, call in enumerate(super().__iter__()):
                assert submitted - len(taken) < in_flight
                yield call

    for number in workers.in_turn("turns", Calls((slow, i, 0.5 if i == 0 else 0.0) for i in range(25))):
        assert number == len(taken)
        taken.append(number)
    assert len(taken) == 25


def slow(number, seconds):
    time.sleep(seconds)
    return number


def with_sum(block, column, factor):
    return (block.sum(axis=1) + column) * factor


def test_blocks_get_their_part_of_columns_and_rows_and_all_of_the_rest():
    from adaam.engines.cluster.rows import ByRow

    X, numbers = contract.cloud(150), np.arange(150.0)
    engine = DaskEngine(block_rows=40)
    rows = engine.asarray(X)
    for column in (numbers, 2.0):
        found = rows.column("sums", with_sum, ByRow(column), 3.0)
        np.testing.assert_allclose(found, (X.sum(axis=1) + column) * 3.0)
    other = DaskEngine(block_rows=23).asarray(X)
    np.testing.assert_allclose(engine.cross(rows, other), X.T @ X)
    np.testing.assert_array_equal(np.asarray(rows[[0, 3, 40, 149]]), X[[0, 3, 40, 149]])
    with pytest.raises(ValueError, match="ascending order"):
        rows[[3, 0]]


class Joined(tuple):
    """Tuple whose sum concatenates, which shows the order of a sum; `__radd__` is for the initial zero."""

    def __add__(self, other):
        return Joined([*self, *other])

    def __radd__(self, other):
        return self


@pytest.mark.parametrize("n_parts", [1, 7, 8, 30, 70])
def test_results_are_added_up_in_their_order(client, n_parts):
    from adaam.engines.cluster.workers import connected

    workers = connected(client, None, 60.0, False)
    parts = [workers.call("part", Joined, (i,)) for i in range(n_parts)]
    assert workers.summed("parts", parts) == tuple(range(n_parts))


def test_lengths_of_rows_are_measured_once(monkeypatch):
    from adaam.engines.cluster.workers import Workers

    names = []
    original = Workers.call
    monkeypatch.setattr(Workers, "call", lambda self, name, *given: names.append(name) or original(self, name, *given))
    engine = DaskEngine(block_rows=40)
    rows = engine.asarray(contract.cloud(150))
    for _ in range(2):
        np.testing.assert_allclose(engine.row_norms(rows), np.linalg.norm(contract.cloud(150), axis=1))
    assert names.count("norms") == 4
