// Shows a part of a message.
import { getToolName, isToolUIPart, type ChatAddToolApproveResponseFunction, type UIMessage } from "ai";

/** `onApproval` is missing in earlier messages, whose calls cannot be decided any more. */
type Props = { part: UIMessage["parts"][number]; onApproval?: ChatAddToolApproveResponseFunction };

/** Returns nothing for parts that this page does not know, such as `data-notice`. */
export function Part({ part, onApproval }: Props) {
  if (part.type === "text") return <p dir="auto">{part.text}</p>;
  if (part.type === "reasoning") return <details dir="auto"><summary>Reasoning</summary>{part.text}</details>;
  if (part.type === "source-url") return <a href={part.url} rel="noreferrer" target="_blank">{part.title ?? part.url}</a>;
  if (part.type === "file" && part.mediaType.startsWith("image/")) return <img src={part.url} alt="" />;
  if (!isToolUIPart(part)) return null;
  return (
    <section role="group" aria-label={getToolName(part)}>
      <b>{getToolName(part)}</b> <i>{part.state}</i>
      <pre>{JSON.stringify(part.input)}</pre>
      {part.state === "output-available" && <pre>{JSON.stringify(part.output)}</pre>}
      {part.state === "output-error" && <p>{part.errorText}</p>}
      {part.state === "approval-requested" && onApproval === undefined && <p>Not decided, and not run. Ask again to decide.</p>}
      {part.state === "approval-requested" && onApproval !== undefined && (
        <>
          <button onClick={() => void onApproval({ id: part.approval.id, approved: true })}>Approve</button>
          <button onClick={() => void onApproval({ id: part.approval.id, approved: false })}>Deny</button>
        </>
      )}
    </section>
  );
}
