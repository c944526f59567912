"""One page of HTML that needs nothing else: text is escaped, pictures are inside, no script, no network.

It is read on a phone (tables scroll by themselves, nothing is wider than the screen), in the dark, and on paper (what
is folded away on a screen is unfolded there).
"""

import base64
import html
import io
from collections.abc import Iterable, Sequence

from matplotlib import rc_context
from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --dim: #5c5c5c; --line: #d8d8d8; --paper: #ffffff; --soft: #f4f5f7; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --dim: #a8a8a8; --line: #444444; --paper: #16181b; --soft: #212429; }
  img { filter: invert(1) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 0.5rem; border-bottom: 1px solid var(--line); padding-bottom: 0.2rem; }
p, ul { margin: 0.5rem 0; }
ul { padding-left: 1.2rem; }
li { margin: 0.25rem 0; }
.lead, .dim, caption, figcaption { color: var(--dim); }
.good, .bad { border-left: 0.3rem solid #2a7d4f; background: var(--soft); padding: 0.5rem 0.8rem; }
.bad { border-color: #c8501e; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; caption-side: top; padding: 0.2rem 0; }
th, td { padding: 0.25rem 0.6rem 0.25rem 0; text-align: left; vertical-align: top; }
th, td { border-bottom: 1px solid var(--line); }
thead th { font-weight: 600; }
tbody th { font-weight: 500; }
td { overflow-wrap: normal; }
.number { text-align: right; white-space: nowrap; }
.told td { overflow-wrap: anywhere; }
.grid td, .grid th { padding: 0.2rem 0.35rem; text-align: center; font-size: 0.8rem; }
.grid tbody th { text-align: right; white-space: nowrap; }
.grid thead th { writing-mode: vertical-rl; transform: rotate(180deg); white-space: nowrap; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem; }
figure { margin: 0; }
figcaption { font-size: 0.9rem; }
img { max-width: 100%; height: auto; display: block; }
@media (max-width: 30rem) {
  table { font-size: 0.8rem; }
  th, td { padding-right: 0.5rem; }
  .number { white-space: normal; }
}
.scroll img { max-width: none; }
summary { cursor: pointer; padding: 0.4rem 0; font-weight: 600; }
@media print {
  @page { margin: 15mm; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  h2, summary { break-after: avoid; }
  figure, tr, li { break-inside: avoid; }
  img { max-height: 235mm; width: auto; }
  .scroll { overflow: visible; }
  .scroll img { max-width: 100%; }
  .grid td { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .figures { grid-template-columns: 1fr 1fr; }
  details::details-content { display: block; content-visibility: visible; }
}
"""


def text(value: object) -> str:
    """Anything as text of a page, with nothing in it that a browser would take for its own."""
    return html.escape(str(value), quote=True)


def page(title: str, parts: Iterable[str]) -> str:
    """Return the whole page. `parts` are HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def section(heading: str, *parts: str) -> str:
    """A heading with what belongs to it; nothing if there is nothing."""
    inside = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{text(heading)}</h2>\n{inside}\n</section>" if inside else ""


def heading(words: str) -> str:
    """The heading of the page."""
    return f"<h1>{text(words)}</h1>"


def paragraph(words: str, kind: str = "") -> str:
    """A paragraph of plain words."""
    return f"<p{_class(kind)}>{text(words)}</p>"


def bullets(lines: Iterable[str]) -> str:
    """A list of plain words."""
    items = "\n".join(f"<li>{text(line)}</li>" for line in lines)
    return f"<ul>\n{items}\n</ul>" if items else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = (), kind: str = "") -> str:
    """A table of plain words; columns with heads in `numbers` are aligned to the right. The first names the row."""
    aligned = [' class="number"' if name in numbers else "" for name in head]
    top = "".join(f'<th scope="col"{how}>{text(name)}</th>' for name, how in zip(head, aligned, strict=True))
    lines = []
    for row in rows:
        first, *rest = (text(cell) for cell in row)
        cells = "".join(f"<td{how}>{cell}</td>" for cell, how in zip(rest, aligned[1:], strict=True))
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    body = "\n".join(lines)
    return (
        f'<div class="scroll"><table{_class(kind)}>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n'
        "</table></div>"
    )


def shaded_table(names: Sequence[str], values, label: str) -> str:
    """A square table of numbers from -1 to 1, red above and blue below 0; a dash where there is none."""
    top = "".join(f'<th scope="col">{text(name)}</th>' for name in names)
    lines = []
    for i, name in enumerate(names):
        cells = "".join(_shaded(float(values[i][j]), i == j) for j in range(len(names)))
        lines.append(f'<tr><th scope="row">{text(name)}</th>{cells}</tr>')
    body = "\n".join(lines)
    return (
        f'<div class="scroll"><table class="grid"><caption>{text(label)}</caption>\n'
        f"<thead><tr><td></td>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _shaded(value: float, same: bool) -> str:
    if value != value:
        return "<td>–</td>"
    if same:
        return "<td>1</td>"
    colour = f"{'178, 24, 43' if value > 0 else '33, 102, 172'}, {0.75 * abs(value):.2f}"
    return f'<td style="background: rgba({colour})">{value:+.2f}</td>'


def folded(summary: str, inside: str, *, opened: bool = False) -> str:
    """What is folded away on a screen until somebody asks for it; unfolded on paper."""
    return f"<details{' open' if opened else ''}>\n<summary>{text(summary)}</summary>\n{inside}\n</details>"


def picture(drawn: Figure, alt: str, caption: str = "", *, wide: bool = False) -> str:
    """A figure inside the page: lines that stay sharp, or for a `wide` one points, as large as it is."""
    buffer = io.BytesIO()
    # Letters stay letters, and the same figure gives the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "jaxcontact"}):
        if wide:
            drawn.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
        else:
            drawn.savefig(
                buffer, format="svg", dpi=200, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
            )
    kind = "png" if wide else "svg+xml"
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    width, height = (round(100 * inches) for inches in drawn.get_size_inches())
    image = f'<img src="data:image/{kind};base64,{data}" alt="{text(alt)}" width="{width}" height="{height}">'
    image = f'<div class="scroll">{image}</div>' if wide else image
    words = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return f"<figure>{words}{image}</figure>"


def side_by_side(pictures: Iterable[str]) -> str:
    """Pictures side by side where there is room."""
    inside = "\n".join(pictures)
    return f'<div class="figures">\n{inside}\n</div>' if inside else ""


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
