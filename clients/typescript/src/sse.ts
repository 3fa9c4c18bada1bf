/** Parser of server-sent events: comments, `data` of several lines, and every line ending. Other fields are not used. */

export interface SseParser {
  /** Parses a piece of text, cut anywhere, and returns the data of the events that it completes. */
  feed(text: string): string[];
  /** Characters that wait for the end of their event. */
  readonly pending: number;
}

const LINE_END = /\r\n|\n|\r/;

export function sseParser(): SseParser {
  let rest = "";
  let data: string[] = [];
  let size = 0;
  let skipsNewline = false;
  return {
    feed(text) {
      const found: string[] = [];
      if (skipsNewline && text.startsWith("\n")) text = text.slice(1);
      else if (text === "") return found;
      skipsNewline = text.endsWith("\r"); // "\r\n" may be cut in the middle
      const lines = text.split(LINE_END);
      lines[0] = rest + lines[0];
      rest = lines.pop()!;
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) found.push(data.join("\n"));
          data = [];
          size = 0;
        } else if (line === "data" || line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
          size += line.length;
        }
      }
      return found;
    },
    get pending() {
      return rest.length + size;
    },
  };
}
