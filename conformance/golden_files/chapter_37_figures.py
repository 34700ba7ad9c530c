"""What chapter 37 prints, computed from exact values: every figure that follows from its inputs."""

from __future__ import annotations

from fractions import Fraction

from conformance.golden_files.numbers import Tree
from reference_impl.exact import fixed_point

_HEADS, _ROWS, _WIDTH = 2, 3, 2

_REPORTED_WORK = (
    "full_rows_per_projection", "incremental_rows_per_projection", "reused_rows_per_kv_projection",
    "avoided_rows_across_kv",
)
_RESET = ("allocation_reused", "storage_unchanged", "replay_identical")
_REFUSED = (
    "two_tokens", "full_cache", "model_mismatch", "head_mismatch", "layer_mismatch", "rope_mismatch",
    "rope_positions_mismatch", "nonfinite_projection", "unchanged",
)


def chapter_figures(exact: Tree) -> Tree:
    """Steps, work, reset, rejections and the six lines of the report, as the chapter prints them.

    exact: the exact arrays of the published rows. Keys, values and outputs have 9 decimals, weights and
    differences 12. The cached and the full pass are the same real number, so their difference is 0.
    """
    steps = [_step(exact, t) for t in range(_ROWS)]
    work = {
        "newest_query_key_rows": [step["length_after"] for step in steps],
        "full_rows_per_projection": str(sum(t + 1 for t in range(_ROWS))),
        "incremental_rows_per_projection": str(_ROWS),
        "reused_rows_per_kv_projection": str(sum(range(_ROWS))),
        "avoided_rows_across_kv": str(2 * sum(range(_ROWS))),
        "reused_key_rows": str(sum(range(_ROWS))),
        "reused_value_rows": str(sum(range(_ROWS))),
    }
    reset = {"before": str(_ROWS), "after": "0", **dict.fromkeys(_RESET, "true")}
    rejections = dict.fromkeys(_REFUSED, "true")
    return {
        "steps": steps,
        "work": work,
        "reset": reset,
        "rejections": rejections,
        "report_lines": [
            *(_step_line(step) for step in steps),
            _line("work", {name: work[name] for name in _REPORTED_WORK}),
            _line("reset", reset),
            _line("errors", rejections),
        ],
    }


def _step(exact: Tree, t: int) -> Tree:
    output = _numbers(exact, "output", t, 9)
    return {
        "position": str(t),
        "length_before": str(t),
        "length_after": str(t + 1),
        "cache_shape": ["1", str(_HEADS), str(t + 1), str(_WIDTH)],
        "heads": [
            {"head": str(h), "rows": [_row(exact, h, t, position) for position in range(t + 1)]}
            for h in range(_HEADS)
        ],
        "cached_output": output,
        "full_prefix_output": output,
        "max_abs_difference": fixed_point(0, 12),
    }


def _row(exact: Tree, head: int, t: int, position: int) -> Tree:
    return {
        "position": str(position),
        "state": "appended" if position == t else "retained",
        "rotated_key": _numbers(exact, "keys", head * _ROWS + position, 9),
        "unrotated_value": _numbers(exact, "values", head * _ROWS + position, 9),
        "weight": _numbers(exact, "weights", head * _ROWS + t, 12)[position],
    }


def _numbers(exact: Tree, field: str, row: int, places: int) -> list[str]:
    return [fixed_point(Fraction(number), places) for number in exact[field]["rows"][row].split()]


def _step_line(step: Tree) -> str:
    return (
        f"step=position:{step['position']} cache:{step['length_before']}->{step['length_after']} "
        f"shape:[{','.join(step['cache_shape'])}] max_abs_diff:{step['max_abs_difference']} "
        f"output:[{','.join(step['cached_output'])}]"
    )


def _line(name: str, figures: Tree) -> str:
    return f"{name}=" + " ".join(f"{key}:{value}" for key, value in figures.items())
