"""What people do at the dashboard, in a real Chromium against a real service."""

import json

import pytest
from services import eventually


def box_path(box, rest=""):
    return f"/v1/sandboxes/{box}{rest}"


def act(client, box, action, **args):
    return client.post(box_path(box, "/actions"), {"action": {"action": action, "args": args}}).ok().json


def test_wrong_key_is_refused(page, service):
    page.fill("input[name=key]", "tnk_000000000000_wrong")
    page.press("Enter")
    page.wait_text("This key is not accepted")
    assert page.evaluate("sessionStorage.length + localStorage.length") == 0
    page.sign_in(service.admin)
    assert service.admin not in page.evaluate("location.href")


def test_key_is_kept_for_the_tab_only_unless_asked(page, service):
    page.sign_in(service.admin)
    assert page.evaluate("localStorage.getItem('tendon.key')") is None
    page.navigate(service.url + "/")
    page.wait_element(".places")  # a reload of the same tab
    page.click_on("button", "Sign out")
    page.wait_text("You have signed out")
    assert page.evaluate("sessionStorage.getItem('tendon.key')") is None
    page.click_on("input[name=remember]")
    page.sign_in(service.admin)
    assert page.evaluate("localStorage.getItem('tendon.key')") == service.admin


def test_login_link(page, service):
    link = service.client().post("/dashboard/link").ok(201).json["link"]
    page.navigate("about:blank#x")
    page.navigate(link)
    page.wait_element(".places")
    page.wait_text("Signed in by a link")
    assert "ticket" not in page.evaluate("location.href")
    # Who is signed in stays so, whatever link is opened; and an old one is refused.
    other = service.tenant("other").post("/dashboard/link").ok(201).json["link"]
    page.navigate("about:blank#x")
    page.navigate(other)
    page.wait_element(".places")
    page.go("service")
    page.wait_text("default")
    page.click_on("button", "Sign out")
    page.navigate("about:blank#x")
    page.navigate(f"{service.url}/#ticket=old")
    page.wait_text("This link is too old")


def test_revoked_key_is_signed_out(page, service):
    made = service.make_key("short-lived", "--tenant", "brief")
    page.sign_in(made["key"])
    service.client().delete(f"/v1/keys/{made['id']}").ok(204)
    page.go("service")
    page.wait_text("no longer accepted")


def test_create_from_a_template_and_type(signed_in, service):
    page = signed_in
    page.click_on("a", "New sandbox")
    page.fill("input[name=name]", "made here")
    page.evaluate("document.querySelector('select[name=template]').value = 'small'")
    page.press("Enter")
    page.wait_element("h1", "made here")
    page.wait_for("document.querySelector('.terminals .state')?.dataset.state == 'live'")
    page.type_keys("echo $((6*7))-typed")
    page.press("Enter")
    page.wait_terminal("42-typed")
    made = service.client().get("/v1/sandboxes?name=made%20here").json["sandboxes"][0]
    assert made["template"] == "small"
    page.click_on("button", "Delete")
    page.wait_element("dialog")
    page.click_on("dialog button", "Delete")
    page.wait_for("location.hash == '#/sandboxes'")
    page.wait_for("!document.querySelector('td.main')")


def test_a_failed_wish_says_why(signed_in):
    page = signed_in
    page.go("new")
    page.wait_element("input[name=name]")
    page.click_on("summary")
    page.fill("input[name=memory]", "99999g")
    page.fill("textarea[name=env]", "nonsense")
    page.click_on("button", "Create")
    page.wait_text("is not of the form NAME=value")


def test_terminal_sessions_and_resume(signed_in, service, box):
    page = signed_in
    page.go("sandboxes", box, "terminal")
    page.wait_for("document.querySelector('.terminals .state')?.dataset.state == 'live'")
    page.type_keys("export MARK=kept; echo first-$MARK")
    page.press("Enter")
    page.wait_terminal("first-kept")
    page.click_on("button", "New session")
    page.wait_element("[role=tab]", "shell-2")
    page.wait_for("document.querySelector('.terminals .state')?.dataset.state == 'live'")
    page.type_keys("echo second-$MARK-x")
    page.press("Enter")
    page.wait_terminal("second--x")
    page.click_on("[role=tab]", "main")
    service.restart(kill=True)
    page.wait_text("Offline")
    page.wait_for("document.querySelector('.link-state .state').dataset.state == 'live'")
    page.wait_for("document.querySelector('.terminals .state').dataset.state == 'live'")
    page.type_keys("echo third-$MARK")
    page.press("Enter")
    page.wait_terminal("third-kept")
    # Nothing was drawn twice: it went on where it broke off.
    assert page.terminal_text().count("first-kept") == 1
    # Lines can be read out, which the policy of the page must allow.
    page.click_on("button", "Screen reader")
    page.wait_element(".xterm-accessibility")
    page.evaluate("document.querySelector('.surface').terminal.focus()")
    page.type_keys("exit")
    page.press("Enter")
    page.wait_terminal("a new one starts")
    page.wait_for("document.querySelector('.terminals .state').dataset.state == 'live'")
    page.type_keys("echo again-$((1+2))")
    page.press("Enter")
    page.wait_terminal("again-3")


def test_an_event_arrives(signed_in, service, box):
    page = signed_in
    client = service.client()
    page.go("sandboxes", box, "events")
    page.wait_text("Nothing has happened yet")
    act(client, box, "run", command="echo loud; false", security_risk=1)
    page.wait_element(".event")
    page.wait_text("exit 1")
    page.wait_text("medium risk")
    page.wait_for("/\\d:\\d\\d/.test(document.querySelector('.event time').innerText)")  # when it began
    page.wait_for("[...document.querySelectorAll('.event .badge')].some((e) => /^[\\d.]+ m?s$/.test(e.innerText))")
    page.click_on(".event summary")
    page.wait_for("document.querySelector('.event pre')?.innerText.includes('loud')")
    act(client, box, "run", command="echo quiet")
    page.wait_for("document.querySelectorAll('.event').length == 2")
    page.fill("main input[type=search]", "quiet")
    page.wait_for("document.querySelectorAll('.event').length == 1")
    page.go("sandboxes")
    page.wait_text("run: echo quiet")


def test_the_list_tells_of_each(signed_in, service, box):
    """State, image, age, processor, memory and the last action; all of it comes by itself."""
    page = signed_in
    page.go("sandboxes")
    cell = f"[...document.querySelectorAll('tbody tr')].find((row) => row.dataset.id == '{box}')?.querySelector"
    page.wait_for(f"{cell}('.state-cell').innerText == 'running'")
    assert page.evaluate(f"{cell}('.image').innerText") == "jail"
    assert page.evaluate(f"/^[0-9]+ (s|min)$/.test({cell}('[data-label=Age]').innerText)")
    act(service.client(), box, "run", command="echo seen")
    page.wait_for(f"{cell}('.action').innerText == 'run: echo seen'")
    page.wait_for(f"/^[0-9.]+ %$/.test({cell}('[data-label=CPU]').innerText)")
    page.wait_for(f"/^[0-9.]+ [KMG]B$/.test({cell}('[data-label=Memory]').innerText)")
    labels = "[...document.querySelectorAll('.boxes thead button')].map((e) => e.textContent)"
    assert page.evaluate(labels) == ["Name", "State", "Image", "Age", "CPU", "Memory", "Last action"]
    service.client().post(box_path(box, "/pause")).ok()
    page.wait_for(f"{cell}('.state-cell').innerText == 'paused' && {cell}('[data-label=CPU]').innerText == '–'")


def test_survives_a_restart(signed_in, service, box):
    page = signed_in
    page.go("sandboxes")
    page.wait_for("document.querySelector('tbody .state')?.innerText == 'running'")
    page.evaluate("window.same = true")
    service.kill()
    page.wait_text("Connection to the service lost")
    service.start()
    page.wait_for("document.querySelector('.link-state .state').dataset.state == 'live'")
    client = service.client()
    client.post(box_path(box, "/pause")).ok()
    page.wait_for("document.querySelector('tbody .state')?.innerText == 'paused'")
    assert page.evaluate("window.same"), "the page was loaded again"
    page.go("sandboxes", box, "files")
    page.wait_text("It is paused")
    page.click_on(".empty button", "Resume")
    page.wait_element(".files")
    assert client.get(box_path(box)).json["state"] == "running"


def test_upload_edit_rename_delete(signed_in, service, box, tmp_path):
    page, client = signed_in, service.client()
    workspace = client.get(box_path(box, "/hand/v1/sessions/main")).json["cwd"]

    def content(name):
        answer = client.get(box_path(box, f"/files?path={workspace}/{name}"))
        return answer.text if answer.status == 200 else None

    (tmp_path / "hello.txt").write_text("from outside\n")
    page.go("sandboxes", box, "files")
    page.wait_element(".files")
    page.drop(".files", tmp_path / "hello.txt")
    page.wait_element(".files a", "hello.txt")
    assert content("hello.txt") == "from outside\n"

    page.click_on(".files a", "hello.txt")
    page.wait_for("document.querySelector('.editor textarea')?.value == 'from outside\\n'")
    page.fill(".editor textarea", "edited\n")
    page.wait_text("not saved")
    page.press("Control+s")
    page.wait_text("was saved")
    assert content("hello.txt") == "edited\n"

    # Somebody else writes it meanwhile.
    client.put(box_path(box, f"/files?path={workspace}/hello.txt"), b"theirs, longer\n")
    page.fill(".editor textarea", "mine\n")
    page.press("Control+s")
    page.wait_element("dialog")
    page.click_on("dialog button", "Keep editing")
    page.wait_for("!document.querySelector('dialog') && !document.querySelector('.editor button.primary').disabled")
    assert content("hello.txt") == "theirs, longer\n"
    page.press("Control+s")
    page.click_on("dialog button", "Replace it")
    page.wait_for("!document.querySelector('dialog')")
    page.wait_for("document.querySelector('.editor button.primary').disabled")
    assert content("hello.txt") == "mine\n"

    page.click_on("button", "Close")
    page.click_on("button", "Actions for hello.txt")
    page.click_on("[role=menuitem]", "Rename…")
    page.fill("dialog input", "renamed.txt")
    page.press("Enter")
    page.wait_element(".files a", "renamed.txt")
    page.click_on("button", "Actions for renamed.txt")
    page.click_on("[role=menuitem]", "Delete…")
    page.click_on("dialog button", "Delete")
    page.wait_text("This directory is empty")
    assert content("renamed.txt") is None


def test_what_is_wrong_is_shown_where_it_is_folded_away(signed_in):
    page = signed_in
    page.go("new")
    page.wait_element("input[name=name]")
    page.evaluate("document.querySelector('details.card').open = true")
    page.fill("input[name=memory]", "much")
    page.evaluate("document.querySelector('details.card').open = false")
    page.click_on("button", "Create")
    page.wait_text("Memory: Expected a number with k, m, g or t.")
    assert page.evaluate("document.querySelector('details.card').open")
    assert page.evaluate("document.activeElement.name") == "memory"
    assert page.evaluate("location.hash") == "#/new"


def test_a_question_does_not_survive_navigation(signed_in, service, box):
    page = signed_in
    page.go("sandboxes")
    page.wait_text("box")
    page.go("sandboxes", box)
    page.click_on("button", "Delete")
    page.wait_element("dialog")
    page.evaluate("history.back()")
    page.wait_for("location.hash == '#/sandboxes' && !document.querySelector('dialog')")
    assert service.client().get(box_path(box)).ok().json["state"] == "running"
    page.press("Control+k")
    page.wait_element("dialog.palette")
    page.go("sandboxes", box, "files")
    page.wait_for("!document.querySelector('dialog')")


def test_what_a_cell_showed_and_an_edit_changed(signed_in, service, box):
    page, client = signed_in, service.client()
    act(client, box, "edit", command="create", path="/workspace/f", file_text="one\ntwo\nthree\n")
    act(client, box, "edit", command="str_replace", path="/workspace/f", old_str="two", new_str="2")
    failed = act(client, box, "run_ipython", code="1/0")
    page.go("sandboxes", box, "events")
    page.wait_text("str_replace /workspace/f")
    page.evaluate("document.querySelectorAll('.event details').forEach((d) => { d.open = true; })")
    page.wait_for("document.querySelectorAll('.event pre .gone').length")
    lines = "[...document.querySelectorAll('.event pre span.{}')].map((e) => e.textContent.trim())"
    assert page.evaluate(lines.format("gone")) == ["-two"]
    assert "+2" in page.evaluate(lines.format("added"))
    if failed["observation"] == "run_ipython":
        page.wait_for("[...document.querySelectorAll('.event')].at(-1).querySelector('.badge.bad')?.innerText == 'failed'")


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def test_hostile_names_and_output(signed_in, service, box):
    page, client = signed_in, service.client()
    name = HOSTILE.replace("/", "\u2215")
    act(client, box, "run", command=f"echo '{HOSTILE}'; printf '\\033]0;x\\007\\033[31m\\033]52;c;eHg=\\007'")
    act(client, box, "write", path=name, content="x")
    act(client, box, "run", command="touch \"$(printf 'bad\\377name')\" 'line\nbreak' ' '")
    client.patch(box_path(box), {"name": HOSTILE}).ok()
    for view, shown in (("events", HOSTILE), ("files", name), ("details", HOSTILE), ("logs", "lines")):
        page.go("sandboxes", box, view)
        page.wait_text(shown)
    page.go("sandboxes", box, "events")
    page.wait_element(".event summary")
    page.click_on(".event summary")
    page.wait_for(f"document.querySelector('.event pre')?.innerText.includes({json.dumps(HOSTILE)})")
    page.go("sandboxes")
    page.wait_element("td.main a", HOSTILE)
    assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    # A name that is no UTF-8 can be opened like any other.
    page.go("sandboxes", box, "files")
    page.wait_element(".files a[href*=raw]")
    page.click_on(".files a[href*=raw]")
    page.wait_element(".editor textarea")


def test_keyboard_only(page, service, box):
    page.wait_for("document.activeElement?.name == 'key'")
    page.type(service.admin)
    page.press("Enter")
    page.wait_element(".places")
    page.wait_for("document.querySelector('td.main')")
    page.press("?")
    page.wait_text("find a sandbox or a command")
    page.press("Escape")
    page.wait_for("!document.querySelector('dialog')")
    page.press("Control+k")
    page.wait_element("dialog.palette")
    page.type("box")
    page.press("Enter")
    page.wait_for("document.querySelector('.terminals .state')?.dataset.state == 'live'")
    page.wait_for("document.activeElement?.closest('.xterm')")
    page.type_keys("echo by-$((1+1))-keys")
    page.press("Enter")
    page.wait_terminal("by-2-keys")
    page.press("F6")  # out of the terminal, onto its tab
    assert page.evaluate("document.activeElement.getAttribute('role')") == "tab"
    page.press("g")
    page.press("s")
    page.wait_for("location.hash == '#/sandboxes'")
    page.wait_element("input[type=search]")
    page.press("/")
    page.wait_for("document.activeElement?.type == 'search'")
    # Every stop of Tab can be seen and has a name.
    page.evaluate("document.activeElement.blur()")
    for _ in range(14):
        page.press("Tab")
        assert page.focused(), page.evaluate("document.activeElement.outerHTML")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or page.evaluate("document.activeElement === document.body"), page.focused()


def test_phone(page, service, box):
    page.set_size(320, 640, mobile=True)
    page.sign_in(service.admin)
    for view in ("", "terminal", "files", "events", "browser", "ports", "usage", "logs", "snapshots", "details"):
        page.go("sandboxes", *([box, view] if view else []))
        page.wait_for("!document.querySelector('main [aria-busy=true]') && document.querySelector('main').childElementCount > 1")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 320, (view, wide)
    for place in ("new", "pools", "keys", "service"):
        page.go(place)
        page.wait_for("!document.querySelector('main [aria-busy=true]') && document.querySelector('main h1')")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, place


def test_dark_and_light(signed_in):
    page = signed_in
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.set_media(color_scheme="dark")
    page.wait_for(f"{background} != {json.dumps(light)}")
    page.click_on("header button[aria-label^=Colours]")  # as the system -> light
    page.wait_for(f"{background} == {json.dumps(light)}")
    page.click_on("header button[aria-label^=Colours]")
    page.wait_for(f"{background} != {json.dumps(light)}")
    assert page.evaluate("localStorage.getItem('tendon.theme')") == "dark"


def test_ports_snapshots_usage(signed_in, service, box):
    page, client = signed_in, service.client()
    page.go("sandboxes", box, "ports")
    page.wait_text("Nothing listens")
    act(client, box, "run", command="python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &")
    page.click_on("button", "Open port 8123")
    own = f"http://8123-{box}.localhost:{service.port}/"
    tab = eventually(lambda: [t for t in page.call("Target.getTargets")["targetInfos"] if t["url"] == own], own)[0]
    eventually(lambda: "Directory listing" in page.title_of(tab["targetId"]), "the page of the port")
    page.call("Target.closeTarget", targetId=tab["targetId"])
    page.go("sandboxes", box, "snapshots")
    page.wait_text("No snapshots")
    act(client, box, "write", path="kept.txt", content="before")
    page.click_on("button", "Take a snapshot")
    page.fill("dialog input", "one")
    page.press("Enter")
    page.wait_element("button", "Actions for one")
    act(client, box, "write", path="kept.txt", content="after")
    page.click_on("button", "Actions for one")
    page.click_on("[role=menuitem]", "Go back to it…")
    page.click_on("dialog button", "Go back")
    page.wait_text("The files are those of one again")
    assert "before" in act(client, box, "read", path="kept.txt")["content"]
    page.go("sandboxes", box, "usage")
    page.wait_for("document.querySelectorAll('.chart .line[d^=M]').length == 2")


@pytest.mark.slow
def test_browser_live_and_taken_over(signed_in, service, box):
    page, client = signed_in, service.client()
    html = "<title>Shop</title><body onclick=\"document.title='Clicked'\" style=height:600px><input autofocus>"
    act(client, box, "write", path="site/index.html", content=html)
    act(client, box, "run", command="python3 -m http.server 8123 --directory site --bind 127.0.0.1 >/dev/null 2>&1 &")
    eventually(lambda: client.get(box_path(box, "/ports")).json["ports"], "the server listens")
    page.go("sandboxes", box, "browser")
    page.wait_text("No browser is open")
    page.fill(".empty input", "localhost:8123/")
    page.press("Enter")
    page.wait_for("document.querySelector('canvas')?.dataset.painted == 'yes'")
    page.wait_text("Shop")
    page.click_on("canvas")  # only looked at: nothing happens
    page.click_on("button", "Take over")
    page.click_on("canvas")
    page.wait_text("Clicked")
    page.press("F6")
    assert page.focused() == "Take over"


def test_keys_and_pools(signed_in, service):
    page = signed_in
    page.go("keys")
    page.click_on("button", "New key")
    page.fill("dialog input[name=name]", "from-the-page")
    page.fill("dialog input[name=tenant]", "elsewhere")
    page.click_on("dialog button", "Create")
    page.wait_text("It is shown only now")
    assert page.evaluate("document.querySelectorAll('dialog').length") == 1, "the question is gone"
    key = page.evaluate("document.querySelector('dialog input').value")
    assert service.client(key).get("/v1/me").ok().json["tenant"] == "elsewhere"
    page.click_on("dialog button", "Done")
    page.wait_text("from-the-page")
    page.go("pools")
    page.click_on("button", "New pool")
    page.fill("dialog input[name=name]", "warm")
    page.fill("dialog input[name=target]", "1")
    page.click_on("dialog button", "Create")
    page.wait_for("document.querySelector('td[data-label=Ready]')?.innerText == '1'")
    page.click_on("button", "Actions for warm")
    page.click_on("[role=menuitem]", "Remove…")
    page.click_on("dialog button", "Remove")
    page.wait_text("No pools")


def test_a_tenant_sees_its_own(page, service, box):
    page.sign_in(service.tenant("somebody").key)
    page.wait_text("No sandboxes yet")
    assert not page.is_there("a", "Keys")
    page.go("sandboxes", box)
    page.wait_text("No such sandbox")


def test_a_download_does_not_go_through_the_page(signed_in, service, box, tmp_path):
    page, client = signed_in, service.client()
    workspace = client.get(box_path(box, "/hand/v1/sessions/main")).json["cwd"]
    content = bytes(range(256)) * 20000
    client.put(box_path(box, f"/files?path={workspace}/big.bin"), content).ok(201)
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.evaluate("URL.createObjectURL = () => { throw new Error('it is in memory'); }")
    page.go("sandboxes", box, "files")
    page.click_on("button", "Actions for big.bin")
    page.click_on("[role=menuitem]", "Download")
    saved = tmp_path / "big.bin"
    eventually(lambda: saved.exists() and saved.stat().st_size == len(content), "the file is there")
    assert saved.read_bytes() == content


def test_logs_arrive_by_themselves(signed_in, service, box):
    """One stream, not one request after the other."""
    page = signed_in
    page.go("sandboxes", box, "logs")
    page.wait_for("/[1-9]\\d* lines/.test(document.body.innerText)")
    asked = page.evaluate("performance.getEntriesByType('resource').filter((e) => e.name.includes('/logs')).length")
    log = service.state / "sandbox" / box / "hand.log"
    with open(log, "a") as file:
        file.write("a line that comes late\n")
    page.wait_text("a line that comes late")
    again = page.evaluate("performance.getEntriesByType('resource').filter((e) => e.name.includes('/logs')).length")
    assert asked <= 1 and again <= 1, (asked, again)
