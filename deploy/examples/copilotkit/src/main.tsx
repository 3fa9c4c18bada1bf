import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Page } from "./page";
import "./style.css";

// CopilotKit has its dark colours below a class.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = (): void => void document.documentElement.classList.toggle("dark", dark.matches);
dark.addEventListener("change", follow);
follow();

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <Page />
  </StrictMode>,
);
