import { lazy } from "../ui/lazy.js";

export const TopologyTab = lazy(() => import("./page.js"), "the topology");
