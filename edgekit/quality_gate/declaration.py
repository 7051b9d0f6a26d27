"""Compares a bundle with what the project file declares of it: what is judged may be an older one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from edgekit.bundle import Bundle
from edgekit.config import DeclaredBundle
from edgekit.errors import EdgeKitError, InputError
from edgekit.packaging.declared import request_for
from edgekit.quality_gate.verdict import Outcome, Verdict
from edgekit.registry import find_profile

DECLARATION = "declaration"
"""What the verdicts here are on: the bundle, and no budget."""
_LIMIT = "as the project file declares the bundle"


def require_declared_target(bundle: Bundle, declared: DeclaredBundle) -> None:
    """Refuses a bundle that was built for another device than the one that is declared.

    Raises:
        InputError: It was.
    """
    try:
        _, profile = find_profile(declared.target)
    except EdgeKitError:  # its plugin is not installed here, so that nothing can be said
        return
    if profile.name != bundle.profile_name:
        raise InputError(
            "was built for another target",
            subject=bundle.path,
            expected=f"{profile.name}, as the project file declares it",
            found=bundle.profile_name,
            hint="`edgekit build` builds it again",
        )


def judge_declaration(bundle: Bundle, declared: DeclaredBundle) -> Iterator[Verdict]:
    """A verdict where the bundle is not, or may not be, what the project file declares; none where it is."""
    if not declared.model.is_file():
        told = f"{declared.model} is not there: nothing tells whether the bundle is made from it"
        yield Verdict(DECLARATION, _LIMIT, told, Outcome.NOT_COMPARED)
    recorded = bundle.manifest["options"]
    # The metric's module is the project's own code, which the gate does not execute.
    asked = {**request_for(replace(declared, metric=None)).options(), "metric": declared.metric}
    plain = json.loads(json.dumps(asked))
    others = [
        f"{key} was {json.dumps(recorded[key])}, and {json.dumps(plain[key])} is declared"
        for key in plain
        if key in recorded and recorded[key] != plain[key]
    ]
    if others:
        told = f"{'; '.join(others)}: `edgekit build` builds it again"
        yield Verdict(DECLARATION, _LIMIT, told, Outcome.INCONCLUSIVE)
