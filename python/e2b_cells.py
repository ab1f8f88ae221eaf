"""Run once in a kernel of E2B's code interpreter: what cells show comes out as lines of JSON, one for each event of
its /execute, after a mark. Leaves no name behind that a cell could see."""


def _begin():
    import json
    import os
    import sys
    import threading
    import time

    from IPython import get_ipython

    shell, real, mark, variables = get_ipython(), sys.stdout, "@@e2b ", "#@@e2b-env "
    kinds = {
        "text/plain": "text",
        "text/html": "html",
        "text/markdown": "markdown",
        "text/latex": "latex",
        "image/svg+xml": "svg",
        "image/png": "png",
        "image/jpeg": "jpeg",
        "application/pdf": "pdf",
        "application/json": "json",
        "application/javascript": "javascript",
        "e2b/chart": "chart",
        "e2b/data": "data",
    }
    cells = []
    replaced = {}  # variables of the process that have another value while a cell runs
    held = []  # [kind, text, ...] of what was printed last
    lock, timers, told = threading.RLock(), [], [0.0]
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)

    def tell(kind, **more):
        told[0] = time.monotonic()
        text = json.dumps({"type": kind, **more}, default=str)
        if "NaN" in text or "Infinity" in text:  # no words of JSON
            text = json.dumps(json.loads(text, parse_constant=lambda word: None))
        real.write("\n" + mark + text + "\n")
        real.flush()  # the kernel flushes what is called sys.stdout

    def flush():
        with lock:
            while timers:
                timers.pop().cancel()
            if held:
                kind, *texts = held
                del held[:]
                tell(kind, text="".join(texts), timestamp=time.time_ns() // 1000)

    def hold(kind, text):
        """Lines are told at once, or together a moment later when there are many of them."""
        with lock:
            if held and held[0] != kind:
                flush()
            if not held:
                held.append(kind)
            held.append(text)
            if len(held) > 1000 or (text.endswith("\n") and time.monotonic() - told[0] > 0.05):
                flush()
            elif not timers:
                timers.append(threading.Timer(0.1, flush))
                timers[0].daemon = True
                timers[0].start()

    class Printed:
        def __init__(self, kind, stream):
            self.kind, self.stream = kind, stream

        def write(self, text):
            hold(self.kind, str(text))
            return len(text)

        def writelines(self, lines):
            for line in lines:
                self.write(line)

        def flush(self):
            flush()

        def __getattr__(self, name):
            return getattr(self.stream, name)

    def show(data, main):
        flush()
        found = {kinds[kind]: value for kind, value in data.items() if kind in kinds}
        for kind in ("png", "jpeg"):
            if isinstance(found.get(kind), str):
                found[kind] = found[kind].replace("\n", "")
        extra = {kind: value for kind, value in data.items() if kind not in kinds}
        tell("result", **found, is_main_result=main, **({"extra": extra} if extra else {}))

    def publish(data, metadata=None, **more):
        if not more.get("update"):
            show(data, False)

    def finish():
        hook = shell.displayhook
        if hook.msg and hook.msg["content"]["data"]:
            show(hook.msg["content"]["data"], True)
        hook.msg = None

    def fail(kind, value, lines):
        flush()
        shell._last_traceback = lines
        tell("error", name=kind.__name__, value=str(value), traceback="\n".join(lines))

    def take_variables(lines):
        """Of the line before a cell; they are as before when it has ended. A cell may be looked at more than once."""
        if not lines or not lines[0].startswith(variables):
            return lines
        for name, value in json.loads(lines[0][len(variables) :]).items():
            replaced.setdefault(name, os.environ.get(name))
            os.environ[name] = str(value)
        return lines[1:]

    def restore_variables():
        for name, value in replaced.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        replaced.clear()

    def end(result):
        flush()
        restore_variables()
        cells.append(None)  # the kernel itself counts none of them: they are not in its history
        tell("number_of_executions", execution_count=len(cells))

    sys.stdout, sys.stderr = Printed("stdout", real), Printed("stderr", sys.stderr)
    shell.display_pub.publish = publish
    shell.displayhook.finish_displayhook = finish
    shell._showtraceback = fail
    shell.events.register("post_run_cell", end)
    shell.input_transformers_cleanup.insert(0, take_variables)


_begin()
del _begin
