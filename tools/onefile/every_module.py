"""Import every module of klogtool but those that need an extra: what leave_out.txt names is never imported."""

from __future__ import annotations

import importlib
import pkgutil

import klogtool

EXTRAS = ("pyarrow", "pyspark", "pytest", "fastavro", "google", "numpy", "pandas")


def main() -> None:
    """Count the modules; the first that lacks something else ends this."""
    count = 0
    for found in pkgutil.walk_packages(klogtool.__path__, "klogtool.", onerror=lambda name: None):
        if found.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in EXTRAS:
                raise
        count += 1
    print(count, "modules")


if __name__ == "__main__":
    main()
