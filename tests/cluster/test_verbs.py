"""Every verb on a cluster against the dense formulas: the contract that all engines are held to."""

import time
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from adaam.engines import CPUEngine, DaskEngine
from contracts import test_engines as contract

pytest.importorskip("distributed", reason="Dask's distributed is not installed")


@pytest.mark.parametrize("block_rows", [7, 40, 150])
def test_cut_is_that_of_one_machine(monkeypatch, block_rows):
    from adaam.engines.cluster import pruned

    monkeypatch.setattr(pruned, "FEW_PAIRS", 1)
    engine = DaskEngine(block_rows=block_rows)
    P = contract.factor(150, 5)
    for weights in (contract.multiset(150), 1.0):
        counts = np.broadcast_to(weights, 150)
        for share in (1e-4, 0.03, 0.4, 0.99):
            t = max(1.0, np.floor(share * counts.sum() ** 2))
            found = contract.cut_of(engine, engine.asarray(P), t, weights, weights**2)
            expected = contract.cut_of(CPUEngine(), P, t, weights, weights**2)
            assert found == pytest.approx(expected, rel=1e-12)


def test_pieces_of_rows_are_sent_one_by_one_where_there_is_much_to_send(monkeypatch):
    from adaam.engines.cluster import tasks

    monkeypatch.setattr(tasks, "WHOLE_BYTES", 0)
    engine, X = DaskEngine(block_rows=31), contract.cloud(150)
    from adaam.affinity import HeatKernel, heat_affinity
    from adaam.sample import Sample

    found, expected = (
        heat_affinity(e.neighbor_graph(e.asarray(X), 5, 1.0), HeatKernel(), Sample(X, 1.0, e)).weights.toarray()
        for e in (engine, CPUEngine())
    )
    np.testing.assert_allclose(found, expected, atol=1e-13)
    rows, weights = engine.distinct(np.repeat(X, 2, axis=0), 1.0)
    np.testing.assert_array_equal(engine.to_host(rows), X)
    np.testing.assert_array_equal(engine.to_host(weights), 2.0)


@pytest.mark.parametrize("task_bytes", [1, 60_000, 1 << 28])
def test_a_graph_meets_all_rows_whether_or_not_a_task_can_hold_them(task_bytes):
    rng = np.random.default_rng(0)
    X, H = contract.cloud(150), csr_array(rng.random((150, 150)) * (rng.random((150, 150)) < 0.1))
    engine = DaskEngine(block_rows=31, task_bytes=task_bytes)
    np.testing.assert_allclose(engine.ashalf(H).gram(engine.asarray(X)), X.T @ H @ X, atol=1e-10)


@pytest.mark.parametrize("n_blocks", range(1, 13))
@pytest.mark.parametrize("group", [1, 2, 5])
@pytest.mark.parametrize("growing", [False, True])
def test_each_pair_of_blocks_is_met_once(n_blocks, group, growing):
    from adaam.engines.cluster.tasks import pair_tasks

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
    submitted, most = [], min(in_flight, AT_ONCE * workers.n_threads())

    def submit(i):
        # The first takes longest: others are submitted meanwhile, as many as may wait for it.
        submitted.append(workers.call("turn", slow, i, 0.5 if i == 0 else 0.0))
        assert sum(not future.done() for future in submitted) <= most
        return submitted[-1]

    taken = []
    for future in workers.in_turn("turns", (partial(submit, i) for i in range(25)), 25):
        taken.append(workers.fetch([future])[0])
        assert len(submitted) - len(taken) < max(in_flight, 1)
    assert taken == list(range(25))


def slow(number, seconds):
    time.sleep(seconds)
    return number


def with_sum(block, column, number):
    return block.sum(axis=1) + column + number


def test_lengths_of_rows_are_measured_once(monkeypatch):
    from adaam.engines.cluster.workers import Workers

    names = []
    original = Workers.call
    monkeypatch.setattr(Workers, "call", lambda self, name, *given: names.append(name) or original(self, name, *given))
    engine = DaskEngine(block_rows=40)
    wide, short = (engine.asarray(contract.cloud(150, d)) for d in (100, 5))
    for rows, d in ((wide, 100), (short, 5)):
        names.clear()
        np.testing.assert_allclose(engine.row_norms(rows), np.linalg.norm(contract.cloud(150, d), axis=1))
        engine.scatter(rows, 1.0 / engine.row_norms(rows), np.zeros(d), 1.0)
        assert names.count("norms") == (4 if rows is wide else 0)


def test_columns_are_made_by_their_formulas(monkeypatch):
    from adaam.engines.cluster.rows import MAX_STEPS, on_blocks
    from adaam.engines.cluster.workers import Workers

    names = []
    original = Workers.call
    monkeypatch.setattr(Workers, "call", lambda self, name, *given: names.append(name) or original(self, name, *given))
    rows, numbers = DaskEngine(block_rows=40).asarray(contract.cloud(150)), np.arange(150.0)
    column = on_blocks(numbers, rows.sizes, rows.workers)
    names.clear()
    twice = column * 2.0 + numbers  # numbers of this process are split first
    assert names == ["column"] * 4
    square = 1.0 / (twice**2 + 1.0)
    both = square - twice * square
    assert names == ["column"] * 4, "nothing is made before it is used"
    expected = 1.0 / ((3.0 * numbers) ** 2 + 1.0)
    np.testing.assert_array_equal(np.asarray(both), expected - 3.0 * numbers * expected)
    assert len(names) == 8
    np.testing.assert_array_equal(np.asarray(both), both[np.arange(150)])
    assert (both < 0).any()
    assert (twice - column).max() == 298.0
    names.clear()
    found = rows.workers.fetch(rows.each("sums", with_sum, both, 1.0))
    assert names == ["sums"] * 4, "a task that needs the numbers works the formula out"
    np.testing.assert_allclose(np.concatenate(found), contract.cloud(150).sum(axis=1) + np.asarray(both) + 1.0)
    long = column
    for _ in range(3 * MAX_STEPS):
        long = long + 1.0
    np.testing.assert_array_equal(np.asarray(long), numbers + 3 * MAX_STEPS)
