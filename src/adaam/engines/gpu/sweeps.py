# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
"""Label moves along links on a device, in Triton: each node scans its own links, so that no sums by label are stored.

Convergence is also decided on the device; the host reads the decision every few sweeps.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from adaam.engines.links import MIX, ROUNDING

CHUNK = 32  # links of a node that are processed together
LABELS = 1024  # labels whose sizes are processed together
ASKED_EVERY = 6  # sweeps that are launched before the host checks whether they have converged


@triton.jit
def _linked_labels(others, labels, entries, present):
    nodes = tl.load(others + entries, mask=present, other=0)
    return tl.load(labels + nodes, mask=present, other=-1)


@triton.jit(do_not_specialize=["step"])
def _move_kernel(
    starts, others, weights, degrees, ranks, salts, labels, totals, waiting, moved, counts, ended, scales, step,
    MIX_1: tl.constexpr, MIX_2: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Find the label of largest gain for each node, as `Links.moves` does; one program per node."""
    node = tl.program_id(0).to(tl.int64)
    mixed = (tl.load(ranks + node) + tl.load(salts + step)) * MIX_1
    mixed = (mixed ^ (mixed >> 32)) * MIX_2
    in_half = ((mixed >> 40) & 1) == 1
    if in_half & tl.load(waiting + node) & (tl.load(ended + step) == 0):
        tl.store(waiting + node, False)
        tl.store(counts + 2 * step, 1)
        own = tl.load(labels + node)
        mine = tl.load(degrees + node)
        scale = tl.load(scales)
        first = tl.load(starts + node)
        last = tl.load(starts + node + 1)
        unlinked = mine * 0.0 - float("inf")
        staying = -(scale * mine * (tl.load(totals + own) - mine))
        best = unlinked
        choice = own
        for chunk in range(first, last, CHUNK):
            entries = chunk + tl.arange(0, CHUNK)
            present = entries < last
            found = _linked_labels(others, labels, entries, present)
            sums = tl.zeros((CHUNK,), dtype=tl.float64)
            for beside in range(first, last, CHUNK):
                more = beside + tl.arange(0, CHUNK)
                there = more < last
                compared = _linked_labels(others, labels, more, there)
                given = tl.load(weights + more, mask=there, other=0.0)
                sums += tl.sum(tl.where(found[:, None] == compared[None, :], given[None, :], 0.0), axis=1)
            inside = present & (found == own)
            away = tl.load(totals + found, mask=present, other=0.0) - tl.where(inside, mine, 0.0)
            gains = sums - scale * mine * away
            if tl.max(inside.to(tl.int32), axis=0) > 0:
                staying = tl.max(tl.where(inside, gains, unlinked), axis=0)
            gains = tl.where(present, gains, unlinked)
            highest = tl.max(gains, axis=0)
            lowest = tl.min(tl.where(gains == highest, found, 1 << 62), axis=0)
            if (highest > best) | ((highest == best) & (lowest < choice)):
                best = highest
                choice = lowest
        if best > staying + tl.load(scales + 1) * mine:
            tl.store(moved + node, choice)
            tl.atomic_add(counts + 2 * step + 1, 1)


@triton.jit(do_not_specialize=["step"])
def _follow_kernel(
    starts, others, weights, degrees, labels, moved, totals, sizes, waiting, within, counts, step,
    KEEP_BEST: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Update after moves: waiting nodes, sums by label, weight of links within labels; one program per node."""
    node = tl.program_id(0).to(tl.int64)
    if tl.load(counts + 2 * step + 1) > 0:
        before = tl.load(labels + node)
        after = tl.load(moved + node)
        first = tl.load(starts + node)
        last = tl.load(starts + node + 1)
        if before != after:
            mine = tl.load(degrees + node)
            tl.atomic_add(totals + before, -mine)
            tl.atomic_add(totals + after, mine)
            tl.atomic_add(sizes + before, -1)
            tl.atomic_add(sizes + after, 1)
            for chunk in range(first, last, CHUNK):
                entries = chunk + tl.arange(0, CHUNK)
                present = entries < last
                linked = tl.load(others + entries, mask=present, other=0)
                tl.store(waiting + linked, tl.full((CHUNK,), True, tl.int1), mask=present)
        if KEEP_BEST:
            total = tl.zeros((CHUNK,), dtype=tl.float64)
            for chunk in range(first, last, CHUNK):
                entries = chunk + tl.arange(0, CHUNK)
                present = entries < last
                same = _linked_labels(others, moved, entries, present) == after
                total += tl.load(weights + entries, mask=present & same, other=0.0)
            tl.atomic_add(within + step, tl.sum(total, axis=0))


@triton.jit(do_not_specialize=["step", "n_labels", "few_moves"])
def _judge_kernel(
    totals, sizes, within, counts, ended, improved, highest, scales, step, n_labels, few_moves,
    KEEP_BEST: tl.constexpr, LABELS: tl.constexpr,
):  # fmt: skip
    """Decide whether the sweeps end here, and whether the labels of this one are the best so far; one program."""
    n_moved = tl.load(counts + 2 * step + 1)
    end = tl.load(ended + step)
    if KEEP_BEST:
        if (end == 0) & (n_moved > 0):
            squares = tl.zeros((LABELS,), dtype=tl.float64)
            emptied = tl.zeros((LABELS,), dtype=tl.int32)
            for chunk in range(0, n_labels, LABELS):
                label = chunk + tl.arange(0, LABELS)
                present = label < n_labels
                total = tl.load(totals + label, mask=present, other=0.0)
                squares += total * total
                emptied += (tl.load(sizes + label, mask=present, other=1) == 0).to(tl.int32)
            if tl.max(emptied, axis=0) > 0:
                end = 1
            else:
                excess = tl.load(within + step) - tl.load(scales) * tl.sum(squares, axis=0)
                if excess > tl.load(highest):
                    tl.store(highest, excess)
                    tl.store(improved + step, True)
    elif (tl.load(counts + 2 * step) > 0) & (n_moved <= few_moves):
        end = 1
    tl.store(ended + step + 1, end)


def labels_after(
    starts: Any,
    others: Any,
    weights: Any,
    degrees: Any,
    ranks: Any,
    salts: Any,
    labels: Any,
    n_labels: int,
    scale: float,
    few_moves: int,
    keep_best: bool,
) -> Any:
    """Labels after sweeps over random halves of the nodes; see `Links.labels_after`."""
    n, n_sweeps, device = len(labels), len(salts), labels.device
    labels, best, moved = labels.clone(), labels.clone(), labels.clone()
    totals = torch.zeros(n_labels, dtype=torch.float64, device=device).index_add_(0, labels, degrees)
    sizes = torch.zeros(n_labels, dtype=torch.int32, device=device)
    sizes.index_add_(0, labels, torch.ones_like(labels, dtype=torch.int32))
    waiting = torch.ones(n, dtype=torch.bool, device=device)
    counts = torch.zeros(n_sweeps, 2, dtype=torch.int32, device=device)  # whether any node was visited; how many moved
    within = torch.zeros(n_sweeps, dtype=torch.float64, device=device)
    ended = torch.zeros(n_sweeps + 1, dtype=torch.int32, device=device)
    improved = torch.zeros(n_sweeps, dtype=torch.bool, device=device)
    # As scalar arguments of a launch these would be rounded to float32, so they are passed as float64 tensors.
    scales = torch.tensor([scale, ROUNDING], dtype=torch.float64, device=device)
    highest = torch.full((1,), -torch.inf, dtype=torch.float64, device=device)
    if keep_best:
        nodes = torch.repeat_interleave(torch.arange(n, device=device), starts.diff(), output_size=len(others))
        together = torch.where(labels[nodes] == labels[others], weights, 0.0).sum()
        highest[0] = together - scale * (totals * totals).sum()
    graph = starts, others, weights, degrees
    for step in range(n_sweeps):
        # No fused multiply-add: products and sums are rounded one by one, as on the host.
        _move_kernel[(n,)](
            *(*graph, ranks, salts, labels, totals, waiting, moved, counts, ended, scales, step),
            MIX_1=MIX[0],
            MIX_2=MIX[1],
            CHUNK=CHUNK,
            num_warps=1,
            enable_fp_fusion=False,
        )
        _follow_kernel[(n,)](
            *(*graph, labels, moved, totals, sizes, waiting, within, counts, step),
            KEEP_BEST=keep_best,
            CHUNK=CHUNK,
            num_warps=1,
        )
        _judge_kernel[(1,)](
            *(totals, sizes, within, counts, ended, improved, highest, scales, step, n_labels, few_moves),
            KEEP_BEST=keep_best,
            LABELS=LABELS,
        )
        labels.copy_(moved)
        if keep_best:
            torch.where(improved[step], moved, best, out=best)
        if step % ASKED_EVERY == ASKED_EVERY - 1 and int(ended[step + 1]):
            break
    return best if keep_best else labels
