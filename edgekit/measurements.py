"""The measured times of a bundle, which differ from run to run, in a separate file beside the manifest.

All other files of a bundle are the same bytes whenever the same model is packaged the same way. In memory a manifest
holds both; on the disk :func:`split` takes the times out, and :func:`join` puts them back.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

MEASUREMENTS = "measurements.json"
TIMED = frozenset(
    {
        "float_latency_ms",
        "is_slower",
        "latency",
        "latency_ms",
        "load_ms",
        "microseconds",
        "milliseconds",
        "seconds",
        "settings",
        "speedup_interval",
    }
)
"""Keys of a manifest that hold times, or figures that depend on the machine's number of threads."""
_TIMED_STAGE = "bench"
"""The stage whose whole record is a time."""


def split(manifest: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The manifest without times, and the times by their places in the manifest, as JSON Pointers (RFC 6901)."""
    reproducible = copy.deepcopy(dict(manifest))
    values: dict[str, Any] = {}
    for place, stage in enumerate(reproducible["stages"]):
        if stage["name"] == _TIMED_STAGE and stage["record"]:
            values[f"/stages/{place}/record"] = stage["record"]
            stage["record"] = {}
    _take_out(reproducible, "", values)
    return reproducible, {"values": values}


def _take_out(value: Any, pointer: str, values: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key in list(value):
            here = f"{pointer}/{_escaped(key)}"
            if key in TIMED:
                values[here] = value.pop(key)
            else:
                _take_out(value[key], here, values)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            _take_out(item, f"{pointer}/{place}", values)


def join(manifest: Any, measurements: Any) -> str | None:
    """Puts times back into a manifest that was read; returns what is wrong with the times, or None."""
    values = measurements.get("values") if isinstance(measurements, dict) else None
    if not isinstance(values, dict):
        return "it holds no values"
    for pointer, value in values.items():
        *parents, key = [_unescaped(part) for part in pointer.split("/")[1:]] or [""]
        place = manifest
        for part in parents:
            if isinstance(place, dict) and part in place:
                place = place[part]
            elif isinstance(place, list) and part.isdecimal() and len(part) < 9 and int(part) < len(place):
                place = place[int(part)]
            else:
                return f"{pointer} is not a place in the manifest"
        timed = key in TIMED or (len(parents) == 2 and parents[0] == "stages" and key == "record")
        if not isinstance(place, dict) or not timed:
            return f"{pointer} is not a place for a time"
        place[key] = place.get(key) or value
    return None


def without_times(manifest: Mapping[str, Any]) -> str | None:
    """JSON Pointer to the first time that a valid manifest lacks and every bundle has; None if it lacks none."""
    builds = {"": manifest, **{f"/also/{place}": build for place, build in enumerate(manifest.get("also", ()))}}
    stages = {
        f"{pointer}/stages/{place}/seconds": stage
        for pointer, build in builds.items()
        for place, stage in enumerate(build["stages"])
    }
    if "latency" not in manifest:
        return "/latency"
    return next((pointer for pointer, stage in stages.items() if "seconds" not in stage), None)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
