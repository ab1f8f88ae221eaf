// Runs in our isolated world of every frame.  mark.h says what it offers.
// A page can put elements in place of properties, here as well (<input name=getAttribute> in a form,
// <img name=activeElement> in the document): everything is asked through the prototypes.
if (!Object.hasOwn(globalThis, "tendon")) {
    globalThis.tendon = (() => {
        const method = (type, name) => Function.prototype.call.bind(type.prototype[name]);
        const property = (type, name) =>
            Function.prototype.call.bind(Object.getOwnPropertyDescriptor(type.prototype, name).get);
        const getAttribute = method(Element, "getAttribute");
        const setAttribute = method(Element, "setAttribute");
        const hasAttribute = method(Element, "hasAttribute");
        const removeAttribute = method(Element, "removeAttribute");
        const matches = method(Element, "matches");
        const boxOf = method(Element, "getBoundingClientRect");
        const childCount = property(Element, "childElementCount");
        const localName = property(Element, "localName");
        const shadowRoot = property(Element, "shadowRoot");
        const isConnected = property(Node, "isConnected");
        const parentElement = property(Node, "parentElement");
        const rootOf = method(Node, "getRootNode");
        const createTreeWalker = method(Document, "createTreeWalker");
        const activeElement = property(Document, "activeElement");
        const elementFromPoint = method(Document, "elementFromPoint");
        const visibilityState = property(Document, "visibilityState");

        const NAME = "bid", FORCE = "aria-description";
        const VISIBLE_MS = 1000, AREA_MIN = 20;
        const MARKED_TAGS = new Set(["input", "textarea", "select", "button", "a", "iframe", "video", "li", "td", "option"]);
        const BUTTONS = 'button, a, input[type="button"], div[role="button"]';

        let prefix = "", elements = 0, frames = 0;
        let bids = new WeakMap(); // element -> its bid, whatever the page does to the attribute
        const owners = new Map(); // bid -> weak reference to the element
        let marked = []; // the elements of the last mark(), in document order
        let forced = []; // those that got a temporary attribute

        // a, b, ... z, aA, aB, ... zZ, aAA, ...
        const letters = (n) => {
            let name = "";
            for (n++; n > 0; n = Math.floor((n - 1) / 26))
                name = String.fromCharCode(65 + ((n - 1) % 26)) + name;
            return name[0].toLowerCase() + name.slice(1);
        };

        const isFrame = (element) => localName(element) === "iframe" || localName(element) === "frame";

        // All elements, each shadow root's right behind its host.
        const walk = (visit) => {
            const walkers = [createTreeWalker(document, document, NodeFilter.SHOW_ELEMENT)];
            while (walkers.length) {
                const element = walkers[walkers.length - 1].nextNode();
                if (!element) {
                    walkers.pop();
                    continue;
                }
                visit(element);
                const root = shadowRoot(element);
                if (root)
                    walkers.push(createTreeWalker(document, root, NodeFilter.SHOW_ELEMENT));
            }
        };

        const find = (bid) => {
            const element = owners.get(bid)?.deref();
            return element && isConnected(element) ? element : null;
        };

        // An element that a page made from the markup of another one (innerHTML) goes on under its bid.
        const inherits = (bid) => owners.has(bid) && !find(bid);

        const name = (element) => {
            const written = getAttribute(element, NAME);
            let bid = bids.get(element);
            if (!bid || (find(bid) ?? element) !== element)
                bid = inherits(written) ? written : prefix + (isFrame(element) ? letters(frames++) : elements++);
            if (find(bid) !== element) {
                bids.set(element, bid);
                owners.set(bid, new WeakRef(element));
            }
            if (written !== bid)
                setAttribute(element, NAME, bid);
        };

        const forgetOthers = () => {
            for (const bid of owners.keys())
                if (!find(bid))
                    owners.delete(bid);
        };

        const unmark = () => {
            for (const element of forced)
                if (getAttribute(element, FORCE) === "")
                    removeAttribute(element, FORCE);
            forced = [];
        };

        const mark = (newPrefix) => {
            unmark();
            if (prefix !== newPrefix) {
                prefix = newPrefix;
                elements = frames = 0;
                bids = new WeakMap();
                owners.clear();
            }
            marked = [];
            walk((element) => {
                name(element);
                // An ARIA attribute keeps it from being left out of the accessibility tree.
                if (!hasAttribute(element, FORCE)) {
                    setAttribute(element, FORCE, "");
                    forced.push(element);
                }
                marked.push(element);
            });
            forgetOthers();
        };

        // { bid: share of the element that can be seen } without those of which nothing can.
        const visibility = (all) => new Promise((done) => {
            const seen = {};
            let left = all.length;
            const finish = () => {
                observer.disconnect();
                clearTimeout(timer);
                done(seen);
            };
            const observer = new IntersectionObserver((entries) => {
                for (const { target, intersectionRatio } of entries) {
                    if (intersectionRatio > 0)
                        seen[bids.get(target)] = Math.round(intersectionRatio * 100) / 100;
                    left--;
                }
                if (left <= 0)
                    finish();
            });
            const timer = setTimeout(finish, VISIBLE_MS);
            for (const element of all)
                observer.observe(element);
            if (!left || visibilityState(document) === "hidden")
                finish();
        });

        const above = (element) => {
            const root = parentElement(element) ? null : rootOf(element);
            return root instanceof ShadowRoot ? root.host : parentElement(element);
        };

        const within = (element, ancestor) => {
            while (element && element !== ancestor)
                element = above(element);
            return element === ancestor;
        };

        const elementAt = (x, y) => {
            let found = null, element = elementFromPoint(document, x, y);
            while (element && element !== found) {
                found = element;
                element = shadowRoot(element)?.elementFromPoint(x, y);
            }
            return found;
        };

        const takesClicks = (element) => {
            const { left, top, right, bottom } = boxOf(element);
            const x = (left + right) / 2, y = (top + bottom) / 2;
            if ((right - left) * (bottom - top) < AREA_MIN || x < 0 || y < 0 || x > innerWidth || y > innerHeight)
                return false;
            return within(elementAt(x, y), element);
        };

        const looksClickable = (element) =>
            MARKED_TAGS.has(localName(element)) || hasAttribute(element, "onclick") ||
            getComputedStyle(element).cursor === "pointer";

        const isOnlyChildOfMarkedSpan = (element, set) => {
            const parent = parentElement(element);
            return parent && set.has(parent) && localName(parent) === "span" && childCount(parent) === 1 &&
                getAttribute(parent, "role");
        };

        // The elements to draw boxes around: innermost ones, but nothing inside a button.
        const setOfMarks = (all) => {
            const set = new Set(), buttons = new Set();
            for (const element of all) {
                if (!looksClickable(element) || !takesClicks(element) || isOnlyChildOfMarkedSpan(element, set))
                    continue;
                const outer = [];
                for (let node = above(element); node; node = above(node))
                    outer.push(node);
                if (outer.some((node) => buttons.has(node)))
                    continue;
                for (const node of outer)
                    set.delete(node);
                set.add(element);
                if (matches(element, BUTTONS))
                    buttons.add(element);
            }
            return Object.fromEntries([...set].map((element) => [bids.get(element), true]));
        };

        const focused = () => {
            let element = activeElement(document);
            for (let inner = element; inner; inner = shadowRoot(inner)?.activeElement)
                element = inner;
            return element ? bids.get(element) ?? "" : "";
        };

        const look = async () => {
            const all = marked;
            marked = []; // elements are not kept alive between two looks
            return { focused: focused(), marks: setOfMarks(all), visible: await visibility(all) };
        };

        return { mark, unmark, find, look };
    })();
}
