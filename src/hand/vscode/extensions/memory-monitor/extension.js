/* The memory of the sandbox in the status bar; a click on it tells more. */
"use strict";

const vscode = require("vscode");
const { memory, processes, size } = require("./memory");

const EVERY_MS = 5000;
const TIGHT = 0.9;
const LARGEST = 15;

const short = ({ used, total }) => `${size(used)} / ${size(total)}`;

function show(item) {
    const now = memory();
    item.text = `$(pulse) ${short(now)}`;
    item.tooltip = `Memory of the sandbox: ${short(now)}, from ${now.source}`;
    item.backgroundColor = now.used > now.total * TIGHT
        ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
}

function details() {
    const now = memory();
    const percent = now.total ? Math.round(100 * now.used / now.total) : 0;
    const lines = [
        { label: `${size(now.used)} used`, description: `${percent} %` },
        { label: `${size(Math.max(0, now.total - now.used))} free` },
        { label: `${size(now.total)} in all`, description: now.source },
        { label: "Largest processes", kind: vscode.QuickPickItemKind.Separator },
        ...processes(LARGEST).map(({ pid, name, bytes }) => ({ label: `${size(bytes)} ${name}`, description: String(pid) })),
    ];
    return vscode.window.showQuickPick(lines, { title: "Memory of the sandbox" });
}

function activate(context) {
    const item = vscode.window.createStatusBarItem("tendon.memory", vscode.StatusBarAlignment.Right, 100);
    item.name = "Memory of the sandbox";
    item.command = "tendon.memoryMonitor";
    show(item);
    item.show();
    const timer = setInterval(() => show(item), EVERY_MS);
    context.subscriptions.push(item, { dispose: () => clearInterval(timer) },
        vscode.commands.registerCommand("tendon.memoryMonitor", details));
}

module.exports = { activate };
