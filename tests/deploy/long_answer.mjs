// A long answer: what it costs the main thread of a page, as the browser measures and counts it.

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

/** Does something, and reports for how long the main thread of the page was blocked by one task, at most. */
export async function reportLongestTask(page, file, t, action) {
  const { clock, cpu } = await longestTask(page, action);
  const report = `the main thread was blocked for ${clock.toFixed(0)} ms at most; ${cpu.toFixed(0)} ms of CPU time at most`;
  t.diagnostic(report);
  await writeFile(file, `${report}\n`);
}

async function longestTask(page, action) {
  await page.context().browser().startTracing(page, { categories: ["toplevel", "__metadata"] });
  await action();
  const { traceEvents } = JSON.parse((await page.context().browser().stopTracing()).toString());
  const threads = traceEvents.filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain");
  const isMain = ({ pid, tid }) => threads.some((thread) => thread.pid === pid && thread.tid === tid);
  const tasks = traceEvents.filter((event) => event.name === "ThreadControllerImpl::RunTask" && isMain(event));
  const longest = (member) => Math.max(...tasks.map((task) => task[member] ?? 0)) / 1_000;
  return { clock: longest("dur"), cpu: longest("tdur") };
}
