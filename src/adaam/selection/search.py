"""The search: metrics and heads scored by modularity, and the simplest that nothing clearly beats."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from adaam._typing import FloatVector, IntVector
from adaam.engines.blocks import ordered_map
from adaam.partition import HEADS, View, modularity_gain, row_modularity
from adaam.selection.report import Selection, Trial

# A more elaborate partition must gain more than so many standard errors over a simpler one.
N_ERRORS = 2.0
# k-means on rows as they are is where the climb begins and seldom where it ends, so it is sketched: few starts, on
# leading columns, two for each cluster and never fewer than these. (What k-means relaxes to lies in one less than there
# are clusters: Ding, He 2004.) Where it is chosen, it is done again in full. Partitions of graphs have all starts.
SKETCH_STARTS = 3
SKETCH_COLUMNS = 32


@dataclass(frozen=True, slots=True)
class Contender:
    """A metric in the search: the rows in it, what reports call it, and where it came from."""

    preparation: str
    name: str
    learned: bool  # whether it is a step beyond the rows as they are
    view: View
    source: Any = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A metric, one head's partition in it, and what each row adds to the modularity on its graph."""

    contender: Contender
    head: str
    labels: IntVector
    rows: FloatVector
    sketched: bool = False  # whether the head deserves more starts and columns than these labels had

    @property
    def modularity(self) -> float:
        """Modularity on the metric's own graph."""
        return float(self.rows.sum())

    @property
    def level(self) -> int:
        """Simplicity: k-means, then the graph of the rows as they are, then that of a learned metric."""
        if self.contender.learned:
            return 2
        return 0 if self.head == "k-means" else 1

    @property
    def title(self) -> str:
        """What reports say."""
        return f"{self.head} on {self.contender.name} ({self.contender.preparation})"


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen outcome and the report of the search."""

    outcome: Outcome
    selection: Selection


def search(contenders: Iterable[Contender], heads: Sequence[str], n_clusters: int, *, n_init: int, seed: int) -> Choice:
    """Partition every metric with every head, and choose.

    The criterion is modularity on the metric's own ten-neighbour graph. It is compared along levels of simplicity:
    k-means on the rows as they are, partitions of their graph, partitions of the graph in a learned metric. Within a
    level the highest wins; the next level takes over only if its gain exceeds two standard errors over the rows. A
    learned metric has had the chance to fit what it is judged on, so a gain within the noise is none.
    """
    contenders = list(contenders)
    for contender in contenders:
        _ = contender.view.links  # made once, with all threads of the engine

    by_links = [head for head in heads if head != "k-means"]
    # k-means in a learned metric would be a fourth level; its place is taken by the graph the metric was made for.
    by_place = [c for c in contenders if not c.learned or not by_links] if "k-means" in heads else []
    place = _sketched if by_links else _partitioned
    placed = [[place(contender, "k-means", n_clusters, n_init, seed)] for contender in by_place]
    linked: list[list[Outcome]] = []
    if by_links:

        def outcomes_of(contender: Contender) -> list[Outcome]:
            return [_partitioned(contender, head, n_clusters, n_init, seed) for head in by_links]

        with warnings.catch_warnings():
            # Heads say so themselves, but what one thread asks of warnings, another takes back.
            warnings.simplefilter("ignore", ConvergenceWarning)
            # What follows from links runs on one thread, so metrics side by side.
            linked = list(ordered_map(outcomes_of, contenders))
    outcomes = sorted(chain(*placed, *linked), key=lambda outcome: outcome.level)
    if len(heads) > 1:
        # A graph may have too few places to tell so many clusters apart.
        outcomes = [o for o in outcomes if o.head == "k-means" or len(np.unique(o.labels)) == n_clusters]
    chosen, steps = _climb(outcomes)
    trials = tuple(_trial(outcome, chosen) for outcome in outcomes)
    return Choice(chosen, Selection(trials, tuple(steps), len(chosen.labels)))


def _partitioned(contender: Contender, head: str, n_clusters: int, n_init: int, seed: int) -> Outcome:
    labels = HEADS[head].labels(contender.view, n_clusters, n_init, seed)
    return Outcome(contender, head, labels, row_modularity(contender.view.links, labels))


def _sketched(contender: Contender, head: str, n_clusters: int, n_init: int, seed: int) -> Outcome:
    view = contender.view
    n_columns = max(SKETCH_COLUMNS, 2 * n_clusters)
    few = View(view.Z[:, :n_columns], view.weights, view.engine)
    labels = HEADS[head].labels(few, n_clusters, min(n_init, SKETCH_STARTS), seed)
    sketched = n_init > SKETCH_STARTS or view.Z.shape[1] > n_columns
    return Outcome(contender, head, labels, row_modularity(view.links, labels), sketched)


def _climb(outcomes: list[Outcome]) -> tuple[Outcome, list[str]]:
    """Go up the levels while the gain is clear."""
    current: Outcome | None = None
    steps = []
    for level in sorted({outcome.level for outcome in outcomes}):
        best = max((outcome for outcome in outcomes if outcome.level == level), key=lambda outcome: outcome.modularity)
        if current is None:
            current = best
            steps.append(f"Start: {best.title}, modularity {best.modularity:.3f}.")
            continue
        gain = modularity_gain(best.rows, current.rows)
        taken = gain.exceeds(N_ERRORS)
        verdict = "taken" if taken else f"not taken: a gain must exceed {N_ERRORS:g} standard errors"
        steps.append(f"{best.title}: {gain.value:+.3f} ± {gain.standard_error:.3f}, {verdict}.")
        current = best if taken else current
    assert current is not None
    return current, steps


def _trial(outcome: Outcome, chosen: Outcome) -> Trial:
    contender = outcome.contender
    return Trial(
        preparation=contender.preparation,
        metric=contender.name,
        head=outcome.head,
        n_components=int(contender.view.Z.shape[1]),
        modularity=outcome.modularity,
        agreement=float(adjusted_rand_score(chosen.labels, outcome.labels)),
        chosen=outcome is chosen,
    )
