"""What a sandbox or a tenant may write is only ever text: payloads at every place, in a real Chromium.

Each page must stay free of scripts that were not its own and of requests to anybody but the service. That the
policy would hold if something did become markup is seen on its own.
"""

import json

import pytest
from pages import Page
from services import eventually

ELSEWHERE = "elsewhere.invalid"
RUN = "window.intruded=1"
# Each would do something if it became markup, an attribute, an address, a style or a template.
PAYLOADS = [
    f"<script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f"<svg/onload={RUN}>",
    f"<iframe srcdoc='<script>parent.{RUN.split('.')[1]}</script>'>",
    f"<img src=//{ELSEWHERE}/i>",
    f"'\" onfocus={RUN} autofocus x=\"",
    f"</style><style>@import '//{ELSEWHERE}/c';*{{background:url(//{ELSEWHERE}/b)}}</style>",
    f"</textarea></title><base href=//{ELSEWHERE}/><link rel=stylesheet href=//{ELSEWHERE}/l>",
    f"javascript:{RUN}",
    f"${{{RUN}}}{{{{{RUN}}}}}",
    f"<meta http-equiv=refresh content=0;url=//{ELSEWHERE}/m>",
    f"<details open ontoggle={RUN}>",
]
ALL = " ".join(PAYLOADS)
SHORT = f"<img src=x onerror={RUN}>"


class Watched(Page):
    """Notes every request that the page makes."""

    def __init__(self):
        super().__init__()
        self.requests, self.blocked, self.ids = [], [], {}

    def read(self):
        message = super().read()
        params = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
            self.ids[params["requestId"]] = params["request"]["url"]
        if message.get("method") == "Network.loadingFailed" and params.get("blockedReason") == "csp":
            self.blocked.append(self.ids.get(params["requestId"]))
        return message

    def visit(self, service, *args):
        super().visit(service, *args)
        self.call("Network.enable")
        self.requests.clear()
        self.own = service.url

    def expect_untouched(self, where):
        assert self.evaluate("window.intruded") is None, where
        assert self.evaluate("document.querySelectorAll('iframe, object, embed, base').length") == 0, where
        assert self.evaluate("document.querySelectorAll('script').length") == 1, where  # the page's own
        strangers = [u for u in self.requests if not u.startswith((self.own + "/", f"blob:{self.own}/", "data:"))]
        assert not strangers, (where, strangers)
        self.expect_clean()


@pytest.fixture(scope="module")
def watched():
    page = Watched()
    yield page
    page.close()


@pytest.fixture
def page(watched, service):
    watched.visit(service)
    watched.sign_in(service.admin)
    return watched


@pytest.fixture(scope="module")
def box(service):
    client = service.client()
    body = {"name": "plain", "env": {"X": ALL}, "metadata": {"<b>key": ALL}}
    made = client.post("/v1/sandboxes", body).ok(201).json
    assert made["state"] == "running", made
    return made["id"]


def act(service, box, action, **args):
    body = {"action": {"action": action, "args": args, "timeout": 60}}
    return service.client().post(f"/v1/sandboxes/{box}/actions", body).ok().json


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def open_all(page):
    """Unfolds every event, so that all of it is drawn."""
    page.wait_element(".event summary")
    page.evaluate("document.querySelectorAll('.event details').forEach((d) => { d.open = true; })")
    page.wait_for("[...document.querySelectorAll('.event details')].every((d) => d.childElementCount > 1)")


def test_the_policy_holds(page):
    """Markup that did get in would do nothing."""
    page.evaluate(
        f"""(() => {{
        const add = (tag, attributes, text = '') => {{
            const e = document.createElement(tag);
            try {{
                for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
            }} catch {{}}
            e.append(text);
            document.body.append(e);
        }};
        add('img', {{ onerror: '{RUN}', src: 'x:' }});
        add('script', {{}}, '{RUN}');
        add('script', {{ src: 'http://{ELSEWHERE}/s' }});
        add('img', {{ src: 'http://{ELSEWHERE}/i' }});
        add('link', {{ rel: 'stylesheet', href: 'http://{ELSEWHERE}/l' }});
        add('style', {{}}, "@import 'http://{ELSEWHERE}/c'");
        add('iframe', {{ src: 'http://{ELSEWHERE}/f' }});
        fetch('http://{ELSEWHERE}/x').catch(() => 0);
        }})()"""
    )
    wanted = ["img-src", "style-src", "frame-src", "connect-src", "require-trusted-types-for"]
    page.wait_for(f"{json.dumps(wanted)}.every((name) => broken.some((b) => b.includes(name)))")
    assert page.evaluate("window.intruded") is None
    strangers = [url for url in page.requests if ELSEWHERE in url and url not in page.blocked]
    assert not strangers, strangers


@pytest.mark.parametrize("payload", PAYLOADS)
def test_the_name_of_a_sandbox(page, service, box, payload):
    service.client().patch(f"/v1/sandboxes/{box}", {"name": payload[:100]}).ok()
    name = " ".join(payload[:100].split())
    for place in (["sandboxes"], ["sandboxes", box, "details"], ["sandboxes", box]):
        page.go(*place)
        page.wait_text(name)
    page.wait_for("document.activeElement?.closest('.xterm')")  # which takes keys from then on, and comes late
    page.press("F6")
    page.press("Control+k")
    page.wait_element("dialog.palette")
    page.wait_for(f"document.querySelector('dialog.palette').innerText.includes({json.dumps(name)})")
    page.press("Escape")
    page.go("sandboxes", box, "snapshots")
    page.expect_untouched(payload)
    service.client().patch(f"/v1/sandboxes/{box}", {"name": "plain"}).ok()


def test_variables_and_metadata(page, box):
    page.go("sandboxes", box, "details")
    page.wait_text("Metadata")
    assert page.evaluate("document.body.innerText").count("<svg/onload=") == 2
    page.expect_untouched("details")


def test_events(page, service, box):
    act(service, box, "run", command=f"echo {quoted(ALL)}; echo {quoted(ALL)} >&2; false", thought=ALL)
    act(service, box, "run_ipython", code=f"raise ValueError({ALL!r})")
    act(service, box, "write", path="p.txt", content=ALL)
    act(service, box, "edit", command="create", path="/workspace/q.txt", file_text=ALL)
    act(service, box, "edit", command="str_replace", path="/workspace/q.txt", old_str=ALL, new_str=f"{ALL}\n{ALL}")
    act(service, box, "read", path=f"/nowhere/{ALL}")
    act(service, box, "run", command="echo no", confirmation_state="rejected", thought=ALL)
    page.go("sandboxes", box, "events")
    open_all(page)
    for payload in PAYLOADS:
        assert page.evaluate(f"document.querySelector('main').textContent.includes({json.dumps(payload)})"), payload
    page.fill("input[type=search]", "<script>")
    page.wait_text(" of ")
    page.expect_untouched("events")


def test_pictures_of_events(page, service, box):
    """An SVG is a document with scripts: it is not shown."""
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' onload='{RUN}'><image href='http://{ELSEWHERE}/s'/></svg>"
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    cell = f"display({{'image/svg+xml': {svg!r}}}, raw=True); display({{'image/png': {png!r}}}, raw=True)"
    seen = act(service, box, "run_ipython", code=cell)
    if seen["observation"] == "error":
        pytest.skip(seen["content"])
    assert len(seen["extras"]["image_urls"]) == 2
    page.go("sandboxes", box, "events")
    open_all(page)
    page.wait_for("[...document.querySelectorAll('.event img')].some((i) => i.complete && i.naturalWidth === 1)")
    assert page.evaluate("document.querySelectorAll('.event img').length") == 1
    page.expect_untouched("pictures")


def test_files(page, service, box):
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' onload='{RUN}'><script>{RUN}</script></svg>"
    html = f"<!doctype html><script>{RUN}</script>{ALL}"
    names = {payload.replace("/", "\u2215")[:120]: ALL for payload in PAYLOADS}
    for name, content in {**names, "page.html": html, "drawing.svg": svg, "fake.png": html}.items():
        act(service, box, "write", path=f"in/{name}", content=content)
    act(service, box, "run", command="pwd; cd in")
    page.go("sandboxes", box, f"files?path={'/workspace/in'}")
    for name in names:
        page.wait_for(f"document.body.textContent.includes({json.dumps(name)})")
    page.expect_untouched("list of files")
    for name, sign in [
        ("page.html", f"document.querySelector('.editor textarea')?.value.includes({json.dumps(ALL)})"),
        ("drawing.svg", "document.querySelector('.editor img, .editor textarea')"),
        ("fake.png", "document.querySelector('.editor img, .empty')"),
        (next(iter(names)), "document.querySelector('.editor textarea')"),
    ]:
        page.go("sandboxes", box, f"files?path={'/workspace/in'}")
        page.wait_element(".files a", name)
        page.click_on(".files a", name)
        page.wait_for(sign)
        page.expect_untouched(name)


def test_the_terminal(page, service, box):
    """Text, titles, links and answers of the terminal."""
    tricks = ["\033]0;%s\007", "\033]8;;%s\033\\\\link\033]8;;\033\\\\", "\033]52;c;eHg=\007", "\033P%s\033\\\\", "%s"]
    act(service, box, "write", path="tricks", content="\n".join(t.replace("%s", ALL) for t in tricks))
    page.go("sandboxes", box)
    page.wait_for("document.querySelector('.terminals .state')?.dataset.state == 'live'")
    page.type_keys("cat tricks; echo e-n-d")
    page.press("Enter")
    page.wait_terminal("e-n-d\n")
    page.expect_untouched("terminal")


def test_keys_and_tenants(page, service):
    for number, payload in enumerate(PAYLOADS[:4]):
        made = service.client().post("/v1/keys", {"name": payload[:60], "tenant": f"t{number}"})
        assert made.status in (201, 400, 422), made.body
    page.go("keys")
    page.wait_text("New key")
    page.expect_untouched("keys")


def test_errors(page, service, box):
    page.go("new")
    page.wait_element("input[name=image]")
    page.fill("input[name=image]", ALL)
    page.press("Enter")
    page.wait_for("document.querySelector('[role=alert]')?.textContent || document.querySelector('.terminals, h1')")
    page.expect_untouched("a refused wish")
    for fragment in ("sandboxes/" + SHORT, f"sandboxes/{box}/{SHORT}", f"sandboxes/{box}/files?path={SHORT}",
                     f"new?template={SHORT}", SHORT, f"ticket={SHORT}"):
        page.evaluate(f"location.hash = {json.dumps('#/' + fragment)}")
        page.wait_for("document.querySelector('main')?.childElementCount")
        page.expect_untouched(fragment)


@pytest.mark.slow
def test_the_title_of_a_page(page, service, box):
    title = f"<title>{SHORT.replace('<', '&lt;')} t-i-t-l-e</title>"
    act(service, box, "write", path="site/index.html", content=f"<!doctype html>{title}<p>x")
    act(service, box, "run", command="python3 -m http.server 8123 --directory site --bind 127.0.0.1 >/dev/null 2>&1 &")
    eventually(lambda: service.client().get(f"/v1/sandboxes/{box}/ports").json["ports"], "the server listens")
    seen = act(service, box, "browse", url="http://localhost:8123/")
    if seen["observation"] == "error":
        pytest.skip(seen["content"])
    page.go("sandboxes", box, "browser")
    page.wait_text("t-i-t-l-e")
    page.expect_untouched("the browser")
    page.go("sandboxes", box, "events")
    open_all(page)
    page.wait_for("[...document.querySelectorAll('.event img')].some((i) => i.complete && i.naturalWidth > 100)")
    page.expect_untouched("what the browser saw")
    page.go("sandboxes", box, "ports")
    page.wait_text("8123")
    page.expect_untouched("ports")
