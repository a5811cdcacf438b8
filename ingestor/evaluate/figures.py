"""Draws charts as SVG: recall by budget, differences between strategies, and sizes of chunks. Pure.

Colours are CSS variables, which the page's style sets for light and dark screens.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ingestor.evaluate.comparison import Comparison

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
    rows = [comparisons[budget].means for budget in budgets]
    means = [each.mean for row in rows for each in row]
    low, high = max(0, int(10 * min(means) - 0.5)), min(10, int(10 * max(means) + 1.5))  # tenths around all

    def x(budget: int) -> float:
        first, last = budgets[0], budgets[-1]
        return _LEFT + 24 + (_WIDTH - 48) * ((budget - first) / (last - first) if last > first else 0.5)

    def y(share: float) -> float:
        return _TOP + _HEIGHT * (1 - min(1.0, max(0.0, (share - low / 10) / (high / 10 - low / 10))))

    def points(values: Iterable[tuple[int, float]]) -> str:
        return " ".join(f"{x(budget):.1f},{y(share):.1f}" for budget, share in values)

    levels = "".join(
        f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y(v / 10):.1f}" y2="{y(v / 10):.1f}" class="rule"/>'
        f'<text x="{_LEFT - 8}" y="{y(v / 10) + 4:.1f}" text-anchor="end" class="soft">{10 * v}</text>'
        for v in range(low, high + 1)
    )
    below = f'y="{_TOP + _HEIGHT + 20}" text-anchor="middle" class="soft"'
    lines = "".join(f'<text x="{x(b):.1f}" {below}>{b:,}</text>' for b in budgets)
    lines += (
        f'<text x="{_LEFT + _WIDTH / 2}" y="{_TOP + _HEIGHT + 40}" text-anchor="middle"'
        ' class="soft">tokens retrieved</text>'
    )
    for at in [*(at for at in range(len(names)) if at != pick), pick]:  # the picked one is drawn last
        own = [(budget, row[at]) for budget, row in zip(budgets, rows, strict=True)]
        around = [(b, m.low) for b, m in own] + [(b, m.high) for b, m in own[::-1]]
        band = f'<polygon points="{points(around)}" class="band"/>' if at == pick else ""
        middle = [(b, m.mean) for b, m in own]
        dots = "".join(
            f'<circle cx="{x(b):.1f}" cy="{y(mean):.1f}" r="{4 if at == pick else 3}" class="dot"/>'
            for b, mean in middle
        )
        lines += (
            f'<g style="color:var(--{colour(at)})">{band}'
            f'<polyline points="{points(middle)}" class="line{" picked" if at == pick else ""}"/>{dots}</g>'
        )
    return (
        f'<svg viewBox="0 0 {_LEFT + _WIDTH + 12} {_TOP + _HEIGHT + 44}" role="img">'
        f"<title>Recall against budget</title>{levels}{lines}</svg>"
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
