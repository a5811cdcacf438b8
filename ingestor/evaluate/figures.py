"""Draws charts as SVG: recall by budget, differences between strategies, and sizes of chunks. Pure.

Colours are CSS variables, which the page's style sets for light and dark screens.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ingestor.evaluate.comparison import Comparison, Interval

COLOURS = 8
_WIDTH, _HEIGHT, _LEFT, _TOP = 520, 300, 46, 14
_ROW, _PLOT, _LETTER = 26, 420, 7.6  # _LETTER: approximate greatest width of a letter
_BARS = 12
_STEPS = (1, 2, 5, 10, 20, 50)  # points between two marks of a scale
_LARGEST = 600  # tokens; larger chunks are in the last bar


def curves(names: Sequence[str], comparisons: Mapping[int, Comparison], pick: int) -> str:
    """Draw a line for each strategy: its recall by the number of retrieved tokens.

    ``comparisons``: the comparison at each budget in tokens. ``pick``: number of the recommended strategy,
    whose line is thicker and has a band for its 95 % interval.
    """
    budgets = sorted(comparisons)
    order = [*(at for at in range(len(names)) if at != pick), pick]  # the picked one is drawn last
    means = {at: [comparisons[budget].means[at] for budget in budgets] for at in order}
    low, high = _range(means.values())
    lines = "".join(_line(budgets, means[at], (low, high), at, at == pick) for at in order)
    return (
        f'<svg viewBox="0 0 {_LEFT + _WIDTH + 12} {_TOP + _HEIGHT + 44}" role="img">'
        f"<title>Recall against budget</title>{_axes(budgets, (low, high))}{lines}</svg>"
    )


def differences(names: Sequence[str], comparison: Comparison, base: int) -> str:
    """Draw how much each strategy's recall differs from that of strategy ``base``, with 95 % intervals."""
    rows = [(at, comparison.difference(at, base)) for at in range(len(names)) if at != base]
    if not rows:
        return ""
    most = max(1.0, *(100 * max(-d.interval.low, d.interval.high) for _, d in rows))

    left = 24 + _LETTER * max(len(names[at]) for at, _ in rows)

    def x(points: float) -> float:
        return left + _PLOT * (0.5 + 0.46 * points / most)

    height = _ROW * len(rows)
    step = next((each for each in _STEPS if most / each <= 4), _STEPS[-1])
    ticks = [step * at for at in range(-int(most // step), int(most // step) + 1)]
    scale = "".join(
        f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="0" y2="{height}" class="rule"/>'
        f'<text x="{x(tick):.1f}" y="{height + 16}" class="soft" text-anchor="middle">{_tick(tick)}</text>'
        for tick in ticks
    )
    drawn = "".join(
        f'<text x="{left - 14:.0f}" y="{_ROW * row + 18}" text-anchor="end">{escape(names[at])}</text>'
        f'<g style="color:var(--{"accent" if d.clear else "soft"})">'
        f'<line x1="{x(100 * d.interval.low):.1f}" x2="{x(100 * d.interval.high):.1f}" y1="{_ROW * row + 13}"'
        f' y2="{_ROW * row + 13}" class="arm"/>'
        f'<circle cx="{x(100 * d.interval.mean):.1f}" cy="{_ROW * row + 13}" r="4.5" class="dot"/></g>'
        f'<text x="{left + _PLOT + 8:.0f}" y="{_ROW * row + 18}">{_points(d.interval.mean)}'
        f'<tspan class="soft"> ({_points(d.interval.low)} to {_points(d.interval.high)})</tspan></text>'
        for row, (at, d) in enumerate(rows)
    )
    return (
        f'<svg viewBox="0 0 {left + _PLOT + 170:.0f} {height + 42}" role="img">'
        "<title>Differences of recall</title>"
        f"{scale}"
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{height}" stroke="currentColor"/>{drawn}'
        f'<text x="{x(0):.1f}" y="{height + 36}" class="soft" text-anchor="middle">'
        f"points of recall, against {escape(names[base])}</text></svg>"
    )


def sizes(tokens: Sequence[int]) -> str:
    """Draw a bar chart of chunk sizes.

    ``tokens``: size of each chunk; each bar covers a range of fifty tokens.
    """
    counts = [0] * _BARS
    for each in tokens:
        counts[min(_BARS - 1, each * _BARS // _LARGEST)] += 1
    most = max(1, *counts)
    bars = "".join(
        f'<rect x="{9 * at}" y="{22 - 22 * count / most:.1f}" width="8" height="{22 * count / most:.1f}"/>'
        for at, count in enumerate(counts)
    )
    title = "<title>Sizes of chunks</title>"
    return f'<svg class="sizes" viewBox="0 0 {9 * _BARS} 22" role="img">{title}{bars}</svg>'


def colour(at: int) -> str:
    """Return the name of the CSS variable with a strategy's colour. ``at``: number of the strategy."""
    return f"c{at % COLOURS}"


def _tick(points: int) -> str:
    return f"{points:+d}".replace("-", "−") if points else "0"


def _points(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")


def _range(rows: Iterable[Sequence[Interval]]) -> tuple[float, float]:
    """Return the lowest and highest recall on the vertical axis: the tenths around all means in ``rows``."""
    means = [each.mean for row in rows for each in row]
    low = max(0, int(10 * min(means) - 0.5)) / 10
    high = min(10, int(10 * max(means) + 1.5)) / 10
    return low, high


def _axes(budgets: Sequence[int], ends: tuple[float, float]) -> str:
    """Draw the horizontal grid lines with their percentages, and the budgets below the chart."""
    low, high = round(10 * ends[0]), round(10 * ends[1])
    levels = "".join(
        f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{_y(v / 10, ends):.1f}" y2="{_y(v / 10, ends):.1f}"'
        ' class="rule"/>'
        f'<text x="{_LEFT - 8}" y="{_y(v / 10, ends) + 4:.1f}" text-anchor="end" class="soft">{10 * v}</text>'
        for v in range(low, high + 1)
    )
    below = f'y="{_TOP + _HEIGHT + 20}" text-anchor="middle" class="soft"'
    marks = "".join(f'<text x="{_x(b, budgets):.1f}" {below}>{b:,}</text>' for b in budgets)
    return (
        f'{levels}{marks}<text x="{_LEFT + _WIDTH / 2}" y="{_TOP + _HEIGHT + 40}" text-anchor="middle"'
        ' class="soft">tokens retrieved</text>'
    )


def _line(
    budgets: Sequence[int], means: Sequence[Interval], ends: tuple[float, float], at: int, picked: bool
) -> str:
    def points(values: Sequence[tuple[int, float]]) -> str:
        return " ".join(f"{_x(b, budgets):.1f},{_y(v, ends):.1f}" for b, v in values)

    low = [(b, m.low) for b, m in zip(budgets, means, strict=True)]
    high = [(b, m.high) for b, m in zip(budgets, means, strict=True)]
    band = f'<polygon points="{points([*low, *high[::-1]])}" class="band"/>' if picked else ""
    middle = points([(b, m.mean) for b, m in zip(budgets, means, strict=True)])
    radius = 4 if picked else 3
    dots = "".join(
        f'<circle cx="{_x(b, budgets):.1f}" cy="{_y(m.mean, ends):.1f}" r="{radius}" class="dot"/>'
        for b, m in zip(budgets, means, strict=True)
    )
    return (
        f'<g style="color:var(--{colour(at)})">{band}'
        f'<polyline points="{middle}" class="line{" picked" if picked else ""}"/>{dots}</g>'
    )


def _x(budget: int, budgets: Sequence[int]) -> float:
    """Return the horizontal coordinate of a budget.

    ``budgets``: all budgets on the axis, in ascending order.
    """
    first, last = min(budgets), max(budgets)
    share = (budget - first) / (last - first) if last > first else 0.5
    return _LEFT + 24 + (_WIDTH - 48) * share


def _y(share: float, ends: tuple[float, float]) -> float:
    """Return the vertical coordinate of a recall between 0 and 1.

    ``ends``: recall at the lower and at the upper end of the axis.
    """
    low, high = ends
    return _TOP + _HEIGHT * (1 - min(1.0, max(0.0, (share - low) / (high - low))))
