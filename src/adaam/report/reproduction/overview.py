"""What a newcomer wants to know first: what was run, what won, and how AdaAM stands beside what people use today."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from adaam.bench.datasets import title_of
from adaam.report.summary import Record, Summary, method_title, paper_accuracy, summaries

CHOICE = "adaam-clustering"  # what this library would run for them
TODAY = ("kmeans", "pca", "spectral", "umap", CHOICE)  # what most users would run, and beside it our choice
OWN = ("adaam", CHOICE)


@dataclass(frozen=True, slots=True)
class Score:
    """A method's average accuracy in per cent."""

    name: str
    average: float
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """One data set: the chosen clustering, AdaAM here and in the paper, what users run today, and the best."""

    dataset: str
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
        """What the page leads with: the chosen clustering, or AdaAM where that was not run."""
        return self.chosen or self.ours

    @property
    def is_won(self) -> bool:
        """Whether AdaAM has the best average, as shown with one digit; alone it has beaten nobody."""
        return self._is_best(self.ours)

    @property
    def is_led(self) -> bool:
        """Whether what the page leads with has the best average."""
        return self._is_best(self.lead)

    def _is_best(self, score: Score | None) -> bool:
        if score is None or self.n_methods < 2:
            return False
        return round(score.average, 1) >= round(self.best.average, 1)


@dataclass(frozen=True, slots=True)
class Overview:
    """What was run, and where each data set stands."""

    n_methods: int
    n_rounds: int  # in all
    rounds: tuple[int, int]  # least and most a case
    standings: tuple[Standing, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings, each true of exactly these records."""
        ours = [each for each in self.standings if each.ours is not None]
        if not ours:
            return ("AdaAM itself was not run.",)
        told = _led(self.standings)
        told += _chosen(ours)
        told += [_alone(ours[0])] if len(ours) == 1 else [_counted(ours)]
        told += _against(ours, method_title(TODAY[0]))
        known = [(each.ours.average, each.paper) for each in ours if each.ours is not None and each.paper is not None]
        if known:
            gaps = [own - paper for own, paper in known]
            told.append(
                f"Our figures for AdaAM differ from the paper's by {np.mean(gaps):+.1f} points on average "
                f"and by {max(map(abs, gaps)):.1f} at most.".replace("-", "−")
            )
        return tuple(told)


def overview(records: Iterable[Record]) -> Overview:
    """Take the default cases together, data set by data set."""
    found = [each for each in summaries(records) if each.setting.is_default]
    datasets = dict.fromkeys(each.setting.dataset for each in found)
    standings = tuple(_standing([each for each in found if each.setting.dataset == name]) for name in datasets)
    rounds = [each.rounds for each in found] or [0]
    n_methods = len({each.setting.method for each in found})
    return Overview(n_methods, sum(rounds), (min(rounds), max(rounds)), standings)


def _standing(group: Sequence[Summary]) -> Standing:
    dataset = group[0].setting.dataset
    # Of a method's preparations the better one stands for it, to the other methods' favour.
    scores: dict[str, Score] = {}
    for each in sorted(group, key=lambda one: one.average):
        name = each.setting.method
        scores[name] = Score(method_title(name), 100 * each.average, 100 * each.spread)
    today = tuple(scores[name] for name in TODAY if name in scores)
    best = max(scores.values(), key=lambda score: score.average)
    others = [score for name, score in scores.items() if name not in OWN]
    return Standing(
        dataset,
        title_of(dataset),
        scores.get(CHOICE),
        scores.get("adaam"),
        paper_accuracy(dataset, "adaam")[0],
        today,
        max(others, key=lambda score: score.average, default=None),
        best,
        len(scores),
    )


def _led(standings: Sequence[Standing]) -> list[str]:
    """How the chosen clustering stands among all methods, where it was run beside others."""
    led = [each for each in standings if each.chosen is not None and each.published is not None]
    if not led:
        return []
    won = [each.title for each in led if each.is_led]
    name = method_title(CHOICE)
    if len(led) == 1:
        (only,) = led
        told = f"On {only.title}, {name} reaches {only.chosen.average if only.chosen else 0:.1f} %"
        return [f"{told}, the best of {only.n_methods} methods." if won else f"{told}; {_ahead_of_it(only)}."]
    told = f"{name} is the best of all methods on {len(won) or 'none'} of the {len(led)} data sets"
    where = f" ({', '.join(won)})" if won else ""
    behind = [f"on {each.title} {_ahead_of_it(each)}" for each in led if not each.is_led]
    return [f"{told}{where}" + (f"; {'; '.join(behind)}." if behind else ".")]


def _ahead_of_it(each: Standing) -> str:
    own = each.chosen.average if each.chosen else 0.0
    return f"{each.best.name} reaches {each.best.average:.1f} % against {own:.1f} %"


def _alone(each: Standing) -> str:
    own = f"On {each.title}, AdaAM reaches {each.ours.average if each.ours else 0:.1f} %"
    if each.is_won:
        return f"{own}, the best of {each.n_methods} methods."
    if each.n_methods == 1:
        return f"{own}; no other method was run."
    return f"{own}; the best is {each.best.name} with {each.best.average:.1f} %."


def _counted(ours: Sequence[Standing]) -> str:
    won = [each.title for each in ours if each.is_won]
    told = f"AdaAM with k-means is the best method on {len(won) or 'none'} of the {len(ours)} data sets"
    told += f" ({', '.join(won)})" if won else ""
    ahead: dict[str, list[str]] = {}
    for each in ours:
        if not each.is_won and each.n_methods > 1:
            ahead.setdefault(each.best.name, []).append(f"{each.title} ({each.best.average:.1f} %)")
    places = [f"{name} is ahead on {', '.join(where)}" for name, where in ahead.items()]
    return f"{told}; {'; '.join(places)}." if places else f"{told}."


def _chosen(ours: Sequence[Standing]) -> list[str]:
    """How the choice without labels stands beside UMAP, where both were run."""
    both = [{score.name: score.average for score in each.today} for each in ours]
    names = (method_title(CHOICE), method_title("umap"))
    pairs = [(scores[names[0]], scores[names[1]]) for scores in both if all(name in scores for name in names)]
    if not pairs:
        return []
    own, umap = np.mean(pairs, axis=0)
    ahead = sum(mine > other for mine, other in pairs)
    sets = f"{ahead} of {len(pairs)} data sets" if len(pairs) > 1 else ("the data set" if ahead else "no data set")
    return [
        f"{names[0]}, which chooses metric and head without labels, averages {own:.1f} % and is ahead of {names[1]} "
        f"({umap:.1f} %) on {sets}."
    ]


def _against(ours: Sequence[Standing], name: str) -> list[str]:
    gaps = [
        each.ours.average - other.average
        for each in ours
        for other in each.today
        if each.ours is not None and other.name == name
    ]
    if not gaps:
        return []
    where = f" on {sum(gap > 0 for gap in gaps)} of {len(gaps)} data sets" if len(gaps) > 1 else ""
    word = "better" if np.mean(gaps) > 0 else "worse"
    if where:
        return [f"AdaAM is better than {name}{where}; on average, it is {abs(np.mean(gaps)):.1f} points {word}."]
    return [f"AdaAM is {abs(np.mean(gaps)):.1f} points {word} than {name} on the rows as they are."]
