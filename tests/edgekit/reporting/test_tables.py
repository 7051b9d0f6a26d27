from __future__ import annotations

from edgekit.reporting.tables import stage_rows


def test_a_stage_failed_where_its_error_was_kept_and_not_where_candidates_of_it_did() -> None:
    error = {"exit_code": 1, "type": "RequirementError", "message": "does not load"}
    candidate = {"candidate": "weights only", "reason": "cannot be built"}
    stages = [
        {"name": "quantize", "seconds": 1.0, "record": {"failed": [candidate]}},
        {"name": "quantize", "seconds": 1.0, "record": {"failed": []}},
        {"name": "build", "seconds": 0.5, "record": {"failed": error}},
        {"name": "verify", "seconds": 0.25, "record": {}},
    ]
    assert [*stage_rows({"stages": stages})] == [
        ("quantize", "1.00"),
        ("quantize", "1.00"),
        ("build (failed)", "0.50"),
        ("verify", "0.25"),
    ]
