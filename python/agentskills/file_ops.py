"""Looking at files through a window of lines, and searching in them.

All of these print what they have to say and return nothing: an agent reads the output of its cell.
"""

import os
import stat

WINDOW = 100  # lines shown at a time
MOST_FILES = 100  # with matches, that a search still lists
LONGEST = 1000  # characters shown of a line that matches

_file = None  # what open_file has opened
_line = 1


def _fail(text):
    print("ERROR: " + text)


def _is_regular(path):
    """Nothing else is read: opening a pipe would wait for its writer."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _open(path):
    return open(path, encoding="utf-8", errors="replace")


def _lines(path):
    with _open(path) as file:
        text = file.read()
    lines = text.split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _header(path, lines):
    return "[File: %s (%d lines total)]" % (os.path.abspath(path), len(lines))


def _window(lines, line, size, from_here=False):
    """The lines around `line`, or from it on, with what surrounds them."""
    total = len(lines)
    if from_here:
        first, last = line, min(total, line + size)
    else:
        half = max(1, size // 2)
        first, last = max(1, line - half), min(total, line + half)
    if first == 1:
        last = min(total, size)
    if last == total:
        first = max(1, last - size + 1)
    above = "(%d more lines above)" % (first - 1)
    below = "(%d more lines below)" % (total - last)
    return "\n".join(
        [above if first > 1 else "(this is the beginning of the file)"]
        + ["%d|%s" % (number, lines[number - 1]) for number in range(first, last + 1)]
        + [below if last < total else "(this is the end of the file)"]
    )


def _current():
    """The lines of the file that is open, or None after saying that there is none."""
    if not _file or not _is_regular(_file):
        return _fail("No file open. Use the open_file function first.")
    return _lines(_file)


def _valid(line, lines, end=""):
    if isinstance(line, int) and 1 <= line <= len(lines):
        return True
    return _fail("Line number must be between 1 and %d%s" % (len(lines), end))


def _show(lines, from_here=False):
    print(_header(_file, lines) + "\n" + _window(lines, _line, WINDOW, from_here))


def open_file(path, line_number=1, context_lines=WINDOW):
    """Opens the file and shows the lines around line_number.

    It becomes the file that goto_line, scroll_down, scroll_up and search_file work on.
    context_lines is how many lines to show, at most 100.
    """
    global _file, _line
    if not _is_regular(path):
        return _fail("File %s not found." % path)
    lines = _lines(path)
    _file = os.path.abspath(path)
    if not _valid(line_number, lines):
        return
    _line = line_number
    size = context_lines if context_lines and context_lines > 0 else WINDOW
    text = _header(_file, lines) + "\n" + _window(lines, _line, min(size, WINDOW))
    if text.endswith("more lines below)"):
        text += "\n[Use `scroll_down` to view the next 100 lines of the file!]"
    print(text)


def goto_line(line_number):
    """Shows the lines around line_number of the file that is open."""
    global _line
    lines = _current()
    if lines and _valid(line_number, lines, "."):
        _line = line_number
        _show(lines)


def scroll_down():
    """Shows the next 100 lines of the file that is open."""
    global _line
    lines = _current()
    if lines:
        _line = min(_line + WINDOW, len(lines))
        _show(lines, from_here=True)


def scroll_up():
    """Shows the 100 lines before those shown last."""
    global _line
    lines = _current()
    if lines:
        _line = max(1, _line - WINDOW)
        _show(lines, from_here=True)


def _matches(path, term):
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            if term in line:
                yield number, line.strip()[:LONGEST]


def _walk(directory):
    """Paths of all files below it, in a stable order; what version control keeps is left out."""
    for folder, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if name not in (".git", ".hg", ".svn"))
        for name in sorted(names):
            yield folder, name


def _print_matches(lines, count, term, where):
    print('[Found %d matches for "%s" in %s]' % (count, term, where))
    for line in lines:
        print(line)
    print('[End of matches for "%s" in %s]' % (term, where))


def search_dir(search_term, dir_path="./"):
    """Shows the lines with search_term in all files below dir_path; hidden files are left out."""
    if not os.path.isdir(dir_path):
        return _fail("Directory %s not found" % dir_path)
    lines, files = [], 0
    for folder, name in _walk(dir_path):
        path = os.path.join(folder, name)
        if name.startswith(".") or not _is_regular(path):
            continue
        try:
            found = list(_matches(path, search_term))
        except OSError:  # unreadable for us, or gone
            continue
        files += bool(found)
        if files <= MOST_FILES:
            lines += ["%s (Line %d): %s" % (path, number, line) for number, line in found]
    if not files:
        print('No matches found for "%s" in %s' % (search_term, dir_path))
    elif files > MOST_FILES:
        print(
            'More than %d files matched for "%s" in %s. Please narrow your search.'
            % (files, search_term, dir_path)
        )
    else:
        _print_matches(lines, len(lines), search_term, dir_path)


def search_file(search_term, file_path=None):
    """Shows the lines with search_term in the file, or in the one that is open."""
    path = _file if file_path is None else file_path
    if path is None:
        return _fail("No file specified or open. Use the open_file function first.")
    if not _is_regular(path):
        return _fail("File %s not found." % path)
    found = list(_matches(path, search_term))
    if found:
        lines = ["Line %d: %s" % match for match in found]
        _print_matches(lines, len(lines), search_term, path)
    else:
        print('[No matches found for "%s" in %s]' % (search_term, path))


def find_file(file_name, dir_path="./"):
    """Shows the files below dir_path whose names contain file_name."""
    if not os.path.isdir(dir_path):
        return _fail("Directory %s not found" % dir_path)
    found = [os.path.join(folder, name) for folder, name in _walk(dir_path) if file_name in name]
    if found:
        _print_matches(found, len(found), file_name, dir_path)
    else:
        print('[No matches found for "%s" in %s]' % (file_name, dir_path))
