// Who stands where: one lane a participant, side by side within its group; a collapsed group is
// one lane for all of its participants.

export const GROUPINGS = [
  ["user", "User"],
  ["connection", "Connection"],
  ["none", "Nothing"],
];

/**
 * `participants` as the API gives them; `seen` the numbers that have loaded events.
 * `{lanes: [{label, title, group}], groups: [{key, label, from, to, collapsed}], laneOf: Map}`
 */
export function arrange(participants, seen, grouping, collapsed) {
  const known = new Map(participants.map((p) => [p.participant, p]));
  const groups = new Map();
  for (const number of [...seen].sort((a, b) => a - b)) {
    const who = known.get(number);
    const key = groupOf(who, grouping);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push({ number, who });
  }
  const lanes = [];
  const shown = [];
  const laneOf = new Map();
  for (const [key, members] of groups) {
    const folded = grouping !== "none" && collapsed.has(key);
    const from = lanes.length;
    for (const member of members) {
      laneOf.set(member.number, folded ? from : lanes.length);
      if (!folded) lanes.push(lane(member, grouping));
    }
    if (folded) lanes.push({ label: `${members.length}`, title: `${key}: ${members.length} participants`, folded });
    if (grouping !== "none") shown.push({ key, from, to: lanes.length, collapsed: folded, size: members.length });
  }
  return { lanes, groups: shown, laneOf };
}

function groupOf(who, grouping) {
  if (grouping === "none") return "";
  const values = new Set((who?.channels ?? []).map((channel) => channel[grouping]));
  if (values.size === 0) return "unknown";
  return values.size === 1 ? [...values][0] : "several";
}

function lane({ number, who }, grouping) {
  const user = who?.channels[0]?.user;
  const label = grouping === "none" && user ? `${number} ${user}` : String(number);
  return { label, title: who ? `Participant ${number}: ${who.name}` : `Participant ${number}` };
}

/** Lane of each participant number as a flat array, for the painter's inner loop. */
export function laneTable({ laneOf }) {
  let most = 0;
  for (const number of laneOf.keys()) most = Math.max(most, number);
  const table = new Int32Array(most + 1).fill(-1);
  for (const [number, lane] of laneOf) table[number] = lane;
  return table;
}
