export type * from "./public_sse_v1.js";
export { backoff, openStream, type EventStream, type Retry, type StreamOptions, type StreamRequest } from "./connection.js";
export { StreamError, type Problem, type StreamErrorCode, type StreamErrorDetails } from "./errors.js";
export { MARKS, marksAsText } from "./marks.js";
export { reduce } from "./reduce.js";
export { sseParser, type SseParser } from "./sse.js";
export * from "./state.js";
