import { lazy } from "../lazy.js";

export const EventDrawer = lazy(() => import("./drawer.js"), "the event");
