"""Run once in a kernel of E2B's code interpreter: what figures of matplotlib and tables of pandas hold goes along with
their results, as `chart` and `data`. Leaves no name behind that a cell could see."""


def _begin():
    import math
    import re

    from IPython import get_ipython
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Unicode

    most = 100000  # points of a figure, cells of a table: beyond that the picture has to do

    def plain(value):
        value = value.item() if type(value).__module__ == "numpy" and value.dtype.kind not in "Mm" else value
        if type(value).__module__ == "numpy":
            return str(value.astype("datetime64[s]" if value.dtype.kind == "M" else "timedelta64[s]"))
        if value != value or (isinstance(value, float) and math.isinf(value)):  # no number, no time
            return None
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        return value.isoformat() if hasattr(value, "isoformat") else str(value)

    def labels_of(ax, swapped=False):
        labels = (ax.get_ylabel(), ax.get_xlabel()) if swapped else (ax.get_xlabel(), ax.get_ylabel())
        units = [re.search(r"\((.*?)\)|\[(.*?)\]", label) for label in labels]
        units = [found and (found[1] or found[2]) for found in units]
        return {"x_label": labels[0] or None, "y_label": labels[1] or None, "x_unit": units[0], "y_unit": units[1]}

    def ticks_of(axis, scale):
        """Places, their names, and what kind of places they are."""
        places, names = list(axis.get_ticklocs()), [label.get_text() for label in axis.get_ticklabels()]
        converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
        if "Date" in type(converter).__name__:
            from matplotlib.dates import num2date

            return [num2date(place).isoformat() for place in places], names, "datetime"
        named = all(place == i and name != str(i) for i, (place, name) in enumerate(zip(places, names)))
        return [plain(place) for place in places], names, "categorical" if scale == "linear" and named else scale

    def points_of(ax, kind, series):
        chart = {"type": kind, **labels_of(ax)}
        for which, axis, scale in (("x", ax.xaxis, ax.get_xscale()), ("y", ax.yaxis, ax.get_yscale())):
            chart[f"{which}_ticks"], chart[f"{which}_tick_labels"], chart[f"{which}_scale"] = ticks_of(axis, scale)
        chart["elements"] = [
            {"label": label, "points": [[plain(x), plain(y)] for x, y in points]} for label, points in series
        ]
        return chart

    def lines_of(ax, lines):
        def name(label):
            return f"Line {label[6:]}" if label.startswith("_child") else label

        return points_of(ax, "line", [(name(one.get_label()), zip(one.get_xdata(), one.get_ydata())) for one in lines])

    def scatter_of(ax):
        return points_of(ax, "scatter", [(one.get_label(), one.get_offsets()) for one in ax.collections])

    def bars_of(ax):
        groups = [group for group in ax.containers if hasattr(group, "patches")]
        lying = any(getattr(group, "orientation", "vertical") == "horizontal" for group in groups)
        places, names, scale = ticks_of(ax.yaxis if lying else ax.xaxis, "linear")
        bars = []
        for number, group in enumerate(groups):
            label = group.get_label()
            for bar in group.patches:
                start, size, value = bar.get_x(), bar.get_width(), bar.get_height()
                if lying:
                    start, size, value = bar.get_y(), bar.get_height(), bar.get_width()
                middle = start + size / 2
                nearest = min(range(len(places)), key=lambda i: abs(places[i] - middle), default=0)
                named = names[nearest] if scale == "categorical" and names else f"{middle:g}"
                group_name = f"Group {number}" if label.startswith("_container") else label
                bars.append({"label": named, "group": group_name, "value": plain(value)})
        return {"type": "bar", **labels_of(ax, lying), "elements": bars}

    def pie_of(ax):
        def part(one):
            return {"label": one.get_label(), "angle": round(abs(one.theta2 - one.theta1), 6), "radius": plain(one.r)}

        return {"type": "pie", "elements": [part(one) for one in ax.patches]}

    def boxes_of(ax):
        """Of each box its sides; of the lines that stand on it the ends, of those across it the median."""
        corners = [one.get_path().vertices for one in ax.patches]
        widths = {round(float(at[:, 0].max() - at[:, 0].min()), 9) for at in corners}
        lying = len(widths) > 1
        along, across = (1, 0) if lying else (0, 1)
        names = ticks_of(ax.yaxis if lying else ax.xaxis, "linear")[1]
        boxes = []
        for i, at in enumerate(corners):
            left, right = at[:, along].min(), at[:, along].max()
            low, high = float(at[:, across].min()), float(at[:, across].max())
            box = {"label": names[i] if i < len(names) else "", "min": low, "first_quartile": low}
            box |= {"median": low, "third_quartile": high, "max": high, "outliers": []}
            for line in ax.get_lines():
                data = (line.get_xdata(), line.get_ydata())
                sides, ends = [float(v) for v in data[along]], [float(v) for v in data[across]]
                if not ends or not left <= min(sides) <= max(sides) <= right:
                    continue
                if line.get_linestyle() == "None":
                    box["outliers"] += ends
                elif sides[0] == sides[-1] and math.isclose(max(ends), low):
                    box["min"] = min(ends)
                elif sides[0] == sides[-1] and math.isclose(min(ends), high):
                    box["max"] = max(ends)
                elif ends[0] == ends[-1] and low <= ends[0] <= high and (sides[0], sides[-1]) == (left, right):
                    box["median"] = ends[0]
            boxes.append(box)
        return {"type": "box_and_whisker", **labels_of(ax, lying), "elements": boxes}

    def chart_of(ax):
        from matplotlib.collections import PathCollection
        from matplotlib.patches import PathPatch, Rectangle, Wedge

        def helps(line):  # of a grid, or across the whole chart
            x, y = line.get_xdata(), line.get_ydata()
            return len(x) == len(y) == 2 and (x[0] == x[1] or y[0] == y[1])

        def only(kind, things):
            return len(things) > 0 and all(isinstance(one, kind) for one in things)

        lines = [line for line in ax.get_lines() if not helps(line)]
        patches, collections = list(ax.patches), list(ax.collections)
        chart = {"type": "unknown", "elements": []}
        if lines and not patches and not collections:
            chart = lines_of(ax, lines)
        elif only(PathPatch, patches) and not collections:
            chart = boxes_of(ax)
        elif only(PathCollection, collections) and not patches and not lines:
            chart = scatter_of(ax)
        elif only(Wedge, patches) and not lines and not collections:
            chart = pie_of(ax)
        elif only(Rectangle, patches) and not lines and not collections:
            chart = bars_of(ax)
        return {**chart, "title": ax.get_title() or None}

    def own_chart_of(figure, axes):
        if len(axes) == 1:
            return chart_of(axes[0])
        title = figure._suptitle.get_text() if figure._suptitle else None
        return {"type": "superchart", "title": title, "elements": [chart_of(ax) for ax in axes]}

    def figure_of(figure):
        """As the vendor's own package has it where a template has that, or as we do."""
        try:
            axes = [ax for ax in figure.axes if ax.has_data()]
            size = sum(len(line.get_xdata()) for ax in axes for line in ax.get_lines())
            size += sum(len(one.get_offsets()) for ax in axes for one in ax.collections)
            if not axes or size > most:
                return None
            try:
                from e2b_charts import chart_figure_to_dict

                return chart_figure_to_dict(figure)
            except Exception:  # it is not there, or does not know this matplotlib
                return own_chart_of(figure, axes)
        except Exception:  # the picture is there all the same
            return None

    def table_of(table):
        try:
            if table.size > most:
                return None
            return {str(name): [plain(value) for value in values] for name, values in table.to_dict("list").items()}
        except Exception:
            return None

    class Charts(BaseFormatter):
        format_type, print_method = Unicode("e2b/chart"), ObjectName("_repr_e2b_chart_")
        _return_type = dict

        def pop(self, *which):
            """The inline backend takes figures away from all formatters before it says which it wants."""

    class Data(BaseFormatter):
        format_type, print_method = Unicode("e2b/data"), ObjectName("_repr_e2b_data_")
        _return_type = dict

    display = get_ipython().display_formatter
    for formatter, module, name, call in (
        (Charts(parent=display), "matplotlib.figure", "Figure", figure_of),
        (Data(parent=display), "pandas.core.frame", "DataFrame", table_of),
    ):
        formatter.for_type_by_name(module, name, call)
        display.formatters[formatter.format_type] = formatter


_begin()
del _begin
