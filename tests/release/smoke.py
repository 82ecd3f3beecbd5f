"""Smoke test of the installed package, outside the repository. Usage: python smoke.py VERSION."""

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path


def main(expected):
    import numpy as np
    from sklearn.datasets import load_digits

    import adaam

    home = Path(adaam.__file__).resolve()
    assert "site-packages" in home.parts, f"adaam comes from {home}, not from the installed wheel"
    assert adaam.__version__ == version("adaam") == expected, (adaam.__version__, version("adaam"), expected)

    X, y = load_digits(return_X_y=True)
    model = adaam.AdaAMClustering(n_clusters=10).fit(X)
    accuracy = adaam.scores.clustering_accuracy(y, model.labels_)
    assert accuracy > 0.75, accuracy
    assert model.transform(X).shape == (len(X), model.n_components_)
    print(model.explain())

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.adaam"
        adaam.save(model, file)
        np.testing.assert_array_equal(adaam.load(file).predict(X), model.labels_)
        command = [str(Path(sys.executable).parent / "adaam"), "cluster", "digits", "--clusters", "10"]
        subprocess.run([*command, "-o", str(Path(folder) / "labels.csv")], check=True, cwd=folder)
        assert len((Path(folder) / "labels.csv").read_text().splitlines()) >= len(X)
    print(f"adaam {expected}: smoke test passed, accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main(sys.argv[1])
