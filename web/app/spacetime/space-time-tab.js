import { lazy } from "../ui/lazy.js";

export const SpaceTimeTab = lazy(() => import("./diagram.js"), "the diagram");
