/** The address of a running stream in `sessionStorage`, so that a reload continues it. Without storage nothing is kept. */

export function remember(key: string | undefined, location: string | undefined): void {
  if (key === undefined || typeof sessionStorage === "undefined") return;
  try {
    if (location === undefined) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, location);
  } catch {
    // storage may be full or forbidden
  }
}

export function recall(key: string | undefined): string | undefined {
  try {
    return (key !== undefined && typeof sessionStorage !== "undefined" && sessionStorage.getItem(key)) || undefined;
  } catch {
    return undefined;
  }
}
