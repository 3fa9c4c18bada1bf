// Chromium for the tests of pages: a browser, a page that records complaints, and what a test checks of any page.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

// installed once, with the client
const installed = createRequire(fileURLToPath(new URL("../../clients/typescript/package.json", import.meta.url)));
const { chromium } = installed("playwright-core");

export const LIMIT_MS = 60_000;

/** Makes the server not know the response that asked for an approval, as after a restart, until the result is called. */
export async function forgetful(page) {
  const forget = (route) => {
    const postData = route.request().postData()?.replaceAll(/\b(resp|mcpr)_\w+/g, "$1_forgotten");
    return route.continue({ ...(postData && { postData }) });
  };
  await page.route("**/api/**", forget);
  return () => page.unroute("**/api/**", forget);
}

/** Starts a browser. */
export const launch = (executablePath) =>
  chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"], timeout: LIMIT_MS });

/** Returns a new page, and the list of what its console complains about and of requests that leave the site. */
export async function opened(context, url) {
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT_MS);
  const complaints = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    const isOwn = request.url().startsWith(new URL(url).origin) || /^(data|blob):/.test(request.url());
    if (!isOwn) complaints.push(request.url());
  });
  await page.goto(url);
  return { page, complaints };
}

/** Returns whether nothing is wider than the screen. */
export const fits = (page) => page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth);

/** Returns what axe finds on a page, by all of its rules but experimental ones: also by those of AAA, which are off by default. */
export async function violations(page) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(installed("axe-core").source);
  return page.evaluate(async () => {
    const values = axe.getRules().filter(({ tags }) => !tags.includes("experimental") && !tags.includes("deprecated")).map(({ ruleId }) => ruleId);
    const { violations: found } = await axe.run(document, { resultTypes: ["violations"], runOnly: { type: "rule", values } });
    return found.flatMap(({ id, impact, nodes }) => nodes.map((node) => `${impact} ${id}: ${node.html.slice(0, 120)}`));
  });
}

/** Returns the texts of a page with a contrast below 7 (WCAG AAA), or less; disabled controls are exempt. */
export const lowContrasts = (page, least = 7) =>
  page.evaluate((atLeast) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const paint = (...colors) => {
      canvas.clearRect(0, 0, 1, 1);
      for (const color of colors) {
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
      }
      return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const light = (rgb) => rgb.reduce((sum, c, n) => sum + linear(c / 255) * [0.2126, 0.7152, 0.0722][n], 0);
    const found = [];
    for (const element of document.querySelectorAll("body *")) {
      const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== "");
      if (!hasText || element.closest(":disabled, .hidden, [hidden], script, style")) continue;
      const backgrounds = [];
      for (let one = element; one; one = one.parentElement) backgrounds.unshift(getComputedStyle(one).backgroundColor);
      const [a, b] = [light(paint(...backgrounds)), light(paint(...backgrounds, getComputedStyle(element).color))].sort((x, y) => y - x);
      if ((a + 0.05) / (b + 0.05) < atLeast) found.push(`${element.tagName} ${element.className} ${element.textContent.slice(0, 30)}`);
    }
    return [...new Set(found)];
  }, least);

/** Asserts that a page, as it is, can be read in both themes and on a narrow screen, and takes pictures as FILE-dark.png, ... */
export async function assertReadable(page, file) {
  const wide = page.viewportSize();
  for (const [look, colorScheme, size] of [["dark", "dark", wide], ["narrow", "light", { width: 320, height: 740 }], ["light", "light", wide]]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(size);
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    await page.screenshot({ path: `${file}-${look}.png` });
    assert.deepEqual([await violations(page), await lowContrasts(page), await fits(page)], [[], [], true], `${file}, ${look}`);
  }
}
