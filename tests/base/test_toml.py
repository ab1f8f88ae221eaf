"""The TOML reader against Python's tomllib: same documents accepted, same values read."""

import datetime
import json
import math
import os
import pathlib
import random
import re
import subprocess
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DUMP = ROOT / os.environ.get("TN_BUILD", "build") / "tests/unit/base/toml-dump"


def dump(text):
    data = text if isinstance(text, bytes) else text.encode()
    return subprocess.run([DUMP], input=data, capture_output=True, timeout=60)


def untag(node):
    """The tagged JSON of toml-dump as the Python values that tomllib would give."""
    if isinstance(node, list):
        return [untag(item) for item in node]
    if set(node) == {"type", "value"} and isinstance(node["value"], str):
        return SCALARS[node["type"]](node["value"])
    return {key: untag(value) for key, value in node.items()}


SCALARS = {
    "string": str,
    "integer": int,
    "float": float,
    "bool": {"true": True, "false": False}.__getitem__,
    "datetime": lambda text: datetime.datetime.fromisoformat(text.upper()),
    "datetime-local": lambda text: datetime.datetime.fromisoformat(text.upper()),
    "date-local": datetime.date.fromisoformat,
    "time-local": datetime.time.fromisoformat,
}


def same(a, b):
    """Equality that tells 1 from True and 1.0, 0.0 from -0.0, and takes nan for itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, datetime.datetime):
        return a == b and a.utcoffset() == b.utcoffset()
    return a == b


def check_equal(text):
    result = dump(text)
    assert result.returncode == 0, result.stderr.decode()
    ours, theirs = untag(json.loads(result.stdout)), tomllib.loads(text)
    assert same(ours, theirs), f"{ours!r}\n!=\n{theirs!r}"


VALID = {
    # the document
    "empty": "",
    "only newline": "\n",
    "only crlf": "\r\n\r\n",
    "only comment": "# hello",
    "comment with tab and unicode": "#\ttabs, Ünïcödé ☃ and 😀\n",
    "comment after pair": "a = 1 # one\n",
    "comment after header": "[a] # table\nb = 1",
    "no newline at end": "a = 1",
    "crlf everywhere": "a = 1\r\n[b]\r\nc = 'x'\r\n",
    "blank lines and indentation": "\n\n  a = 1\n\t\n\tb = 2\n   [c]\n     d = 3\n",
    # keys
    "bare keys": "key = 1\nbare_key = 2\nbare-key = 3\n1234 = 4\n-_- = 5\n",
    "bare keys that look like values": "true = 1\nfalse = 2\ninf = 3\nnan = 4\n1e5 = 5\n",
    "date as a key": "2001-02-03 = 1",
    "dotted number key": "3.14159 = 'pi'",
    "quoted keys": '"127.0.0.1" = 1\n"a b" = 2\n\'quoted "value"\' = 3\n"ʎǝʞ" = 4\n',
    "empty keys": '"" = "blank"\n',
    "empty literal key": "'' = 'blank'\n",
    "escapes in a key": '"\\u00e9\\n\\t" = 1\n"\\"" = 2\n',
    "nul in a key": '"a\\u0000b" = 1\na = 2\n',
    "no spaces": "a=1\nb='2'\n",
    "many spaces": "a   =\t  1   \n",
    "dotted keys": 'name = "Orange"\nphysical.color = "orange"\nphysical.shape = "round"\nsite."google.com" = true\n',
    "dotted keys with spaces": "a . b = 1\na\t.\tc = 2\na.d . e = 3\n",
    "dotted keys out of order": "apple.type = 1\norange.type = 2\napple.skin = 3\norange.skin = 4\n",
    "dotted keys deep": "a.b.c.d.e.f.g = 1\na.b.c.h = 2\n",
    "dotted empty parts": '"".a = 1\n\'\'.b = 2\n',
    "same key in different tables": "a = 1\n[b]\na = 2\n[c]\na = 3\n",
    "keys differ in case": "a = 1\nA = 2\n",
    "bare and quoted spell other keys": 'a.b = 1\n"a.b" = 2\n',
    # basic strings
    "basic string": 's = "I\'m a string. \\"You can quote me\\". Name\\tJos\\u00E9\\nLocation\\tSF."',
    "all escapes": 's = "\\b\\t\\n\\f\\r\\"\\\\"',
    "unicode escapes": 's = "\\u0041\\u00e9\\u2603\\U0001F600\\U0010FFFF\\uD7FF\\uE000"',
    "nul escape": 's = "a\\u0000b"',
    "unicode raw": 's = "é☃😀"',
    "empty strings": "a = \"\"\nb = ''\nc = \"\"\"\"\"\"\nd = ''''''\n",
    "tab in a string": 's = "a\tb"',
    "hash in a string": 's = "a # no comment" # comment',
    "del escaped": 's = "\\u007f"',
    # multi-line basic strings
    "multi-line": 's = """\nRoses are red\nViolets are blue"""',
    "multi-line without first newline": 's = """Roses\nViolets"""',
    "multi-line keeps second newline": 's = """\n\nx"""',
    "multi-line crlf": 's = """\r\na\r\nb"""\r\n',
    "multi-line fold": 's = """\\\n   The quick \\\n\n\n   brown \\\n   fox.\\\n   """',
    "multi-line fold with blanks after": 's = """a \\  \t \n   b"""',
    "multi-line fold crlf": 's = """a\\\r\n\r\n  b"""',
    "multi-line fold at end": 's = """a\\\n"""',
    "multi-line quotes inside": 's = """one " two "" done"""',
    "multi-line quotes before end 1": 's = """a""""',
    "multi-line quotes before end 2": 's = """a"""""',
    "multi-line only quotes": 's = """""""',
    "multi-line two quotes": 's = """"""""',
    "multi-line escaped triple": 's = """a\\"""b"""',
    "multi-line five escaped": 's = """""\\"""\\"""\\""""',
    "multi-line tab": 's = """\ta\n\tb"""',
    "multi-line unicode escape": 's = """\\u00e9\\\n   \\U0001F600"""',
    # literal strings
    "literal": "winpath = 'C:\\Users\\nodejs\\templates'\nregex = '<\\i\\c*\\s*>'\nq = 'Tom \"Dubs\"'",
    "literal multi-line": "s = '''\nThe first newline is\ntrimmed.\n   Others stay.\n'''",
    "literal multi-line backslash": "s = '''a\\\nb'''",
    "literal multi-line quotes": "s = '''one ' two '' done'''",
    "literal multi-line quotes before end": "a = ''''x''''\nb = '''''y'''''\n",
    "literal crlf": "s = '''\r\na\r\n'''",
    # integers
    "integers": "a = +99\nb = 42\nc = 0\nd = -17\ne = +0\nf = -0\n",
    "integer underscores": "a = 1_000\nb = 5_349_221\nc = 53_49_221\nd = 1_2_3_4_5\n",
    "integer bases": "a = 0xDEADBEEF\nb = 0xdeadbeef\nc = 0xdead_beef\nd = 0o01234567\ne = 0o755\nf = 0b11010110\n",
    "integer bases with leading zeros": "a = 0x00ff\nb = 0b0001\nc = 0o0017\n",
    "integer limits": "a = 9223372036854775807\nb = -9223372036854775808\nc = 0x7fffffffffffffff\n",
    # floats
    "floats": "a = +1.0\nb = 3.1415\nc = -0.01\nd = 5e+22\ne = 1e06\nf = -2E-2\ng = 6.626e-34\n",
    "float underscores": "a = 224_617.445_991_228\nb = 1_0.0_1e1_0\n",
    "float zeros": "a = 0.0\nb = +0.0\nc = -0.0\nd = 0e0\ne = 0.0e0\nf = 0e+00\n",
    "float exponent with leading zeros": "a = 1e001\nb = 1e-001\n",
    "infinity": "a = inf\nb = +inf\nc = -inf\n",
    "not a number": "a = nan\nb = +nan\nc = -nan\n",
    "float precision": "a = 0.1\nb = 1.7976931348623157e308\nc = 5e-324\nd = 123456789.123456789\n",
    "float that looks like a date": "a = 934E-34\nb = 1.2e-01\n",
    "float too large is infinite": "a = 1e400\nb = -1e400\n",
    # booleans
    "booleans": "a = true\nb = false\n",
    # dates and times
    "offset date-time": "a = 1979-05-27T07:32:00Z\nb = 1979-05-27T00:32:00-07:00\nc = 1979-05-27T00:32:00.999999-07:00\n",
    "offset date-time blank": "a = 1979-05-27 07:32:00Z\n",
    "date-time lower case": "a = 1979-05-27t07:32:00z\n",
    "offset date-time limits": "a = 1979-05-27T07:32:00+23:59\nb = 1979-05-27T07:32:00-00:00\n",
    "local date-time": "a = 1979-05-27T07:32:00\nb = 1979-05-27T00:32:00.999999\nc = 1979-05-27 07:32:00\n",
    "local date": "a = 1979-05-27\n",
    "local time": "a = 07:32:00\nb = 00:32:00.999999\nc = 23:59:59.5\n",
    "long fraction": "a = 07:32:00.123456789123\nb = 1979-05-27T07:32:00.1234567Z\n",
    "leap days": "a = 2000-02-29\nb = 2024-02-29\n",
    "last days": "a = 2023-01-31\nb = 2023-04-30\nc = 2023-12-31\n",
    "date before comment": "a = 1979-05-27 # no time\n",
    "date in array": "a = [1979-05-27, 1979-05-27 07:32:00, 07:32:00]\n",
    "year limits": "a = 0001-01-01\nb = 9999-12-31\n",
    # arrays
    "arrays": 'a = [ 1, 2, 3 ]\nb = [ "red", "yellow" ]\nc = [ [ 1, 2 ], [3, 4, 5] ]\nd = []\n',
    "mixed array": 'a = [ 0.1, 1, "x", true, 1979-05-27, { b = 1 }, [ ] ]\n',
    "array lines": "a = [\n  1, 2, 3\n]\nb = [\n  1,\n  2, # this is ok\n]\n",
    "array comments": "a = [ # one\n # two\n 1 # three\n , # four\n 2 # five\n # six\n]\n",
    "array trailing comma": "a = [1,]\n",
    "array crlf": "a = [\r\n1,\r\n2\r\n]\r\n",
    "nested empty arrays": "a = [[[[]]], []]\n",
    "array of strings of all kinds": "a = [\"a\", 'b', \"\"\"c\"\"\", '''d''']\n",
    "array of inline tables": 'p = [ { x = 1, y = 2 },\n { x = 7, y = 8 } ]\n',
    # inline tables
    "inline tables": 'name = { first = "Tom", last = "P-W" }\npoint = { x = 1, y = 2 }\nanimal = { type.name = "pug" }\n',
    "inline empty": "a = {}\nb = {   }\n",
    "inline nested": "a = { b = { c = { d = 1 } }, e = [ { f = 2 } ] }\n",
    "inline dotted": "a = { b.c = 1, b.d = 2, e = 3 }\n",
    "inline with array over lines": "a = { b = [\n1,\n2 ] }\n",
    "inline with multi-line string": 'a = { b = """x\ny""" }\n',
    "inline quoted keys": "a = { \"x y\" = 1, 'z' = 2, \"\".w = 3 }\n",
    # tables
    "tables": '[table-1]\nkey1 = "a"\nkey2 = 123\n\n[table-2]\nkey1 = "b"\n',
    "empty table": "[a]\n[b]\n",
    "dotted table": '[dog."tater.man"]\ntype.name = "pug"\n',
    "table header spaces": "[ a . b ]\nc = 1\n[\td\t]\n",
    "table quoted": '["a b"]\n[\'c\']\n[""]\n["".x]\n',
    "super-table after": "[x.y.z.w]\n[x]\na = 1\n",
    "super-table between": "[a.b]\nx = 1\n[a]\ny = 2\n[a.c]\nz = 3\n",
    "tables out of order": "[fruit.apple]\n[animal]\n[fruit.orange]\n",
    "root and tables": 'name = "Fido"\n[owner]\nname = "Regina"\n',
    "sub-table of a dotted table": "[fruit]\napple.color = 1\napple.taste.sweet = true\n[fruit.apple.texture]\nsmooth = true\n",
    "sub-table of a dotted root table": "a.b = 1\n[a.c]\nd = 2\n",
    "dotted key into an implied table": "[a.b.c]\nz = 9\n[a]\nb.t = 1\n",
    "table named like a value": "[true]\n[1]\n[inf.2]\n",
    "same sub-table names": "[a.x]\n[b.x]\n[c.x]\n",
    # arrays of tables
    "array of tables": '[[products]]\nname = "Hammer"\n[[products]]\n[[products]]\nname = "Nail"\n',
    "array of tables nested": '[[fruits]]\nname = "apple"\n[fruits.physical]\ncolor = "red"\n[[fruits.varieties]]\nname = "a"\n'
    '[[fruits.varieties]]\nname = "b"\n[[fruits]]\nname = "banana"\n[[fruits.varieties]]\nname = "c"\n',
    "array of tables same sub-tables": "[[a]]\n[a.b]\nx = 1\n[[a]]\n[a.b]\nx = 2\n",
    "array of tables implied parent": "[[a.b]]\nx = 1\n[a]\ny = 2\n",
    "array of tables spaces": "[[ a . b ]]\n[[\t\"c\"\t]]\n",
    "array of tables dotted keys": "[[a]]\nb.c = 1\nb.d = 2\n[[a]]\nb.c = 3\n",
    "array of tables deep": "[[a]]\n[[a.b]]\n[[a.b.c]]\nx = 1\n[[a.b.c]]\nx = 2\n[[a.b]]\n[[a.b.c]]\nx = 3\n",
    # size
    "many keys": "".join(f"key{i} = {i}\n" for i in range(3000)),
    "many tables": "".join(f"[t{i % 50}.u{i}]\nv = {i}\n" for i in range(1000)),
    "deep arrays": "a = " + "[" * 60 + "]" * 60,
    "long string": 's = "' + "x" * 100000 + '"',
}

INVALID = {
    # the document
    "garbage": "x",
    "no value": "a =",
    "no value with comment": "a = # nothing",
    "no equals": "a 1",
    "no key": "= 1",
    "two pairs on a line": 'first = "Tom" last = "P"',
    "two values": "a = 1 2",
    "newline before value": "a =\n1",
    "newline after key": "a\n= 1",
    "bare carriage return": "a = 1\rb = 2",
    "carriage return at end": "a = 1\r",
    "control in comment": "# a\x01b\n",
    "del in comment": "# a\x7fb\n",
    "nul in comment": "# a\x00b\n",
    "carriage return in comment": "# a\rb\n",
    "nul": "\x00",
    "form feed": "a = 1\n\f\n",
    "vertical tab": "\va = 1",
    "no-break space": "a\u00a0= 1",
    "bom in the middle": "a = 1\n\ufeffb = 2",
    "comment in key": "a # = 1",
    "slash comment": "// a\n",
    # keys
    "duplicate": 'name = "Tom"\nname = "Pradyun"\n',
    "duplicate quoted": 'spelling = 1\n"spelling" = 2\n',
    "duplicate escaped": 'a = 1\n"\\u0061" = 2\n',
    "duplicate after many": "".join(f"k{i} = {i}\n" for i in range(100)) + "k50 = 1\n",
    "bare key unicode": "é = 1",
    "bare key space": "a b = 1",
    "bare key bang": "a! = 1",
    "key plus": "+a = 1",
    "key ends in dot": "a. = 1",
    "key starts with dot": ".a = 1",
    "key double dot": "a..b = 1",
    "key only dot": ". = 1",
    "multi-line key": '"""a""" = 1',
    "multi-line literal key": "'''a''' = 1",
    "newline in key": '"a\nb" = 1',
    "open key": '"a = 1',
    "bad escape in key": '"\\q" = 1',
    "quoted then bare": '"a"b = 1',
    "dotted into a value": "fruit.apple = 1\nfruit.apple.smooth = true\n",
    "dotted over a table": "fruit.apple.smooth = true\nfruit.apple = 1\n",
    "dotted into a string": 'a = "x"\na.b = 1\n',
    "dotted into an array": "a = [1]\na.b = 1\n",
    "dotted duplicate": "a.b = 1\na.b = 2\n",
    # strings
    "open string": 's = "abc',
    "open literal": "s = 'abc",
    "string ends at newline": 's = "a\nb"',
    "literal ends at newline": "s = 'a\nb'",
    "open multi-line": 's = """abc\n',
    "open multi-line two quotes": 's = """abc""',
    "open literal multi-line": "s = '''abc\n''",
    "too many quotes": 's = """a""""""',
    "too many literal quotes": "s = '''a''''''",
    "bad escape": 's = "\\a"',
    "escape e": 's = "\\e"',
    "escape x": 's = "\\x41"',
    "escape slash": 's = "\\/"',
    "escape single quote": "s = \"\\'\"",
    "escape zero": 's = "\\0"',
    "escape newline": 's = "a\\\nb"',
    "escape space": 's = "a\\ b"',
    "escape at end": 's = "a\\',
    "short unicode": 's = "\\u12"',
    "short long unicode": 's = "\\U0001F60"',
    "unicode not hex": 's = "\\u12g4"',
    "unicode sign": 's = "\\u+123"',
    "surrogate": 's = "\\ud800"',
    "low surrogate": 's = "\\udfff"',
    "surrogate long": 's = "\\U0000d800"',
    "unicode too large": 's = "\\U00110000"',
    "unicode far too large": 's = "\\UFFFFFFFF"',
    "control in string": 's = "a\x01b"',
    "control in literal": "s = 'a\x1fb'",
    "control in multi-line": 's = """a\x08b"""',
    "control in multi-line literal": "s = '''a\x0bb'''",
    "del in string": 's = "a\x7fb"',
    "nul in string": 's = "a\x00b"',
    "bare cr in multi-line": 's = """a\rb"""',
    "bare cr in literal multi-line": "s = '''a\rb'''",
    "fold followed by text": 's = """a\\ b\n"""',
    "text after string": 's = "a" b',
    "two strings": "s = 'a' 'b'",
    "bare word": "s = abc",
    # integers
    "leading zero": "a = 01",
    "leading zero signed": "a = +01",
    "leading zeros": "a = 00",
    "double sign": "a = ++1",
    "mixed sign": "a = -+1",
    "only sign": "a = +",
    "sign and space": "a = - 1",
    "leading underscore": "a = _1",
    "trailing underscore": "a = 1_",
    "double underscore": "a = 1__0",
    "underscore after sign": "a = +_1",
    "signed hex": "a = +0xff",
    "negative binary": "a = -0b1",
    "upper case prefix": "a = 0XFF",
    "upper case octal": "a = 0O7",
    "upper case binary": "a = 0B1",
    "empty hex": "a = 0x",
    "empty binary": "a = 0b",
    "bad hex digit": "a = 0xg",
    "bad octal digit": "a = 0o8",
    "bad binary digit": "a = 0b2",
    "underscore after prefix": "a = 0x_ff",
    "underscore at hex end": "a = 0xff_",
    "underscore leading zero": "a = 0_1",
    "letters after number": "a = 1abc",
    "comma number": "a = 1,000",
    # floats
    "float no fraction": "a = 7.",
    "float no whole": "a = .7",
    "float exponent after point": "a = 3.e+20",
    "float no exponent": "a = 1e",
    "float no exponent digits": "a = 1e+",
    "float two points": "a = 1.2.3",
    "float two exponents": "a = 1e2e3",
    "float exponent fraction": "a = 1e2.3",
    "float leading zero": "a = 03.14",
    "float underscore at point": "a = 1_.5",
    "float underscore after point": "a = 1._5",
    "float trailing underscore": "a = 1.5_",
    "float underscore at exponent": "a = 1_e5",
    "float underscore in exponent start": "a = 1e_5",
    "upper case inf": "a = Inf",
    "upper case nan": "a = NaN",
    "infinity": "a = infinity",
    "double signed inf": "a = --inf",
    # booleans
    "upper case true": "a = True",
    "upper case false": "a = FALSE",
    "half true": "a = tru",
    "more than true": "a = truer",
    # dates and times
    "month 13": "a = 2006-13-01",
    "month 0": "a = 2006-00-01",
    "day 0": "a = 2006-01-00",
    "day 32": "a = 2006-01-32",
    "april 31": "a = 2006-04-31",
    "february 30": "a = 2024-02-30",
    "no leap year": "a = 2023-02-29",
    "no leap century": "a = 1900-02-29",
    "hour 24": "a = 2006-01-01T24:00:00",
    "minute 60": "a = 2006-01-01T00:60:00",
    "second 61": "a = 2006-01-01T00:00:61",
    "time hour 24": "a = 24:00:00",
    "no seconds": "a = 2006-01-01T07:32",
    "time no seconds": "a = 07:32",
    "offset hour 24": "a = 2006-01-01T00:00:00+24:00",
    "offset minute 60": "a = 2006-01-01T00:00:00+01:60",
    "offset no minute": "a = 2006-01-01T00:00:00+01",
    "offset no colon": "a = 2006-01-01T00:00:00+0100",
    "time with offset": "a = 07:32:00Z",
    "empty fraction": "a = 07:32:00.",
    "empty fraction with offset": "a = 2006-01-01T00:00:00.Z",
    "short year": "a = 206-01-01",
    "long year": "a = 20006-01-01",
    "short month": "a = 2006-1-01",
    "short day": "a = 2006-01-1",
    "short hour": "a = 7:32:00",
    "date then t": "a = 2006-01-01T",
    "date no dashes": "a = 20060101T00:00:00",
    "two blanks": "a = 2006-01-01  00:00:00",
    "tab between": "a = 2006-01-01\t00:00:00",
    "date trailing": "a = 2006-01-01x",
    "underscore date": "a = 2006-01-01_00:00:00",
    # arrays
    "open array": "a = [1, 2",
    "open array comma": "a = [1,",
    "array no comma": "a = [1 2]",
    "array double comma": "a = [1,,2]",
    "array leading comma": "a = [,1]",
    "array only comma": "a = [,]",
    "array text after": "a = [1] b",
    "array wrong bracket": "a = [1}",
    "array pair": "a = [b = 1]",
    "closing only": "a = ]",
    # inline tables
    "open inline": "a = { b = 1",
    "inline trailing comma": "a = { b = 1, }",
    "inline only comma": "a = { , }",
    "inline double comma": "a = { b = 1,, c = 2 }",
    "inline no comma": "a = { b = 1 c = 2 }",
    "inline newline": "a = { b = 1,\nc = 2 }",
    "inline newline at start": "a = {\nb = 1 }",
    "inline newline at end": "a = { b = 1\n}",
    "inline comment": "a = { b = 1 # c\n}",
    "inline duplicate": "a = { b = 1, b = 2 }",
    "inline dotted duplicate": "a = { b = 1, b.c = 2 }",
    "inline extends inline": "a = { b = { c = 1 }, b.d = 2 }",
    "inline over dotted": "a = { b.c = 1, b = {} }",
    "inline extended by dotted key": "a = {}\na.b = 1\n",
    "inline extended by table": "a = { b = 1 }\n[a.c]\n",
    "inline redefined by table": "a = {}\n[a]\n",
    "inline nested extended": "a = { b = {} }\n[a.b.c]\n",
    "inline in section extended": "[p]\nt = { n = 1 }\nt.e = 0\n",
    "inline in section redefined": "[p]\nt = { n = 1 }\n[p.t]\n",
    "inline no value": "a = { b }",
    # tables
    "table twice": "[a]\nb = 1\n[a]\nc = 2\n",
    "table over value": "[a]\nb = 1\n[a.b]\nc = 2\n",
    "table over root value": "a = 1\n[a]\n",
    "table into value": "a = 1\n[a.b]\n",
    "table over dotted": "[fruit]\napple.color = 1\n[fruit.apple]\n",
    "table over dotted deep": "[fruit]\napple.taste.sweet = true\n[fruit.apple.taste]\n",
    "table over dotted root": "a.b = 1\n[a]\n",
    "dotted into table": "[a.b.c]\nz = 9\n[a]\nb.c.t = 1\n",
    "dotted into table 2": "[a.b.c.d]\nz = 9\n[a]\nb.c.d.k.t = 1\n",
    "dotted into own sub-table": "[a.b]\n[a]\nb.c = 1\n",
    "dotted over implied then table": "[a.b.c]\nz = 9\n[a]\nb.t = 1\n[a.b]\n",
    "value over sub-table": "[a.b]\n[a]\nb = 1\n",
    "empty header": "[]",
    "header only spaces": "[ ]",
    "header double dot": "[a..b]",
    "header leading dot": "[.a]",
    "header trailing dot": "[a.]",
    "header open": "[a",
    "header newline": "[a\n]",
    "header text after": "[a] b = 1",
    "header extra bracket": "[a]]",
    "header two words": "[a b]",
    "header pair": "[a = 1]",
    "header multi-line string": '["""a"""]',
    "header bad escape": '["\\q"]',
    "header comment": "[a # b\n]",
    "header brackets in key": "[a[b]]",
    "header value after": "[a]=1",
    "two headers on a line": "[a][b]",
    # arrays of tables
    "array of tables open": "[[a]",
    "array of tables open 2": "[[a",
    "array of tables split brackets": "[ [a]]",
    "array of tables split closing": "[[a] ]",
    "array of tables empty": "[[]]",
    "array of tables over table": "[fruit]\n[[fruit]]\n",
    "array of tables over implied": "[fruit.physical]\ncolor = 1\n[[fruit]]\nname = 1\n",
    "array of tables over array": "fruits = []\n[[fruits]]\n",
    "array of tables over filled array": "a = [{ b = 1 }]\n[[a]]\n",
    "array of tables over value": "a = 1\n[[a]]\n",
    "array of tables over dotted": "a.b = 1\n[[a]]\n",
    "table over array of tables": "[[a]]\n[a]\n",
    "table over nested array of tables": "[[a]]\n[[a.b]]\n[a.b]\n",
    "array over nested table": "[[a]]\n[a.b]\n[[a.b]]\n",
    "dotted into array of tables": "[[a.b]]\n[a]\nb.c = 1\n",
    "table into static array": "a = [{}]\n[a.b]\n",
    "value over array of tables": "[[a.b]]\n[a]\nb = 1\n",
    "element sub-table twice": "[[a]]\n[a.b]\n[a.b]\n",
}

# Bytes that are not UTF-8; tomllib is not asked.
NOT_UTF8 = {
    "lone byte": b"a = '\xff'",
    "latin-1": b"# caf\xe9\n",
    "overlong": b"a = '\xc0\xaf'",
    "surrogate": b"a = '\xed\xa0\x80'",
    "beyond unicode": b"a = '\xf4\x90\x80\x80'",
    "cut short": b"a = '\xe2\x98",
    "utf-16": "a = 1\n".encode("utf-16"),
    "in a key": b"\"\xfe\" = 1",
}

# What tomllib decides otherwise, and why we do not follow.
OURS_ONLY = {
    "leap second": ("a = 2016-12-31T23:59:60Z", '{"a":{"type":"datetime","value":"2016-12-31T23:59:60Z"}}'),
    "year zero": ("a = 0000-01-01", '{"a":{"type":"date-local","value":"0000-01-01"}}'),
    "byte order mark": ("\ufeffa = 1", '{"a":{"type":"integer","value":"1"}}'),
}
THEIRS_ONLY = {
    "beyond 64 bits": "a = 9223372036854775808",
    "below 64 bits": "a = -9223372036854775809",
    "hex beyond 64 bits": "a = 0xffffffffffffffff",
    "65 levels of arrays": "a = " + "[" * 65 + "]" * 65,
    "65 levels of dotted keys": ".".join("a" * 66) + " = 1",
    "65 levels of tables": "[" + ".".join("a" * 65) + "]",
    "beyond one megabyte": "#" * (1 << 20) + "\n",
}


@pytest.mark.parametrize("name", VALID)
def test_valid(name):
    check_equal(VALID[name])


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name):
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(INVALID[name])
    result = dump(INVALID[name])
    assert result.returncode == 1 and result.stdout == b""
    assert re.match(r"TOML: line \d+, column \d+: .", result.stderr.decode())


@pytest.mark.parametrize("name", NOT_UTF8)
def test_not_utf8(name):
    result = dump(NOT_UTF8[name])
    assert result.returncode == 1
    assert b"is not valid UTF-8" in result.stderr


@pytest.mark.parametrize("name", OURS_ONLY)
def test_only_we_accept(name):
    text, expected = OURS_ONLY[name]
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(text)
    result = dump(text)
    assert result.returncode == 0, result.stderr
    assert result.stdout.decode().strip() == expected


@pytest.mark.parametrize("name", THEIRS_ONLY)
def test_only_they_accept(name):
    tomllib.loads(THEIRS_ONLY[name])
    result = dump(THEIRS_ONLY[name])
    assert result.returncode == 1
    assert b"TOML" in result.stderr


@pytest.mark.parametrize(
    "text, where",
    [
        ("a = 1\nb = \n", "line 2, column 5"),
        ("ok = 'é' x", "line 1, column 10"),
        ("a = 1\n\n  a = 2", "line 3, column 3"),
        ("s = '''\n\n\n'''\nx", "line 5, column 2"),
        ("a = [\n1,\n  oops]", "line 3, column 3"),
        ("a = 1\r\nb = 01\r\n", "line 2, column 5"),
        ("[a]\n[b]\n[a]", "line 3, column 2"),
        ("[a]\n[b]\n[a]", "(line 1)"),
    ],
)
def test_position(text, where):
    assert where in dump(text).stderr.decode()


class Maker:
    """Random documents: mostly valid, since every rule is followed on purpose."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *choices):
        return self.random.choice(choices)

    def blank(self):
        return self.pick("", " ", "\t", "  ")

    def text(self):
        return "".join(
            self.random.choice("abc XYZ019_-.,#='\"[]{}\\/\té☃😀") for _ in range(self.random.randrange(12))
        )

    def basic(self):
        out = ""
        for c in self.text():
            if c in '"\\' or self.random.random() < 0.1:
                out += self.pick(f"\\u{ord(c):04x}", f"\\U{ord(c):08X}") if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
            else:
                out += c
        return f'"{out}"'

    def literal(self):
        return "'" + self.text().replace("'", "") + "'"

    def multiline(self):
        lines = [self.text().replace('"', "").replace("\\", "") for _ in range(self.random.randrange(4))]
        return '"""' + self.pick("\n", "\r\n", "\\\n  ", "").join(lines) + self.pick("", '"', '""') + '"""'

    def multiline_literal(self):
        return "'''" + self.pick("\n", "\r\n").join(self.text().replace("'", "") for _ in range(3)) + "'''"

    def key_part(self):
        bare = "".join(self.random.choice("ab1_-") for _ in range(self.random.randint(1, 2)))
        return self.pick(bare, bare, bare, bare, self.basic(), self.literal())

    def key(self):
        parts = [self.key_part() for _ in range(self.pick(1, 1, 1, 2, 3))]
        return (self.blank() + "." + self.blank()).join(parts)

    def number(self):
        n = self.random.randrange(10 ** self.random.randint(1, 18))
        return self.pick(
            str(n), f"-{n}", f"+{n}", f"{n:_}", hex(n), oct(n), bin(n), f"0x{n:X}",
            repr(self.random.uniform(-1e6, 1e6)), f"{self.random.random():e}", f"{n}.{n}", f"{n}E-{n % 300}",
            "inf", "-nan", "true", "false",
        )  # fmt: skip

    def moment(self):
        r = self.random
        date = f"{r.randint(1, 9999):04}-{r.randint(1, 13):02}-{r.randint(1, 31):02}"
        time = f"{r.randint(0, 24):02}:{r.randint(0, 59):02}:{r.randint(0, 59):02}"
        time += self.pick("", f".{r.randrange(10**6)}")
        offset = self.pick("", "Z", "z", f"{self.pick('+', '-')}{r.randint(0, 23):02}:{r.randint(0, 59):02}")
        return self.pick(date, time, date + self.pick("T", "t", " ") + time + offset)

    def value(self, depth=0):
        scalars = [self.basic, self.literal, self.multiline, self.multiline_literal, self.number, self.number, self.moment]
        if depth < 3 and self.random.random() < 0.3:
            return self.pick(self.array, self.inline)(depth + 1)
        return self.random.choice(scalars)()

    def array(self, depth):
        items = [self.value(depth) for _ in range(self.random.randrange(4))]
        space = self.pick("", " ", "\n", " # comment\n")
        return "[" + space + (space + "," + space).join(items) + space + "]"

    def inline(self, depth):
        pairs = [f"{self.key()}{self.blank()}={self.blank()}{self.value(depth)}" for _ in range(self.random.randrange(3))]
        return "{" + self.blank() + (self.blank() + "," + self.blank()).join(pairs) + self.blank() + "}"

    def document(self):
        lines = []
        for _ in range(self.random.randint(1, 8)):
            kind = self.random.random()
            if kind < 0.6:
                lines.append(f"{self.blank()}{self.key()}{self.blank()}={self.blank()}{self.value()}")
            elif kind < 0.75:
                lines.append(f"[{self.blank()}{self.key()}{self.blank()}]")
            elif kind < 0.9:
                lines.append(f"[[{self.key()}]]")
            else:
                lines.append("# " + self.text())
        text = self.pick("\n", "\n", "\r\n").join(lines)
        if self.random.random() < 0.15:  # and some damage
            at = self.random.randrange(len(text) + 1)
            text = text[:at] + self.pick("", ".", "=", '"', "[", "]", "\n", "\\", "_", ",") + text[at + 1 :]
        return text


def verdict(text):
    """What tomllib reads, or None; integers beyond 64 bits count as an error."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    return tree if fits(tree) else None


def fits(value):
    if isinstance(value, dict):
        return all(map(fits, value.values()))
    if isinstance(value, list):
        return all(map(fits, value))
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def unfollowed(text):
    return re.search(r"0000-|:60", text) is not None


@pytest.mark.parametrize("batch", range(8))
def test_generated(batch):
    accepted = 0
    for number in range(60):
        text = Maker(batch * 1000 + number).document()
        if unfollowed(text):
            continue
        expected, result = verdict(text), dump(text)
        assert result.returncode in (0, 1), (text, result.stderr)
        if expected is None:
            assert result.returncode == 1, text
        else:
            accepted += 1
            assert result.returncode == 0, (text, result.stderr)
            assert same(untag(json.loads(result.stdout)), expected), text
    assert accepted > 5
