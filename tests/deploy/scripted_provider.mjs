// A provider of the Responses API that sends what a test dictates, and the programs between it and a page.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { connect, createServer as createSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { LIMIT_MS } from "./chromium.mjs";

const root = join(import.meta.dirname, "..", "..");

/** A request that reached the provider, and the stream that answers it. */
class Call {
  isGone = false;

  constructor(body, response) {
    this.body = body;
    this.response = response;
    response.on("close", () => (this.isGone = true));
  }

  /** Sends the headers and the first event. */
  begin() {
    this.response.writeHead(200, { "content-type": "text/event-stream" });
    this.event({ type: "response.created", response: { id: `resp_${Math.random().toString(36).slice(2)}`, status: "in_progress" } });
  }

  event(event) {
    this.response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  }

  text(delta) {
    this.event({ type: "response.output_text.delta", item_id: "msg_1", output_index: 0, content_index: 0, delta });
  }

  /** Ends the stream, with an answer that is complete. */
  end() {
    this.event({ type: "response.completed", response: { id: "resp_end", status: "completed" } });
    this.response.end();
  }

  /** Sends the events of a recorded case. */
  async play(name, { until = () => false } = {}) {
    const lines = (await readFile(join(root, "examples_ndjson", "openai_responses", `${name}.ndjson`), "utf8")).trim().split("\n");
    for (const event of lines.map((line) => JSON.parse(line))) {
      if (until(event)) return;
      this.event(event);
    }
    this.response.end();
  }
}

/** Starts the provider; `next()` returns the next request that arrives, and one that `isSilent` does not begin its answer. */
export async function startProvider() {
  const calls = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    calls.push(new Call(JSON.parse(Buffer.concat(chunks).toString()), response));
    if (!provider.isSilent) calls.at(-1).begin();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const provider = {
    url: `http://127.0.0.1:${server.address().port}`,
    isSilent: false,
    next: async () => {
      await until(() => calls.length > 0, "a request reaches the provider");
      return calls.shift();
    },
    close: () => (server.close(), server.closeAllConnections()),
  };
  return provider;
}

/** Starts `projector serve` before a provider, at a port that it has again after `kill()` and `start()`. With a `key`, callers need it. */
export async function startProjector(python, provider, key) {
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), "projector-"));
  const config = join(folder, "projector.toml");
  const upstream = `[upstreams.scripted]\nbase_url = "${provider.url}/v1"\napi_key = "\${PROVIDER_KEY}"\n`;
  const auth = key ? `[auth.api_keys]\ncaller = "sha256:${createHash("sha256").update(key).digest("hex")}"\n` : "";
  await writeFile(config, `demo_page = true\n${upstream}${auth}[agents.default]\nupstream = "scripted"\nmodel = "test"\non_disconnect = "continue"\n`);
  const url = `http://127.0.0.1:${port}`;
  const env = { ...process.env, PROVIDER_KEY: "unused", PYTHONPATH: root };
  let program;
  const kill = async () => {
    program.kill("SIGKILL");
    if (program.exitCode === null && program.signalCode === null) await once(program, "exit");
  };
  const start = async () => {
    program = spawn(python, ["-m", "projector", "serve", "--config", config, "--port", `${port}`], { cwd: root, env, stdio: "ignore" });
    await answers(`${url}/readyz`, program);
  };
  await start();
  return { url, start, kill, close: () => kill().then(() => rm(folder, { recursive: true })) };
}

/** Starts a way to a server that can be cut: connections are reset, and new ones refused, until it is mended. */
export async function startWire(target) {
  const port = Number(new URL(target).port);
  const sockets = new Set();
  let isCut = false;
  const server = createSocket((near) => {
    if (isCut) return near.resetAndDestroy();
    const far = connect(port, "127.0.0.1");
    for (const [one, other] of [[near, far], [far, near]]) {
      sockets.add(one);
      one.on("error", () => other.destroy()).on("close", () => (sockets.delete(one), other.destroy()));
      one.pipe(other);
    }
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const cut = () => {
    isCut = true;
    for (const socket of sockets) socket.resetAndDestroy();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, cut, mend: () => (isCut = false), close: () => (server.close(), cut()) };
}

/** Starts the built Next.js app before a projector, with more variables. */
export async function startNext(folder, projector, variables = {}) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const env = { ...process.env, NEXT_TELEMETRY_DISABLED: "1", STREAM_SERVER_URL: projector.url, ...variables };
  const command = ["node_modules/next/dist/bin/next", "start", "-H", "127.0.0.1", "-p", `${port}`];
  const program = spawn(process.execPath, command, { cwd: folder, env, stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  program.stderr.setEncoding("utf8").on("data", (text) => (log += text));
  await answers(url, program);
  return { url, log: () => log, close: () => program.kill("SIGKILL") };
}

async function answers(url, program) {
  const deadline = Date.now() + LIMIT_MS;
  while (!(await fetch(url).then(({ ok }) => ok, () => false))) {
    if (program.exitCode !== null || Date.now() > deadline) throw new Error(`no answer at ${url}`);
    await pause(50);
  }
}

/**
 * Returns a free port, which a program listens on later, and again after it was killed. Systems give ports from 32,768
 * on to connections and to programs that ask for any; one below stays free.
 */
async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const socket = createSocket().listen(port, "127.0.0.1");
    const isFree = await once(socket, "listening").then(() => true, () => false);
    if (!isFree) continue;
    socket.close();
    await once(socket, "close");
    return port;
  }
}

/** Waits until something holds, however slow this machine is. */
export async function until(holds, what) {
  const deadline = Date.now() + LIMIT_MS;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`not within ${LIMIT_MS} ms: ${what}`);
    await pause(20);
  }
}
