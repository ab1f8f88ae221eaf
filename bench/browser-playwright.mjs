/* Playwright doing what browse_interactive does: click a button, then look at the page - screenshot,
 * accessibility tree, text.  For each line on stdin (a number of steps) one line of JSON: the
 * milliseconds of each step.  Arguments: the directory of playwright-core, the browser, the URL. */
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const [directory, browserPath, url] = process.argv.slice(2);
const { chromium } = createRequire(`${directory}/x.js`)("playwright-core");

const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await chromium.launch({ executablePath: browserPath, args });
const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
const session = await page.context().newCDPSession(page);
await page.goto(url);
const button = page.locator("#count");

const step = async () => {
    const start = performance.now();
    await button.click();
    const [picture, tree, text] = await Promise.all([
        page.screenshot({ type: "png" }),
        session.send("Accessibility.getFullAXTree"),
        page.evaluate(() => document.body.innerText),
    ]);
    if (!picture.length || !tree.nodes.length || !text.length) throw new Error("nothing to see");
    return performance.now() - start;
};

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
    const times = [];
    for (let i = 0; i < Number(line); i++) times.push(await step());
    console.log(JSON.stringify(times));
}
await browser.close();
