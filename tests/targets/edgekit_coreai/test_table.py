"""The page of operations is what the registry says."""

from __future__ import annotations

from pathlib import Path

from edgekit_coreai.table import operation_table


def test_the_page_is_up_to_date() -> None:
    page = Path(__file__).parents[3] / "docs" / "coreai-operations.md"
    assert page.read_text(encoding="utf-8") == operation_table(), (
        "run python -m edgekit_coreai.table > docs/coreai-operations.md"
    )
