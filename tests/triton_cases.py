"""Checks of the fused kernels; run by `tests/unit/test_triton.py` in a process with TRITON_INTERPRET=1."""

import sys

import numpy as np


def cut():
    """The cut of the fused kernels equals that of float64 tiles to float32 precision, with every kind of pass."""
    import torch

    from adaam.engines.gpu import fused, pruned
    from adaam.engines.pruned.cut import exact_cut

    torch.manual_seed(0)
    for n, r, weighted, collected in ((140, 3, False, 1 << 20), (100, 11, True, 1 << 20), (140, 2, True, 16)):
        pruned.MAX_COLLECTED = collected
        P = torch.randn(n, r, dtype=torch.float64)
        weights = torch.randint(1, 4, (n,)).double() if weighted else None
        counts = torch.ones(n, dtype=torch.float64) if weights is None else weights
        found, plain = fused.fused_pairs(P.float(), weights), pruned.TilePairs(P.float().double(), weights, 64)
        for share in (0.04, 0.5):
            t = float(np.floor(share * float(counts.sum()) ** 2))
            a, b = (exact_cut(pruned.DeviceEntries(one, counts**2), t) * one.unit for one in (found, plain))
            assert abs(a - b) <= 1e-5 * b, (n, r, share, a, b)
            level = float(np.float32(a / found.unit))
            tally = found.count(level, level)
            own = (P.float().double() / found.unit**0.5).square().sum(dim=1).float()
            above = float(tally.above) + float((counts**2 * (own > level)).sum())
            assert above < t, "the cut is the t-th entry of those that were counted"


def pruned_gram():
    """Sums over kept entries, rounded to half precision, equal those of float64 tiles to three digits."""
    import torch

    from adaam.engines.gpu import fused, pruned

    torch.manual_seed(0)
    for n, r, d, weighted in ((200, 3, 40, False), (140, 6, 17, True)):
        P, X = torch.randn(n, r).double(), torch.randn(n, d)
        weights = torch.randint(1, 4, (n,)).double() if weighted else None
        found, plain = fused.fused_pairs(P.float(), weights), pruned.TilePairs(P.float().double(), weights, 64)
        threshold = 1.5
        assert fused.holds_range(found, threshold)
        gram, degrees = fused.pruned_gram(found, threshold, X, (128, 64, 32, 8, 3))
        expected, expected_degrees = pruned.pruned_gram(plain, threshold, X.double())
        assert float((gram - expected).abs().max()) <= 2e-3 * float(expected.abs().max())
        assert float((degrees - expected_degrees).abs().max()) <= 1e-5 * float(expected_degrees.abs().max())
        _, n_kept = fused.row_sums(found, threshold)
        upper = (P.float().double() @ P.float().double().T).triu(1).abs()
        assert abs(int(n_kept) - int((upper >= threshold).sum())) <= 1


def neighbors():
    """Neighbours found in half-precision tiles are measured again, and rows that remain unproven are flagged."""
    import torch

    from adaam.engines.gpu import neighbors as search
    from adaam.engines.gpu.arrays import Place

    torch.manual_seed(0)
    X = torch.randn(1500, 20) / torch.arange(1, 21)
    place = Place(torch.device("cpu"), 1 << 26)
    indices, distances, proven = search._fused(place, X, 4)
    assert float(proven.float().mean()) > 0.5
    plain = search.neighbors(place, X, 4, fused=False)
    torch.testing.assert_close(distances[proven], plain[1][proven], rtol=1e-12, atol=0.0)
    assert (indices[proven] == plain[0][proven]).all()


def sweeps():
    """Sweeps give the same labels as plain sums; some nodes have more links than a chunk, some none."""
    import torch

    from adaam.engines.gpu import sweeps
    from adaam.engines.links import links_of

    rng = np.random.default_rng(0)
    n_moved = 0
    for n_labels, few_moves in ((2, None), (9, None), (90, 0), (90, 6)):
        A = np.triu(rng.integers(1, 3, (90, 90)) * (rng.random((90, 90)) < 0.08) / 2, 1)
        A[5, 6:75], A[:20, 80], A[80, 81:] = 0.5, 0.0, 0.0
        A = A + A.T
        A[80] = A[:, 80] = 0.0
        nodes, others = (torch.as_tensor(part) for part in np.nonzero(A))
        links = links_of(nodes, others, torch.as_tensor(A[np.nonzero(A)]), torch.zeros(90, dtype=torch.float64))
        labels = torch.as_tensor(rng.permutation(np.arange(90) % n_labels))
        ranks, salts = rng.permutation(90), rng.integers(1 << 62, size=7)
        expected = links.labels_after(labels, n_labels, 1.0, ranks, salts, few_moves)
        graph = links.starts, links.others, links.weights, links.degrees
        given = labels, n_labels, 1.0 / A.sum(), few_moves or 0, few_moves is None
        found = sweeps.labels_after(*graph, torch.as_tensor(ranks), torch.as_tensor(salts), *given)
        assert (found == expected).all(), (n_labels, few_moves)
        n_moved += int((expected != labels).sum())
    assert n_moved > 90


if __name__ == "__main__":
    {"cut": cut, "pruned_gram": pruned_gram, "neighbors": neighbors, "sweeps": sweeps}[sys.argv[1]]()
