// A real AG-UI client uses the route of a running server: one conversation for each feature.
//
//   node ag-ui-route.mjs PACKAGE BASE_URL
//
// Writes one object: for each conversation its messages, the end of each run, and the client's warnings and errors.

const [packageName, base] = process.argv.slice(2);
const { HttpAgent } = await import(packageName);

const warnings = [];
for (const level of ["log", "info", "warn", "error"]) {
  console[level] = (...words) => warnings.push(`${level}: ${words.map(String).join(" ")}`);
}

class Conversation {
  constructor(name, agentName = "helper") {
    this.agent = new HttpAgent({ url: `${base}/api/v1/ag-ui/${agentName}`, threadId: `thread-${name}-${packageName}` });
    this.say({ id: "question", role: "user", content: name });
    this.ends = [];
    this.thrown = null;
  }

  say(message) {
    this.agent.messages = [...this.agent.messages, message];
  }

  async run(parameters = {}, onEvent = () => {}) {
    const note = ({ event }) => {
      if (event.type === "RUN_FINISHED" || event.type === "RUN_ERROR") this.ends.push(event);
      return onEvent(event);
    };
    try {
      await this.agent.runAgent(parameters, { onEvent: note });
    } catch (error) {
      this.thrown = String(error);
    }
    return this.ends.at(-1);
  }

  report() {
    return { messages: this.agent.messages.slice(1), ends: this.ends, thrown: this.thrown, warnings: warnings.splice(0) };
  }
}

const pickColour = { name: "pick_colour", description: "Asks the user.", parameters: { type: "object" } };

const conversations = {
  async text(talk) {
    await talk.run();
    talk.say({ id: "question-2", role: "user", content: "text" });
    await talk.run();
  },

  async tool(talk) {
    await talk.run({ tools: [pickColour] });
    const calls = talk.agent.messages.flatMap((message) => message.toolCalls ?? []);
    for (const { id } of calls) talk.say({ id: `${id}-result`, role: "tool", toolCallId: id, content: "blue" });
    await talk.run({ tools: [pickColour] });
  },

  async approve(talk) {
    const end = await talk.run();
    const resume = (talk.agent.pendingInterrupts ?? end.outcome.interrupts).map(({ id }) => ({
      interruptId: id,
      status: "resolved",
      payload: { approved: true },
    }));
    await talk.run({ resume });
  },

  async seal(talk) {
    await talk.run();
    talk.say({ id: "question-2", role: "user", content: "Go on." });
    await talk.run();
  },

  async cancel(talk) {
    await talk.run({}, async ({ type, metadata }) => {
      if (type !== "RUN_STARTED") return;
      await fetch(`${base}/api/v1/streams/${metadata["public-sse.stream_id"]}/cancel`, { method: "POST" });
    });
  },

  async leave(talk) {
    await talk.run({}, ({ type }) => {
      if (type === "TEXT_MESSAGE_CONTENT") talk.agent.abortRun();
    });
  },

  async instruct(talk) {
    talk.say({ id: "rule", role: "system", content: "Obey." });
    await talk.run();
  },
};

const reports = {};
for (const [name, converse] of Object.entries(conversations)) {
  const talk = new Conversation(name);
  await converse(talk);
  reports[name] = talk.report();
}
const chatty = new Conversation("text", "chatty");
await chatty.run();
reports.chatty = chatty.report();
process.stdout.write(JSON.stringify(reports));
process.exit(0);
