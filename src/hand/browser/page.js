/* Runs in our isolated world of every document, before the page's own scripts.  It tells when
 * somebody uses the page, and finds out whether elements can be acted upon. */
(() => {
    const world = globalThis;
    if (world.tendonPage) return;

    /* --- who uses the page --------------------------------------------------------------- */

    const tell = (what) => {
        if (typeof world.tendonEvent === "function") world.tendonEvent(what);
    };
    let told = -1000;
    const active = (event) => {
        if (!event.isTrusted || event.timeStamp - told < 50) return;
        if (event.type === "visibilitychange" && document.hidden) return;
        told = event.timeStamp;
        tell("active");
    };
    for (const type of ["focus", "load", "pageshow", "mousemove", "mouseup", "mousedown", "click",
        "wheel", "keydown", "keyup", "input", "touchstart", "touchend", "visibilitychange"])
        world.addEventListener(type, active, { capture: true, passive: true });

    /* The title, now and whenever it changes. */
    const title = () => tell("title:" + document.title.slice(0, 1000));
    if (world === world.top)
        document.addEventListener("DOMContentLoaded", () => {
            title();
            const options = { subtree: true, childList: true, characterData: true };
            if (document.head) new MutationObserver(title).observe(document.head, options);
        });

    /* A link that is to be saved promises a file, which may take its time, unless the page's own
     * scripts have something else in mind. */
    const isSaved = (node) => node instanceof Element && node.matches("a[download], area[download]") &&
        (node.origin === location.origin || /^(blob|data):/.test(node.protocol));
    world.addEventListener("click", (event) => {
        if (!event.composedPath().some(isSaved)) return;
        tell("download");
        setTimeout(() => { if (event.defaultPrevented) tell("no download"); });
    }, { capture: true, passive: true });

    /* A sandboxed document parses <noscript> as if there were no scripts, and there are none. */
    const still = () => {
        if (document.contentType !== "text/html") return false;
        const probe = document.createElement("div");
        probe.innerHTML = "<noscript><b></b></noscript>";
        return probe.querySelector("b") !== null;
    };
    tell(still() ? "still" : "hello");

    /* --- what can be done with an element -------------------------------------------------- */

    const find = (bid) => (world.tendon ? world.tendon.find(bid) : null);

    const up = (node) => node.assignedSlot || node.parentElement ||
        (node.getRootNode() instanceof ShadowRoot ? node.getRootNode().host : null);

    const contains = (outer, inner) => {
        for (let node = inner; node; node = up(node)) if (node === outer) return true;
        return false;
    };

    const hasBox = (element) => {
        const style = getComputedStyle(element);
        if (style.display === "contents")
            return [...element.childNodes].some((child) => {
                if (child.nodeType === Node.ELEMENT_NODE) return isVisible(child);
                if (child.nodeType !== Node.TEXT_NODE) return false;
                const range = document.createRange();
                range.selectNode(child);
                const r = range.getBoundingClientRect();
                return r.width > 0 && r.height > 0;
            });
        const r = element.getBoundingClientRect();
        return r.width > 0 && r.height > 0;
    };

    function isVisible(element) {
        return getComputedStyle(element).visibility === "visible" && hasBox(element);
    }

    const isDisabled = (element) => {
        if (element.matches(":disabled")) return true;
        for (let node = element; node; node = up(node))
            if (node.getAttribute("aria-disabled") === "true") return true;
        return false;
    };

    /* A label stands for its control. */
    const control = (element) => {
        const label = element.matches("input, textarea, select") ? null : element.closest("label");
        return label && label.control ? label.control : element;
    };

    const describe = (element) => {
        const copy = element.cloneNode(false);
        copy.removeAttribute("bid");
        copy.removeAttribute("style");
        const text = copy.outerHTML.replace(/<\/[^>]*>$/, "").replace(/\s+/g, " ");
        const inner = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
        return `${text.slice(0, 120)}${inner}</${element.localName}>`;
    };

    /* The next animation frame: true, or false when there is none, as in a document that is not
     * drawn. */
    const frame = () => new Promise((resolve) => {
        const timer = setTimeout(() => resolve(false), 300);
        requestAnimationFrame(() => { clearTimeout(timer); resolve(true); });
    });

    const box = (element) => {
        const r = element.getBoundingClientRect();
        return [r.x, r.y, r.width, r.height].join();
    };

    /* In one place over two frames: the last one, whose layout stands, and the next? */
    const steady = async (element) => {
        const before = box(element);
        return (await frame()) && element.isConnected && box(element) === before;
    };

    /* The middle of the first part of it that is inside the window. */
    const middle = (element) => {
        for (const r of element.getClientRects()) {
            const left = Math.max(r.left, 0), right = Math.min(r.right, innerWidth);
            const top = Math.max(r.top, 0), bottom = Math.min(r.bottom, innerHeight);
            if ((right - left) * (bottom - top) > 0.99 && right > left)
                return { x: (left + right) / 2, y: (top + bottom) / 2 };
        }
        return null;
    };

    const topmost = (x, y) => {
        let element = document.elementFromPoint(x, y);
        while (element && element.shadowRoot) {
            const inner = element.shadowRoot.elementFromPoint(x, y);
            if (!inner || inner === element) break;
            element = inner;
        }
        return element;
    };

    /* What is in the way of a click, or "". */
    const obstacle = (element, x, y) => {
        const hit = topmost(x, y);
        if (!hit) return "element is outside of the viewport";
        let target = element;
        if (!element.matches("input, textarea, select") && !element.isContentEditable)
            target = element.closest("button, [role=button], a, [role=link]") || element;
        if (contains(target, hit) || (hit.localName === "label" && hit.control === element))
            return "";
        return `${describe(hit)} intercepts pointer events`;
    };

    const aligned = [null, { block: "end", inline: "end" }, { block: "center", inline: "center" },
        { block: "start", inline: "start" }];
    const bring = (element, round) => {
        const how = aligned[round % aligned.length];
        if (how) element.scrollIntoView({ ...how, behavior: "instant" });
        else if (element.scrollIntoViewIfNeeded) element.scrollIntoViewIfNeeded(true);
    };

    /* What is missing for `need`, or "". */
    const lacks = (element, need) => {
        if (!isVisible(element)) return "element is not visible";
        if (need.enabled && isDisabled(element)) return "element is not enabled";
        if (need.editable && (element.readOnly || element.getAttribute("aria-readonly") === "true"))
            return "element is not editable";
        return "";
    };

    const until = async (bid, ms, attempt) => {
        const end = performance.now() + ms;
        let blocked = 0;
        for (;;) {
            const element = find(bid);
            if (!element) return { missing: true };
            const result = await attempt(element, blocked);
            if (!result.why) return result;
            if (result.blocked) blocked++;
            if (performance.now() >= end) return result;
            await frame();
        }
    };

    /* What the mouse does with the element that was pointed at last, if that is wanted. */
    let aim = null;
    const near = (event) => Math.abs(event.clientX - aim.x) < 1 && Math.abs(event.clientY - aim.y) < 1;
    world.addEventListener("pointermove", (event) => {
        if (aim && event.isTrusted && near(event) && !obstacle(aim.element, aim.x, aim.y))
            tell("met:" + aim.number);
    }, { capture: true, passive: true });
    world.addEventListener("pointerdown", (event) => {
        if (!aim || !event.isTrusted) return;
        tell("pressed:" + aim.number);
        aim = null;
    }, { capture: true, passive: true });

    /* Where to point at the element, in this frame's window: {x, y}, or {why} after ms.  With
     * need.aim, a number, it is told when the mouse meets it and when a button is pressed. */
    const point = (bid, need, ms) => until(bid, ms, async (element, round) => {
        const why = lacks(element, need);
        if (why) return { why };
        bring(element, round); /* first: what is far away may not even be drawn */
        if (!(await steady(element))) return { why: "element is not stable" };
        const at = middle(element);
        if (!at) return { why: "element is outside of the viewport", blocked: true };
        const obstructed = obstacle(element, at.x, at.y);
        if (obstructed) return { why: obstructed, blocked: true };
        aim = need.aim ? { element, number: need.aim, ...at } : null;
        return at;
    });

    /* --- forms ----------------------------------------------------------------------------- */

    const typed = ["", "email", "number", "password", "search", "tel", "text", "url"];
    const set = ["color", "date", "time", "datetime-local", "month", "range", "week"];

    const changed = (element) => {
        element.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
        element.dispatchEvent(new Event("change", { bubbles: true }));
    };

    const putValue = (element, value) => {
        const text = element.type === "color" ? value.toLowerCase() : value;
        element.focus();
        element.value = text;
        if (element.value !== text) return { error: "Malformed value" };
        changed(element);
        return { done: true };
    };

    const fillOnce = (element, value) => {
        if (element.localName === "input") {
            const type = element.type;
            if (!typed.includes(type) && !set.includes(type))
                return { error: `Input of type "${type}" cannot be filled` };
            if (type === "number" && Number.isNaN(Number(value.trim())))
                return { error: "Cannot type text into input[type=number]" };
            if (set.includes(type)) return putValue(element, value.trim());
        } else if (element.localName !== "textarea" && !element.isContentEditable) {
            return { error: "Element is not an <input>, <textarea> or [contenteditable] element" };
        }
        element.focus();
        if (element.select) {
            element.select();
        } else {
            const range = document.createRange();
            range.selectNodeContents(element);
            const selection = getSelection();
            selection.removeAllRanges();
            selection.addRange(range);
        }
        return { type: true };
    };

    /* Focuses it and selects what is in it: {type: true} when the text is to be typed now, {done:
     * true} when the value has been set, {why} or {error}. */
    const fill = (bid, value, ms) => until(bid, ms, async (found) => {
        const element = control(found);
        const why = lacks(element, { enabled: true, editable: true });
        return why ? { why } : fillOnce(element, value);
    });

    const select = (bid, wanted, ms) => until(bid, ms, async (found) => {
        const element = control(found);
        if (element.localName !== "select") return { error: "Element is not a <select> element" };
        const why = lacks(element, { enabled: true });
        if (why) return { why };
        const options = [...element.options];
        const chosen = [];
        for (const text of wanted) {
            const option = options.find((o) => o.value === text || o.label === text ||
                o.label.trim().replace(/\s+/g, " ") === text);
            if (!option) return { why: "did not find some options" };
            if (option.disabled || (option.parentElement.localName === "optgroup" &&
                option.parentElement.disabled)) return { why: "option being selected is not enabled" };
            chosen.push(option);
            if (!element.multiple) break;
        }
        element.focus();
        if (element.multiple) for (const option of options) option.selected = chosen.includes(option);
        else element.selectedIndex = options.indexOf(chosen[0]);
        if (!chosen.length) element.selectedIndex = -1;
        changed(element);
        return { done: true };
    });

    const focus = (bid) => {
        const element = find(bid);
        if (!element) return { missing: true };
        element.focus();
        return { done: true };
    };

    /* --- frames, dragging, quiet ------------------------------------------------------------ */

    /* A point in the frame of `owner`, seen from this window. */
    const through = (owner, x, y) => {
        let r = owner.getBoundingClientRect();
        const inside = () => {
            const style = getComputedStyle(owner);
            const zoom = owner.offsetWidth ? r.width / owner.offsetWidth : 1;
            return {
                x: r.left + (owner.clientLeft + parseFloat(style.paddingLeft) + x) * zoom,
                y: r.top + (owner.clientTop + parseFloat(style.paddingTop) + y) * zoom,
            };
        };
        let at = inside();
        if (at.x < 0 || at.y < 0 || at.x > innerWidth || at.y > innerHeight) {
            owner.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
            r = owner.getBoundingClientRect();
            at = inside();
        }
        const why = obstacle(owner, at.x, at.y);
        return why ? { why } : at;
    };

    /* Whether a drag has begun since: call once before and once after the mouse has moved. */
    let dragged = null;
    const dragging = (bid, begin) => {
        if (begin) {
            dragged = null;
            const catchIt = (event) => { dragged = event; };
            world.addEventListener("dragstart", catchIt, { capture: true, once: true });
            return false;
        }
        return dragged !== null && !dragged.defaultPrevented;
    };

    /* Resolves when the document has not changed for `still` ms, or after ms.  One that does not
     * change until the next frame is quiet already. */
    const quiet = (stillMs, ms) => new Promise((resolve) => {
        const end = performance.now() + ms;
        let last = -Infinity;
        const observer = new MutationObserver(() => { last = performance.now(); });
        const options = { subtree: true, childList: true, attributes: true, characterData: true };
        observer.observe(document, options);
        const look = () => {
            const now = performance.now();
            if (now < end && now - last < stillMs) {
                frame().then(look);
            } else {
                observer.disconnect();
                resolve();
            }
        };
        frame().then(look);
    });

    world.tendonPage = { frame, point, fill, select, focus, through, dragging, quiet };
})();
