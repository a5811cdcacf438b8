"""Recall against budget as an SVG, a line with its band for each strategy. Pure."""

from collections.abc import Mapping, Sequence
from html import escape

from ingestor.evaluate.intervals import Comparison, Interval

_WIDTH, _HEIGHT, _LEFT, _TOP, _LEGEND = 460, 320, 44, 12, 330
_COLOURS = ("#1f6feb", "#c2410c", "#15803d", "#9333ea", "#b91c1c", "#0e7490", "#a16207", "#475569")


def curves(names: Sequence[str], comparisons: Mapping[int, Comparison], pick: int) -> str:
    """``comparisons``: by budget. The picked strategy's line is the thickest, and only it has its band."""
    budgets = sorted(comparisons)
    lines = [
        _line(budgets, [comparisons[b].means[at] for b in budgets], at, at == pick)
        for at in range(len(names))
    ]
    legend = "".join(
        f'<text x="{_LEFT + _WIDTH + 16}" y="{_TOP + 18 + 22 * at}" fill="{_colour(at)}"'
        f' font-weight="{600 if at == pick else 400}">{escape(name)}</text>'
        for at, name in enumerate(names)
    )
    return (
        f'<svg viewBox="0 0 {_LEFT + _WIDTH + _LEGEND} {_TOP + _HEIGHT + 40}" width="834" role="img"'
        f' font-family="system-ui,sans-serif" font-size="13"><title>Recall against budget</title>'
        f"{_axes(budgets)}{''.join(lines)}{legend}</svg>"
    )


def _axes(budgets: Sequence[int]) -> str:
    levels = "".join(
        f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{_y(v):.1f}" y2="{_y(v):.1f}" stroke="#d9dee3"/>'
        f'<text x="{_LEFT - 6}" y="{_y(v) + 4:.1f}" text-anchor="end" fill="#57606a">{100 * v:.0f}</text>'
        for v in (0, 0.25, 0.5, 0.75, 1)
    )
    below = f'y="{_TOP + _HEIGHT + 20}" text-anchor="middle" fill="#57606a"'
    marks = "".join(f'<text x="{_x(b, budgets):.1f}" {below}>{b:,}</text>' for b in budgets)
    return (
        f'{levels}{marks}<text x="{_LEFT}" y="{_TOP + _HEIGHT + 38}" fill="#57606a">tokens retrieved</text>'
    )


def _line(budgets: Sequence[int], means: Sequence[Interval], at: int, picked: bool) -> str:
    def points(values: Sequence[tuple[int, float]]) -> str:
        return " ".join(f"{_x(b, budgets):.1f},{_y(v):.1f}" for b, v in values)

    middle = [(b, m.mean) for b, m in zip(budgets, means, strict=True)]
    low = [(b, m.low) for b, m in zip(budgets, means, strict=True)]
    high = [(b, m.high) for b, m in zip(budgets, means, strict=True)]
    area = points([*low, *high[::-1]])
    band = f'<polygon points="{area}" fill="{_colour(at)}" opacity="0.14"/>' if picked else ""
    dots = "".join(
        f'<circle cx="{_x(b, budgets):.1f}" cy="{_y(v):.1f}" r="3" fill="{_colour(at)}"/>' for b, v in middle
    )
    return (
        f'{band}<polyline points="{points(middle)}" fill="none" stroke="{_colour(at)}"'
        f' stroke-width="{3 if picked else 1.5}"/>{dots}'
    )


def _x(budget: int, budgets: Sequence[int]) -> float:
    """From nothing to the largest budget."""
    return _LEFT + _WIDTH * budget / max(budgets)


def _y(share: float) -> float:
    return _TOP + _HEIGHT * (1 - min(1.0, max(0.0, share)))


def _colour(at: int) -> str:
    return _COLOURS[at % len(_COLOURS)]
