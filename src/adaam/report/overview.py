"""Overview for new readers: which method won, and how AdaAM compares with the methods people use today."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from adaam.bench.datasets import title_of
from adaam.report.summary import Summary, by_dataset, method_title, paper_accuracy

CHOICE = "adaam-clustering"  # the method this library recommends to most users
TODAY = ("kmeans", "pca", "spectral", "umap", CHOICE)  # methods that most users run, and ours
OWN = ("adaam", CHOICE)


@dataclass(frozen=True, slots=True)
class Score:
    """A method's average accuracy in per cent."""

    name: str
    average: float


@dataclass(frozen=True, slots=True)
class Standing:
    """One data set: the chosen clustering, AdaAM here and in the paper, what users run today, and the best."""

    title: str
    chosen: Score | None
    ours: Score | None
    paper: float | None
    today: tuple[Score, ...]
    published: Score | None  # the best of all methods that are neither of ours
    best: Score
    n_methods: int

    @property
    def lead(self) -> Score | None:
        """The score shown first: the chosen clustering, or AdaAM if that was not run."""
        return self.chosen or self.ours

    def is_best(self, score: Score | None) -> bool:
        """Whether a score is the best average, rounded as shown to one digit; False if only one method was run."""
        return score is not None and self.n_methods > 1 and round(score.average, 1) >= round(self.best.average, 1)


def standings(found: Iterable[Summary]) -> list[Standing]:
    """Return the standing of each data set."""
    sets = []
    for dataset, group in by_dataset(found).items():
        # The best of a method's preparations counts, which favours the methods that ours are compared with.
        averages = {each.setting.method: 100 * each.average for each in sorted(group, key=lambda each: each.average)}
        scores = {name: Score(method_title(name), average) for name, average in averages.items()}
        others = [score for name, score in scores.items() if name not in OWN]
        sets.append(
            Standing(
                title_of(dataset),
                chosen=scores.get(CHOICE),
                ours=scores.get("adaam"),
                paper=paper_accuracy(dataset, "adaam")[0],
                today=tuple(scores[name] for name in TODAY if name in scores),
                published=max(others, key=lambda score: score.average, default=None),
                best=max(scores.values(), key=lambda score: score.average),
                n_methods=len(scores),
            )
        )
    return sets


def findings(sets: Sequence[Standing]) -> list[str]:
    """Return sentences that summarise these standings."""
    ours = [(each, each.ours) for each in sets if each.ours is not None]
    chosen = [(each, each.chosen) for each in sets if each.chosen is not None]
    if not ours:
        return ["AdaAM itself was not run."]
    told = [
        _rank(method_title(CHOICE), [pair for pair in chosen if pair[0].published is not None]),
        _compared(f"{method_title(CHOICE)}, which chooses metric and head without labels,", chosen, "umap"),
        _rank("AdaAM with k-means", ours),
        _compared("AdaAM", ours, "kmeans"),
    ]
    gaps = [score.average - each.paper for each, score in ours if each.paper is not None]
    if gaps:
        told.append(
            f"Our figures for AdaAM differ from the paper's by {np.mean(gaps):+.1f} points on average "
            f"and by {max(map(abs, gaps)):.1f} at most.".replace("-", "−")
        )
    return list(filter(None, told))


def _rank(name: str, runs: Sequence[tuple[Standing, Score]]) -> str:
    """Rank of a method among all that were run; empty if it was not run."""
    if not runs:
        return ""
    won = [each.title for each, score in runs if each.is_best(score)]
    if len(runs) == 1:
        ((each, score),) = runs
        if each.n_methods == 1:
            among = "; no other method was run"
        elif won:
            among = f", the best of {each.n_methods} methods"
        else:
            among = f"; the best is {each.best.name} with {each.best.average:.1f} %"
        return f"On {each.title}, {name} reaches {score.average:.1f} %{among}."
    ahead: dict[str, list[str]] = {}
    for each, score in runs:
        if each.n_methods > 1 and not each.is_best(score):
            ahead.setdefault(each.best.name, []).append(f"{each.title} ({each.best.average:.1f} %)")
    where = f" ({', '.join(won)})" if won else ""
    behind = "".join(f"; {other} is ahead on {', '.join(places)}" for other, places in ahead.items())
    return f"{name} is the best method on {len(won) or 'none'} of the {len(runs)} data sets{where}{behind}."


def _compared(name: str, runs: Sequence[tuple[Standing, Score]], other: str) -> str:
    """Comparison of a method with one of `TODAY`; empty if no data set has both."""
    title = method_title(other)
    gaps = [score.average - rival.average for each, score in runs for rival in each.today if rival.name == title]
    if not gaps:
        return ""
    mean = float(np.mean(gaps))
    distance = f"{abs(mean):.1f} points {'better' if mean > 0 else 'worse'}"
    if len(gaps) == 1:
        return f"{name} is {distance} than {title}."
    ahead = sum(gap > 0 for gap in gaps)
    return f"{name} is better than {title} on {ahead} of {len(gaps)} data sets; on average, it is {distance}."
