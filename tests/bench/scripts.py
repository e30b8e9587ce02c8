# SPDX-License-Identifier: Apache-2.0
"""For the tests of scripts: a script as a module, and what a function of its prints."""

import contextlib
import importlib.util
import io


def load(path):
    spec = importlib.util.spec_from_file_location("script_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def printed(function, *arguments):
    """What the function returns, and what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        result = function(*arguments)
    return result, text.getvalue()
