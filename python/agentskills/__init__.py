"""Agent skills: what an agent finds in its Python kernel after `from agentskills import *`.

Only the standard library is needed. The functions of file_ops and file_reader print; those of
repo_ops and file_editor return what they have to say.
"""

import inspect as _inspect

from . import file_reader as _file_reader
from .editor import file_editor
from .file_ops import (
    find_file,
    goto_line,
    open_file,
    scroll_down,
    scroll_up,
    search_dir,
    search_file,
)
from .file_reader import parse_docx, parse_latex, parse_pdf, parse_pptx
from .repo_ops import explore_tree_structure, get_entity_contents, search_code_snippets

__all__ = [
    "open_file",
    "goto_line",
    "scroll_down",
    "scroll_up",
    "search_dir",
    "search_file",
    "find_file",
    "parse_pdf",
    "parse_docx",
    "parse_latex",
    "parse_pptx",
    "get_entity_contents",
    "search_code_snippets",
    "explore_tree_structure",
    "file_editor",
]
if _file_reader.available():
    from .file_reader import parse_audio, parse_image, parse_video

    __all__ += ["parse_audio", "parse_video", "parse_image"]


def _documentation():
    for name in __all__:
        function = globals()[name]
        lines = (_inspect.getdoc(function) or "").split("\n")
        yield "%s%s:\n%s" % (
            name,
            _inspect.signature(function),
            "\n".join("    " + line if line else line for line in lines),
        )


# For prompts: the signature of each function and what it does.
DOCUMENTATION = "\n\n".join(_documentation())
