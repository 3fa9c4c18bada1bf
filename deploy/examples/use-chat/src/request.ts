/** Sends a request; the error of an answer that is no stream has the text that the server has for the person. */
export async function request(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const response = await fetch(input, init);
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Error(problem.detail ?? `The server answered with status ${response.status}.`);
}
