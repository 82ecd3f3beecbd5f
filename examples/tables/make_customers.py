"""Write customers.csv and new_customers.csv: synthetic tables of four groups of customers, as messy as real ones."""

import csv
from pathlib import Path

import numpy as np

NAMES = ["customer_id", "since", "age", "plan", "country", "newsletter", "orders", "revenue", "returns", "currency"]
# Age, orders per year, revenue per order, share of returns, usual plan, share with newsletter.
GROUPS = {
    "students": (23, 6, 25, 0.05, "basic", 0.8),
    "families": (41, 28, 62, 0.25, "plus", 0.7),
    "companies": (47, 55, 190, 0.04, "pro", 0.2),
    "occasional": (58, 3, 75, 0.10, "basic", 0.1),
}
PLANS = ("basic", "plus", "pro")


def customers(n, seed, first=1):
    """Return rows of cells."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        age, orders, price, returned, plan, newsletter = GROUPS[list(GROUPS)[rng.integers(len(GROUPS))]]
        n_orders = max(1, rng.poisson(orders))
        rows.append(
            [
                f"C{first + i:04d}",
                f"{np.datetime64('2019-01-01') + rng.integers(2000)}",
                "" if rng.random() < 0.08 else str(round(rng.normal(age, 4))),
                plan if rng.random() < 0.9 else PLANS[rng.integers(3)],
                rng.choice(["DE", "FR", "NL"]),
                "yes" if rng.random() < newsletter else "no",
                str(n_orders),
                f"{n_orders * price * rng.lognormal(sigma=0.15):,.2f}",
                str(rng.binomial(n_orders, returned)),
                "EUR",
            ]
        )
    return rows


def write(path, rows):
    """Write a table with its header."""
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([NAMES, *rows])


if __name__ == "__main__":
    folder = Path(__file__).parent
    write(folder / "customers.csv", customers(240, seed=0))
    write(folder / "new_customers.csv", customers(3, seed=1, first=241))
