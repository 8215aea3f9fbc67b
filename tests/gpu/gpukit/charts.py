"""Charts of results as SVG, for a light and a dark page."""

COLOURS = {
    "light": {"ink": "#1f2328", "faint": "#d0d7de", "bars": ("#8c959f", "#bf8700", "#0969da", "#8250df", "#1a7f37")},
    "dark": {"ink": "#e6edf3", "faint": "#3d444d", "bars": ("#8b949e", "#d29922", "#58a6ff", "#a371f7", "#3fb950")},
}
WIDTH, LINE, LEFT, RIGHT = 720, 18, 130, 60


def bars(title, groups, theme, unit=""):
    """Horizontal bars: groups of (label, [(series, value)]), one scale for all, each bar with its figure."""
    colours = COLOURS[theme]
    series = list(dict.fromkeys(name for _, values in groups for name, _ in values))
    largest = max((value for _, values in groups for _, value in values), default=1) or 1
    y, parts = 54, []
    for place, name in enumerate(series):
        x = LEFT + place * 110
        parts.append(f'<rect x="{x}" y="30" width="10" height="10" fill="{_fill(colours, place)}"/>'
                     f'<text x="{x + 15}" y="39">{_text(name)}</text>')
    for label, values in groups:
        parts.append(f'<text x="{LEFT - 8}" y="{y + LINE * len(values) / 2 + 4:.0f}" text-anchor="end">'
                     f'{_text(label)}</text>')
        for name, value in values:
            wide = (WIDTH - LEFT - RIGHT) * value / largest
            parts.append(f'<rect x="{LEFT}" y="{y + 2}" width="{max(wide, 1):.1f}" height="{LINE - 4}" '
                         f'fill="{_fill(colours, series.index(name))}"/>'
                         f'<text x="{LEFT + wide + 5:.1f}" y="{y + 13}">{value:.3g}{unit}</text>')
            y += LINE
        y += 10
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 6}" width="{WIDTH}" '
            f'height="{y + 6}" font-family="system-ui, sans-serif" font-size="12" fill="{colours["ink"]}" '
            f'role="img" aria-label="{_text(title)}">\n<text x="8" y="18" font-size="14" font-weight="600">'
            f'{_text(title)}</text>\n<line x1="{LEFT}" y1="50" x2="{LEFT}" y2="{y}" stroke="{colours["faint"]}"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def _fill(colours, place):
    return colours["bars"][place % len(colours["bars"])]


def _text(words):
    return str(words).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
