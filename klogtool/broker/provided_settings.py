"""Settings of a file that a config provider replaces when the broker starts (ConfigTransformer, AbstractConfig).

A provider takes values from the broker's environment, from files or from elsewhere. Here nobody knows them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PROVIDERS = "config.providers"
_VARIABLE = re.compile(r"\$\{([^}]*?):(?:[^}]*?:)?[^}]*?\}")  # ConfigTransformer.DEFAULT_PATTERN


def provided_names(settings: Mapping[str, str]) -> frozenset[str]:
    """Return the settings with a value like ${env:NAME} that one of the file's providers replaces."""
    providers = {name.strip() for name in settings.get(PROVIDERS, "").split(",")} - {""}
    if not providers:
        return frozenset()
    return frozenset(name for name, value in settings.items() if providers.intersection(_VARIABLE.findall(value)))
