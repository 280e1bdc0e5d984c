// Each view's code is loaded when it is looked at.
export const CODE = {
  overview: () => import("../overview/overview-tab.js"),
  durations: () => import("../durations/durations-tab.js"),
  events: () => import("../events/events-tab.js"),
  conversations: () => import("../conversations/conversations-tab.js"),
  chain: () => import("../chain/chain-tab.js"),
  "space-time": () => import("../spacetime/space-time-tab.js"),
  topology: () => import("../topology/topology-tab.js"),
  queue: () => import("../topology/queue-tab.js"),
  learn: () => import("../learn/learn-tab.js"),
  jobs: () => import("../jobs/jobs-tab.js"),
  admin: () => import("../admin/admin-tab.js"),
};
CODE.rules = CODE.learn; // the same, in the settings
