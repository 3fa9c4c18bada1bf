// How an answer ended, from the metadata that the server sends with its end. It is stored with the message.

type Metadata = { status?: string; reason?: string; error?: { message: string } };

/** Returns how an answer ended; undefined while it runs, if it is complete, and if the text of the model says it. */
export function endingOf(metadata: unknown): string | undefined {
  const { status, reason, error } = (metadata ?? {}) as Metadata;
  if (status === "failed") return error?.message ?? "The answer failed.";
  if (status === "incomplete") return `Incomplete: ${reason ?? "cut off"}`;
  return status === "cancelled" ? "Stopped." : undefined;
}
