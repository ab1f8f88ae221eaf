"""A text file in memory, and its replacement on disk.

The same rules as those of the hand's editor: text is seen with LF, and encoding, byte order mark,
line endings, mode and owner of a file stay as they are.
"""

import codecs
import contextlib
import errno
import fcntl
import hashlib
import os
import re
import stat

SAMPLE = 1024  # bytes looked at to tell text from other things
DOCUMENTS = (".docx", ".xlsx", ".pptx", ".pdf", ".mp3", ".wav", ".m4a", ".flac")

# Windows-1252, its five unassigned bytes standing for the controls of the same number: whatever
# 8-bit encoding a file really has, what is not edited of it survives.
_HIGH = "".join(
    chr(code) if code in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else bytes([code]).decode("cp1252")
    for code in range(0x80, 0xA0)
)
_TABLE = "".join(map(chr, range(0x80))) + _HIGH + "".join(map(chr, range(0xA0, 0x100)))
_MARKS = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff", "utf-8-sig": b"\xef\xbb\xbf"}
_EOL = re.compile("\r\n|\r|\n")


def extension(path):
    return os.path.splitext(os.path.basename(path))[1]


def is_document(path):
    """A format that is shown as text, but cannot be edited."""
    return extension(path).lower() in DOCUMENTS


def is_binary(path, data):
    sample = data[:SAMPLE]
    if extension(path).lower() == ".pyc":
        return True
    if not sample or sample[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return False
    if 0 in sample:
        return True
    controls = sum(c == 0x7F or (c < 0x20 and not 8 <= c <= 13 and c != 0x1B) for c in sample)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)  # its end may be cut
        return controls * 2 > len(sample)
    except UnicodeDecodeError:
        return controls * 20 > len(sample)


def to_lf(text):
    return _EOL.sub("\n", text)


class Document:
    """The bytes of a file, the text they say with LF, and how they say it."""

    def __init__(self, data=b""):
        self.data = data
        self.encoding = "utf-8"
        for name in ("utf-16-le", "utf-16-be"):
            if data.startswith(_MARKS[name]):
                self.encoding = name
        try:
            mark = _MARKS.get(self.encoding, b"")
            self.text = data[len(mark) :].decode(self.encoding)
            if self.encoding == "utf-8" and data.startswith(_MARKS["utf-8-sig"]):
                self.encoding, self.text = "utf-8-sig", self.text[1:]
        except UnicodeDecodeError as error:
            if self.encoding != "utf-8":
                raise ValueError(_explain_utf16(error)) from None
            self.encoding = "windows-1252"
            self.text = codecs.charmap_decode(data, "strict", _TABLE)[0]
        self._normalise()

    def _normalise(self):
        self.lf = to_lf(self.text) if "\r" in self.text else self.text
        pairs = self.text.count("\r\n")
        counts = {
            "\n": self.text.count("\n") - pairs,
            "\r\n": pairs,
            "\r": self.text.count("\r") - pairs,
        }
        self.eol = max(counts, key=counts.get)

    def changed(self, text):
        """The document with this text (line endings as on disk) in the same encoding."""
        new = Document()
        new.encoding, new.text = self.encoding, text
        try:
            if self.encoding == "windows-1252":
                new.data = codecs.charmap_encode(text, "strict", codecs.charmap_build(_TABLE))[0]
            elif self.encoding == "utf-8-sig":
                new.data = text.encode("utf-8-sig") or _MARKS["utf-8-sig"]
            else:
                new.data = _MARKS.get(self.encoding, b"") + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            if self.encoding != "windows-1252":
                raise ValueError("the new text is not valid utf-8") from None
            raise ValueError(
                "'windows-1252' codec can't encode character U+%04X: the file is not Unicode"
                % ord(text[error.start])
            ) from None
        new._normalise()
        return new

    def offset(self, at):
        """Where in the text is what is at `at` in the text with LF."""
        for pairs, match in enumerate(re.finditer("\r\n", self.text)):
            if match.start() - pairs >= at:
                return at + pairs
        return at + self.text.count("\r\n")

    def in_eol(self, text):
        """New text with the line endings of this document."""
        return text if self.eol == "\n" else _EOL.sub(self.eol, text)

    def line_count(self):
        return self.lf.count("\n") + (self.lf[-1:] not in ("", "\n"))

    def lines(self, first, last):
        """Lines first..last, from 1, as far as there are any, with their ends."""
        return "".join(re.findall("[^\n]*\n|[^\n]+", self.lf)[first - 1 : last])


def _explain_utf16(error):
    if "truncated" in error.reason:
        return "utf-16: truncated data, %d bytes is odd" % len(error.object)
    return "utf-16: half of a surrogate pair at byte %d" % (error.start + 2)


# --- on disk ------------------------------------------------------------------------------------

_IN_PLACE = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV)
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _write(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _own_temporary(path):
    """An open file beside path that nobody else writes to.

    It always has the same name, so that the next edit finds what a killed one left behind.
    """
    name = hashlib.sha256(os.fsencode(os.path.basename(path))).hexdigest()[:16]
    temp = os.path.join(os.path.dirname(path), ".tendon-edit-" + name)
    fd = os.open(temp, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = os.fstat(fd)
        if not os.path.samestat(ours, os.lstat(temp)):
            raise FileNotFoundError(temp)
        if not stat.S_ISREG(ours.st_mode) or ours.st_nlink > 1 or ours.st_uid != os.geteuid():
            raise OSError(errno.EBUSY, "not ours")
        os.ftruncate(fd, 0)
    except OSError as error:
        os.close(fd)
        if isinstance(error, (BlockingIOError, FileNotFoundError)):  # another edit is under way
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY)) from None
    return fd, temp


def _keep_attributes(old, fd):
    was, now = os.fstat(old), os.fstat(fd)
    if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
        os.fchown(fd, was.st_uid, was.st_gid)
    try:
        for name in os.listxattr(old):
            os.setxattr(fd, name, os.getxattr(old, name))
    except OSError:  # labels that only the system may give stay behind
        pass
    os.fchmod(fd, stat.S_IMODE(was.st_mode))


def _replace_in_one_step(path, data, old):
    fd, temp = _own_temporary(path)
    try:
        _write(fd, data)
        if old is None:
            os.fchmod(fd, 0o644)
        else:
            _keep_attributes(old, fd)
        os.rename(temp, path)
    except BaseException:  # also an interrupt
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise
    finally:
        os.close(fd)


def replace(path, data):
    """Gives the file new contents, in one step where rights allow it; makes missing parents.

    A link stays a link, and a file that exists keeps its mode, owner and attributes.
    """
    path = os.path.realpath(path)
    old, executed = None, False
    try:
        old = os.open(path, os.O_WRONLY | _FLAGS)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    except OSError as error:
        if error.errno != errno.ETXTBSY:
            raise
        old, executed = os.open(path, os.O_RDONLY | _FLAGS), True
    try:
        _replace_in_one_step(path, data, old)
    except OSError as error:
        if old is None or executed or error.errno not in _IN_PLACE:
            raise
        _write(old, data)
        os.ftruncate(old, len(data))
    finally:
        if old is not None:
            os.close(old)
