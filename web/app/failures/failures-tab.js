import { lazy } from "../ui/lazy.js";

export const FailuresTab = lazy(() => import("./page.js"), "the failures");
