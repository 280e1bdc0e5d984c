// The page's clock: all ages are of one moment, and are drawn again together.
import { signal } from "../../vendor/signals.js";

const EVERY_MS = 1000;

export const now = signal(Date.now());

const tick = () => document.hidden || (now.value = Date.now());
setInterval(tick, EVERY_MS);
document.addEventListener("visibilitychange", tick);
