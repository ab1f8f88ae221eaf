/* A command that shows a message: proof that extensions run in this sandbox. */
"use strict";

const os = require("os");
const vscode = require("vscode");

function activate(context) {
    context.subscriptions.push(vscode.commands.registerCommand("tendon.helloWorld", () =>
        vscode.window.showInformationMessage(`Hello World from Tendon, in the sandbox ${os.hostname()}.`)));
}

module.exports = { activate };
