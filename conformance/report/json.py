"""The report as a JSON file, described by `conformance/schemas/report.schema.json`.

Numbers that are not finite stand as the strings "nan", "inf", "-inf". The footer comes last, with counts and
a digest of all that stands before it: a report without it, or with another, was cut or changed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from conformance.adapter import Declaration
from conformance.errors import ConformanceError
from conformance.judge.findings import Check
from conformance.report.files import write_whole
from conformance.report.finding import reproduce, sentence
from conformance.report.model import Report
from conformance.verdict import ProfileVerdict

FORMAT = "kv-conformance report"
FORMAT_VERSION = "1"


def report_document(report: Report) -> dict[str, Any]:
    """The report as plain values, ready for `json.dumps`."""
    likenesses = list(dict.fromkeys(report.looks_like.values()))
    body: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "contract_version": report.contract_version,
        "adapter": report.adapter,
        "broken": {"message": report.broken, "detail": report.broken_detail} if report.broken else None,
        "declaration": None if report.declaration is None else _declaration(report.declaration),
        "environment": dict(report.environment),
        "seeds": dict(report.seeds),
        "keyword": report.keyword,
        "traces": {"planned": report.planned, "reported": report.reported, "digest": report.digest},
        "seconds": {"run": report.seconds, "adapter": report.adapter_seconds},
        "verdict": {"text": report.verdict.text, "exit_code": report.verdict.exit_code},
        "profiles": [_profile(profile) for profile in report.verdict.profiles],
        "likenesses": [list(lines) for lines in likenesses],
        "findings": [_finding(check, report, likenesses) for check in report.findings],
    }
    plain: dict[str, Any] = _plain(body)
    return {**plain, "footer": _footer(plain, len(report.checks))}


def write_report(report: Report, path: Path) -> None:
    """Write the report to `path`, whole or not at all. Raises UsageError where that cannot be."""
    write_whole(path, json.dumps(report_document(report), indent=1, allow_nan=False) + "\n")


def read_report(path: Path) -> dict[str, Any]:
    """The document in `path`. Raises ConformanceError where it is cut, changed, or no report at all."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConformanceError(f"{path}: not a whole report: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ConformanceError(f"{path}: this JSON file is no report of kv-conformance")
    footer = document.pop("footer", None)
    if not isinstance(footer, dict) or footer != _footer(document, footer.get("checks", 0)):
        raise ConformanceError(f"{path}: the footer does not fit what stands before it: cut or changed")
    return {**document, "footer": footer}


def _declaration(given: Declaration) -> dict[str, Any]:
    return {
        "name": given.name,
        "version": given.version,
        "levels": list(given.levels),
        "dtypes": list(given.dtypes),
        "features": sorted(given.features),
        "precision": asdict(given.precision),
        "deterministic": given.deterministic,
        "keys": given.keys,
        "heads": given.heads,
        "pairings": list(given.pairings),
        "head_width_multiple": given.head_width_multiple,
        "value_width": given.value_width,
        "rows_per_append": given.rows_per_append,
        "capacity": given.capacity,
        "prefill_logits": given.prefill_logits,
        "weights": given.weights,
        "rejections": {f"{kind.__module__}.{kind.__qualname__}": to for kind, to in given.rejections.items()},
    }


def _profile(given: ProfileVerdict) -> dict[str, Any]:
    requirements = [
        {
            "id": entry.requirement.id,
            "sentence": entry.requirement.sentence,
            "standing": entry.standing,
            "checks": entry.checks,
            "findings": len(entry.findings),
            "share": entry.share,
            "reason": entry.reason,
            "where_observable": entry.requirement.where_observable,
        }
        for entry in given.results
    ]
    counts: dict[str, int] = {}
    for entry in given.results:
        counts[entry.standing] = counts.get(entry.standing, 0) + 1
    return {
        "profile": given.profile,
        "verdict": {"text": given.text, "exit_code": given.exit_code},
        "counts": counts,
        "requirements": requirements,
    }


def _finding(check: Check, report: Report, likenesses: list[tuple[str, ...]]) -> dict[str, Any]:
    likeness = report.looks_like.get((check.trace, check.step))
    return {
        "requirement": check.requirement,
        "sentence": sentence(check.requirement),
        "status": check.status,
        "trace": check.trace,
        "step": check.step,
        "place": check.place,
        "message": check.message,
        "detail": check.detail,
        "difference": None if check.difference is None else asdict(check.difference),
        "looks_like": None if likeness is None else likenesses.index(likeness),
        "reproduce": reproduce(check.trace, report),
    }


def _footer(body: Mapping[str, Any], checks: int) -> dict[str, Any]:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    profiles = body.get("profiles") or []
    return {
        "profiles": len(profiles),
        "requirements": sum(len(profile["requirements"]) for profile in profiles),
        "checks": checks,
        "findings": len(body.get("findings") or []),
        "digest": f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}",
    }


def _plain(value: Any) -> Any:
    """Values that JSON has: numbers that are not finite become strings."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
