// A long answer: what it costs the main thread of a page, as the browser measures and counts it.

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";

/** Returns an answer of this many deltas and a few more, in sections of Markdown; each ends with `Pier N is done.` */
export function sections(count) {
  const all = [];
  for (let total = 0; total < count; total += all.at(-1).length) all.push(section(all.length + 1).match(/[^]{1,6}/g));
  return all;
}

const section = (n) =>
  [
    `## Pier ${n}`,
    `The **ferry** from pier ${n} leaves at noon, and the fare is *five* crowns; see [the plan](https://northquay.example/${n}) and \`pier_${n}\`.`,
    [1, 2, 3].map((row) => `- boat ${row} has ${n + row} seats\n`).join(""),
    `| day | boats |\n|---|---|\n| Monday | ${n} |\n| Sunday | none |`,
    `\`\`\`python\nfor boat in range(${n}):\n    print(boat)\n\`\`\``,
    `Pier ${n} is done.\n\n`,
  ].join("\n\n");

/**
 * Sends sections one by one, and returns how many functions the page has called to show each of them.
 * Time would depend on what else the machine does; the number of calls does not.
 */
export async function callsPerSection(page, all, send, shows) {
  const session = await page.context().newCDPSession(page);
  await session.send("Profiler.enable");
  await session.send("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  const counts = [];
  for (const [n, section] of all.entries()) {
    for (const delta of section) send(delta);
    await shows(`Pier ${n + 1} is done.`);
    const { result } = await session.send("Profiler.takePreciseCoverage"); // since the last time
    const own = result.filter(({ url }) => url.startsWith("http")); // not those of the driver
    counts.push(own.flatMap(({ functions }) => functions).reduce((sum, { ranges }) => sum + ranges[0].count, 0));
  }
  await session.detach();
  return counts;
}

/** Returns how much more the second half of some counts is than the first. */
export function growth(counts) {
  const sum = (some) => some.reduce((all, one) => all + one, 0);
  const half = Math.floor(counts.length / 2);
  return sum(counts.slice(-half)) / sum(counts.slice(0, half));
}

const MOST_MS = 50;
const ATTEMPTS = 3; // a slow task of the page comes again, one of the machine does not
const WORK_MS = 20; // CPU time of `work` on the machine that MOST_MS is meant for

/** A fixed amount of work, in a task of its own: its CPU time tells how fast the machine is. */
function work() {
  performance.mark("work");
  let sum = 0;
  for (let n = 0; n < 4_000_000; n++) sum = (sum * 31 + n) | 0;
  return sum;
}

/**
 * Shows an answer, again if need be, and asserts that no task has kept the main thread of its page busy for 50 ms.
 * CPU time counts, which other programs do not add to; on a slow machine it may be as much longer as fixed work takes.
 * `show` opens a page and returns it with a function that shows the answer there.
 */
export async function assertShortTasks(file, t, show) {
  const reports = [];
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const { page, action } = await show();
    const { clock, cpu, factor } = await longestTask(page, action);
    const [least, most] = [cpu, MOST_MS * factor].map((ms) => ms.toFixed(0));
    reports.push(`longest task: ${least} ms of CPU time (at most ${most}), ${clock.toFixed(0)} ms by the clock`);
    if (cpu < MOST_MS * factor) break;
    if (attempt === ATTEMPTS) assert.fail(reports.join("\n"));
  }
  reports.forEach((report) => t.diagnostic(report));
  await writeFile(file, `${reports.join("\n")}\n`);
}

async function longestTask(page, action) {
  const browser = page.context().browser();
  await page.evaluate(work); // compiles it
  await browser.startTracing(page, { categories: ["toplevel", "blink.user_timing", "__metadata"] });
  for (let n = 0; n < 3; n++) await page.evaluate(work);
  await page.evaluate(() => performance.mark("start"));
  await action();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const threads = traceEvents.filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain");
  const main = traceEvents.filter(({ pid, tid }) => threads.some((thread) => thread.pid === pid && thread.tid === tid));
  const marks = (name) => main.filter((event) => event.name === name && event.cat.includes("user_timing")).map(({ ts }) => ts);
  const tasks = main.filter(({ name }) => name === "ThreadControllerImpl::RunTask");
  const [start] = marks("start");
  const works = marks("work").flatMap((at) => tasks.filter(({ ts, dur, tdur }) => tdur && ts <= at && at <= ts + dur).map(({ tdur }) => tdur / 1_000));
  assert.ok(works.length > 0 && start !== undefined, "the trace has the marks");
  const longest = (member) => Math.max(...tasks.filter(({ ts }) => ts > start).map((task) => task[member] ?? 0)) / 1_000;
  return { clock: longest("dur"), cpu: longest("tdur"), factor: Math.max(1, Math.min(...works) / WORK_MS) };
}
