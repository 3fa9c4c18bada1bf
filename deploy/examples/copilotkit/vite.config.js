import { defineConfig } from "vite";

// The page and the server share one origin, as they would behind a reverse proxy.
const proxy = { "/api": process.env.STREAM_SERVER_URL ?? "http://127.0.0.1:8000" };

export default defineConfig({ server: { proxy }, preview: { proxy } });
