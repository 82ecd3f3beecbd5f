"""Every verb on a cluster against the dense formulas: the contract that all engines are held to."""

import time

import numpy as np
import pytest
from scipy.sparse import csr_array

from adaam.engines import CPUEngine, DaskEngine
from adaam.engines.neighbors.graph import HostHalf
from contracts import test_engines as contract

pytest.importorskip("distributed", reason="Dask's distributed is not installed")


@pytest.mark.parametrize("block_rows", [7, 40, 150])
def test_cut_is_that_of_one_machine(monkeypatch, block_rows):
    from adaam.engines.cluster import pairs

    monkeypatch.setattr(pairs, "FEW_PAIRS", 1)
    engine = DaskEngine(block_rows=block_rows)
    P = contract.factor(150, 5)
    for weights in (contract.multiset(150), 1.0):
        counts = np.broadcast_to(weights, 150)
        for share in (1e-4, 0.03, 0.4, 0.99):
            t = max(1.0, np.floor(share * counts.sum() ** 2))
            found = contract.cut_of(engine, engine.asarray(P), t, weights, weights**2)
            expected = contract.cut_of(CPUEngine(), P, t, weights, weights**2)
            assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("task_bytes", [1, 60_000, 1 << 28])
def test_a_graph_meets_all_rows_whether_or_not_a_task_can_hold_them(task_bytes):
    rng = np.random.default_rng(0)
    X, H = contract.cloud(150), csr_array(rng.random((150, 150)) * (rng.random((150, 150)) < 0.1))
    engine = DaskEngine(block_rows=31, task_bytes=task_bytes)
    np.testing.assert_allclose(engine.asarray(HostHalf(H)).gram(engine.asarray(X)), X.T @ H @ X, atol=1e-10)


@pytest.mark.parametrize("n_blocks", range(1, 13))
@pytest.mark.parametrize("group", [1, 2, 5])
@pytest.mark.parametrize("growing", [False, True])
def test_each_pair_of_blocks_is_met_once(n_blocks, group, growing):
    from adaam.engines.cluster.pairs import pair_tasks

    met = []
    for tasks in pair_tasks(n_blocks, group, growing=growing):
        for task in tasks:
            met += [frozenset((task.own, other)) for other in task.others] + [frozenset((task.own,))] * task.with_own
            assert len(task.others) <= group
    assert sorted(map(sorted, met)) == sorted([i, j][i == j :] for i in range(n_blocks) for j in range(i, n_blocks))


@pytest.mark.parametrize("in_flight", [1, 3, 20])
def test_tasks_of_a_pass_come_in_order_and_few_at_a_time(client, in_flight):
    from adaam.engines.cluster.workers import AT_ONCE, connected

    workers = connected(client, in_flight, 60.0, False)
    submitted, most = [], min(in_flight, AT_ONCE * workers.n_threads)

    def submit(i):
        # The first takes longest: others are submitted meanwhile, as many as may wait for it.
        submitted.append(workers.call("turn", slow, i, 0.5 if i == 0 else 0.0))
        assert sum(not future.done() for future in submitted) <= most
        return submitted[-1]

    taken = []
    for future in workers.in_turn("turns", map(submit, range(25)), 25):
        taken.append(workers.fetch([future])[0])
        assert len(submitted) - len(taken) < max(in_flight, 1)
    assert taken == list(range(25))


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


@pytest.mark.parametrize("n_parts", [1, 7, 8, 30])
def test_results_are_added_up_in_their_order(client, n_parts):
    from adaam.engines.cluster.workers import connected

    workers = connected(client, None, 60.0, False)
    parts = [workers.share("part", [i]) for i in range(n_parts)]
    assert workers.summed("lists", parts, joined_lists) == list(range(n_parts))
    assert workers.summed("numbers", [workers.share("part", i) for i in range(n_parts)]) == sum(range(n_parts))


def joined_lists(parts):
    return [item for part in parts for item in part]


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
