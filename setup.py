"""How the extension is compiled: what pyproject.toml cannot say. The rest is there."""

from __future__ import annotations

import os
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

REQUIRED = os.environ.get("KLOGTOOL_REQUIRE_KERNELS", "") not in ("", "0")


class BuildKernels(build_ext):
    """Compiles the kernels; says why if that fails. KLOGTOOL_REQUIRE_KERNELS=1: then the build fails, too."""

    def build_extension(self, ext: Extension) -> None:
        """Compile one extension."""
        ext.optional = not REQUIRED
        try:
            super().build_extension(ext)
        except Exception as error:
            print(
                f"klogtool: the kernels are not compiled: {error}\n"
                "klogtool: without them the slow reader runs, with the same answers in a hundred times the time.\n"
                "klogtool: KLOGTOOL_REQUIRE_KERNELS=1 makes this an error.",
                file=sys.stderr,
            )
            raise


setup(cmdclass={"build_ext": BuildKernels})
