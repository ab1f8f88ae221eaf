"""The table that every measurement fills: value, bar, met or missed."""

import json


def quantile(values, q):
    """Of sorted values."""
    return values[min(len(values) - 1, int(len(values) * q))]


class Results:
    def __init__(self):
        self.rows = []

    def add(self, what, value, unit, bar, met, ratio=None):
        self.rows.append({"what": what, "value": value, "unit": unit, "bar": bar, "met": met, "ratio": ratio})
        mark = {True: "ok", False: "MISSED", None: ""}[met]
        shown = f"{ratio:.2f}x" if ratio is not None else ""
        print(f"{what:<58} {value:>12.2f} {unit:<6} {shown:>7}  {bar:<26} {mark}", flush=True)

    def finish(self, path):
        """Writes them down when there is a path; the exit status: 1 when a bar is missed."""
        if path:
            with open(path, "w") as f:
                json.dump(self.rows, f, indent=1)
        return int(any(row["met"] is False for row in self.rows))
