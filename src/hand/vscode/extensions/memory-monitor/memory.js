/* How much memory the sandbox uses: what its control group says, or else the machine. */
"use strict";

const fs = require("fs");

const read = (path) => {
    try {
        return fs.readFileSync(path, "utf8");
    } catch {
        return ""; /* not there, or not for us */
    }
};

const number = (path) => {
    const text = read(path).trim();
    return /^\d+$/.test(text) ? Number(text) : null; /* "max" is no number */
};

/* The value after a name in lines of "name value" or "Name: value kB", in bytes. */
const field = (text, name) => {
    const found = new RegExp(`^${name}:?\\s+(\\d+)( kB)?$`, "m").exec(text);
    return found ? Number(found[1]) * (found[2] ? 1024 : 1) : 0;
};

/* Where each version of control groups keeps it. */
const versions = [
    { line: /^0::(.*)$/m, root: "/sys/fs/cgroup", used: "memory.current", limit: "memory.max", cache: "inactive_file" },
    { line: /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m, root: "/sys/fs/cgroup/memory", used: "memory.usage_in_bytes",
        limit: "memory.limit_in_bytes", cache: "total_inactive_file" },
];

/* The group itself and those around it, as far as they can be seen. */
const groups = (path) => {
    const parts = path.split("/").filter((part) => part && part !== "..");
    return parts.map((_, i) => "/" + parts.slice(0, parts.length - i).join("/")).concat("");
};

/* The tightest limit below what the machine has, with what is used of it; null when there is none. */
const limited = (total) => {
    let best = null;
    const mine = read("/proc/self/cgroup");
    for (const version of versions) {
        const found = version.line.exec(mine);
        for (const group of found ? groups(found[1]) : []) {
            const directory = version.root + group;
            const limit = number(`${directory}/${version.limit}`), used = number(`${directory}/${version.used}`);
            if (limit === null || used === null || limit >= (best ? best.total : total)) continue;
            const cache = field(read(`${directory}/memory.stat`), version.cache);
            best = { used: Math.max(0, used - cache), total: limit, source: directory };
        }
    }
    return best;
};

/* {used, total, source}: bytes, without what is only cached. */
const memory = () => {
    const machine = read("/proc/meminfo"), total = field(machine, "MemTotal");
    return limited(total) || { used: total - field(machine, "MemAvailable"), total, source: "/proc/meminfo" };
};

/* The processes that hold most: [{pid, name, bytes}]. */
const processes = (count) => fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map((pid) => {
    const status = read(`/proc/${pid}/status`);
    const name = /^Name:\t(.*)$/m.exec(status);
    return { pid: Number(pid), name: name ? name[1] : "", bytes: field(status, "VmRSS") };
}).filter((process) => process.bytes).sort((a, b) => b.bytes - a.bytes).slice(0, count);

/* 1.5 GB, 120 MB */
const size = (bytes) => bytes >= 1 << 30 ? `${(bytes / (1 << 30)).toFixed(1)} GB` : `${Math.round(bytes / (1 << 20))} MB`;

module.exports = { memory, processes, size };
