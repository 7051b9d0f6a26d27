from __future__ import annotations

from collections.abc import Callable

from edgekit.quality_gate.bundles import Judged
from edgekit.quality_gate.machine import Machine
from edgekit.quality_gate.markdown import markdown_summary

MACHINE = Machine("Some_CPU", 2, "Linux x86_64")

SUMMARY = """\
## ❌ EdgeKit gate: 2 of 5 bundles failed

⚠️ Not clear: odd: latency

### ✅ good

|  | budget | limit | found |
| --- | --- | --- | --- |
| ✅ | size | at most 200 kB | 83.14 kB |

### ❌ bad

|  | budget | limit | found |
| --- | --- | --- | --- |
| ✅ | size | at most 200 kB | 83.14 kB |
| ❌ | size | at most 80 kB | 83.14 kB &lt;& more> |

### ⚠️ odd

|  | budget | limit | found |
| --- | --- | --- | --- |
| ✅ | size | at most 200 kB | 83.14 kB |
| ⚠️ | latency | at most 0.50 | 0.500 (0.480 – 0.520) |

### ❌ gone

    bundles/gone: has not been built
    hint: `edgekit build` builds it

### ✅ free

No budget is set.

Latency is the ratio of two models measured in turns on Some\\_CPU, 2 processors, Linux x86\\_64.
"""


def test_the_whole_summary(judged: Callable[..., list[Judged]]) -> None:
    assert markdown_summary(judged(), MACHINE) == SUMMARY


def test_all_is_well(judged: Callable[..., list[Judged]]) -> None:
    text = markdown_summary(judged()[:1], MACHINE)
    assert text.startswith("## ✅ EdgeKit gate: 1 bundle passed\n")
    assert "Some" not in text  # nothing was measured
