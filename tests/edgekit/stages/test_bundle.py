from __future__ import annotations

from typing import Any

import pytest

from edgekit.stages.bundle import instruction_sets_record

REFUSED = {"failed": {"message": "what was built as quantized is not accurate enough with avx2"}}
VERIFIED = {"verified": {"avx2": {}}, "not_executed": {"amx": "this processor does not have it"}}


def stages(*records: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, "seconds": 0.1, "record": record} for name, record in records]


@pytest.mark.parametrize("of_another_form", [REFUSED, VERIFIED])
def test_a_form_that_multiplies_no_integers_has_nothing_of_the_instruction_sets_of_the_one_before(
    of_another_form: dict[str, Any],
) -> None:
    refused = [("build", {}), ("verify", {}), ("instruction sets", of_another_form)]
    assert instruction_sets_record(stages(*refused, ("build", {}), ("verify", {}))) == {}


def test_what_ships_tells_of_its_own_instruction_sets() -> None:
    before = [("build", {}), ("verify", {}), ("instruction sets", REFUSED)]
    shipped = [("build", {}), ("verify", {}), ("instruction sets", {**VERIFIED, "warnings": []}), ("bench", {})]
    assert instruction_sets_record(stages(*before, *shipped)) == {"instruction_sets": VERIFIED}
