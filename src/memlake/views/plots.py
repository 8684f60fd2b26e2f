"""Pictures of what differs: vectors that moved, images side by side. Knows no repo and no command.

Drawn by matplotlib without a screen. The same records give the same SVG. Names in files are drawn as they are and never
read as formulas.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlake.errors import InvalidInput, Unavailable
from memlake.views.embeddings import embedding_brief, figure_text
from memlake.views.media import image_brief
from memlake.views.words import clean, cut

if TYPE_CHECKING:
    from memlake.contents.images import ImagePair
    from memlake.rows.vector_map import VectorMap

FORMATS = ("svg", "png")
_STYLE: dict[Any, Any] = {"svg.hashsalt": "memlake", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False,
          "axes.spines.right": False, "font.family": ["DejaVu Sans"]}  # fmt: skip
_GREY, _BLUE, _GREEN, _RED = "#b8bcc2", "#2563b0", "#1a8a4a", "#c23b2e"
_NAMED = 5  # of those that moved most, how many have their id beside them


def check_plot_file(file: str) -> str:
    """The format of a picture by its suffix, once the drawing library is there."""
    suffix = file.rpartition(".")[2].lower()
    if suffix not in FORMATS or "." not in file:
        raise InvalidInput(f"a plot is written as .svg or .png, not as {file!r:.80}. Nothing was written.")
    try:
        import matplotlib.figure  # noqa: F401  an extra of its own
    except ImportError:
        raise Unavailable(
            "a plot needs matplotlib, which is not installed. Nothing was written.", hint="pip install 'memlake[plot]'"
        ) from None
    return suffix


def write_plot(sketch: VectorMap | ImagePair, name: str, file: str) -> None:
    """Draw what differs in a file into a picture; one that is there is replaced when the new one is whole."""
    suffix = check_plot_file(file)
    import tempfile  # these three only for those who draw
    import warnings

    import matplotlib as mpl

    target = Path(file)
    with mpl.rc_context({**mpl.rcParamsDefault, "backend": "agg", **_STYLE}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font does not have
        figure = _DRAWERS[type(sketch).__name__](sketch, clean(name))
        metadata = {"Date": None} if suffix == "svg" else {"Software": None}
        try:
            handle, part = tempfile.mkstemp(dir=target.parent, prefix=".memlake-plot-", suffix=f".{suffix}")
            try:
                with os.fdopen(handle, "wb") as stream:
                    figure.savefig(stream, format=suffix, dpi=150, metadata=metadata)
                os.chmod(part, 0o666 & ~_read_umask())
                os.replace(part, target)
            except BaseException:
                os.unlink(part)
                raise
        except OSError as error:
            raise InvalidInput(f"the plot cannot be written to {file!r:.80}: {error.strerror}.") from error


def _read_umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _text(axes: Any, *place_and_text: Any, **how: Any) -> None:
    axes.text(*place_and_text, parse_math=False, **how)


# -- embeddings ---------------------------------------------------------------------------------


def _draw_map(sketch: VectorMap, name: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    column = f", column {clean(sketch.diff.column)}" if sketch.diff.column else ""
    figure.suptitle(f"{cut(name, 60)}{column}: {embedding_brief(sketch.diff)}", parse_math=False, fontsize=10)
    _draw_drift(left, sketch)
    _draw_points(right, sketch)
    return figure


def _draw_drift(axes: Any, sketch: VectorMap) -> None:
    """How many vectors moved how far; with a rotation, what is left of it."""
    rest, drift = sketch.diff.rest, sketch.diff.drift
    shown = rest or drift
    axes.set_title("how far they moved beside the rotation" if rest else "how far they moved")
    if shown is None:
        axes.set_axis_off()
        _text(axes, 0.5, 0.5, "no vector moved", ha="center", va="center", transform=axes.transAxes)
        return
    width = shown.edges[1] - shown.edges[0]
    axes.bar(shown.edges[:-1], shown.counts, width=width, align="edge", color=_BLUE, edgecolor="white", linewidth=0.5)
    if max(shown.counts) > 50 * min(number for number in shown.counts if number):
        axes.set_yscale("log")  # few that moved far would not be seen beside many that did not
    else:
        axes.yaxis.get_major_locator().set_params(integer=True)
    for key, word in (("0.5", "half"), ("0.9", "90 %")):
        axes.axvline(shown.quantiles[key], color="#333333", linewidth=0.8, linestyle="--" if key == "0.5" else ":",
                     label=f"{word} {figure_text(shown.quantiles[key], 'up to ')}")  # fmt: skip
    axes.legend(frameon=False, loc="upper right")
    axes.set_xlabel("cosine distance from where it was")
    axes.set_ylabel("vectors")


def _draw_points(axes: Any, sketch: VectorMap) -> None:
    behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.6}  # an id is read above dots
    axes.set_title("where they are" + (", the old ones rotated" if sketch.is_turned else ""))
    if len(sketch.stayed):
        axes.scatter(*sketch.stayed.T, s=6, color=_GREY, label="in place", linewidths=0)
    for (x, y), (to_x, to_y) in zip(sketch.moved_from, sketch.moved_to, strict=True):
        axes.plot((x, to_x), (y, to_y), color=_BLUE, linewidth=0.5, alpha=0.4, zorder=2)
    if len(sketch.moved_to):
        axes.scatter(*sketch.moved_from.T, s=9, facecolors="white", edgecolors=_BLUE, linewidths=0.6, zorder=3,
                     label="moved from")  # fmt: skip
        axes.scatter(*sketch.moved_to.T, s=12, color=_BLUE, zorder=4, label="moved to", linewidths=0)
    if len(sketch.added):
        axes.scatter(*sketch.added.T, s=26, color=_GREEN, marker="+", zorder=4, label="added", linewidths=1.2)
    if len(sketch.removed):
        axes.scatter(*sketch.removed.T, s=18, color=_RED, marker="x", zorder=4, label="removed", linewidths=1.2)
    for (x, y), label in zip(sketch.moved_to[:_NAMED], sketch.moved_ids[:_NAMED], strict=True):
        axes.annotate(cut(clean(label), 24), (x, y), xytext=(4, 3), textcoords="offset points", fontsize=8,
                      parse_math=False, zorder=5, bbox=behind)  # fmt: skip
    axes.set_xlabel(f"first direction ({sketch.spread[0]:.0%} of the spread)")
    axes.set_ylabel(f"second direction ({sketch.spread[1]:.0%})")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), markerscale=1.5)


# -- images -------------------------------------------------------------------------------------


def _draw_pair(sketch: ImagePair, name: str) -> Any:
    from matplotlib.figure import Figure

    pictures: list[tuple[str, Any]] = [("before", sketch.old), ("after", sketch.new)]
    if sketch.difference is not None:
        pictures.append(("what differs", sketch.difference))
    height, width = (max(one.shape[axis] for _, one in pictures) for axis in (0, 1))
    figure = Figure(figsize=(3.7 * len(pictures), min(max(3.3 * height / width, 1.5), 8) + 0.7), layout="constrained")
    figure.suptitle(f"{cut(name, 60)}: {image_brief(sketch.diff)}", parse_math=False, fontsize=10)
    for axes, (title, values) in zip(figure.subplots(1, len(pictures), squeeze=False)[0], pictures, strict=True):
        is_heat = values.ndim == 2
        image = axes.imshow(values, cmap="inferno" if is_heat else None, vmin=0, vmax=1 if is_heat else None)
        axes.set_title(title)
        axes.set_axis_off()
        if is_heat:
            figure.colorbar(image, ax=axes, shrink=0.7, label="0 same, 1 opposite")
    return figure


_DRAWERS: dict[str, Callable[[Any, str], Any]] = {"VectorMap": _draw_map, "ImagePair": _draw_pair}
